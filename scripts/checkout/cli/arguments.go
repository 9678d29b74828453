// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Prepare makes a command and all its subcommands answer a wrong flag with a sentence about what is expected.
func Prepare(root *cobra.Command) *cobra.Command {
	root.SetFlagErrorFunc(flagError)
	return root
}

// NoArguments checks the arguments of a command that takes none.
func NoArguments(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	path := command.CommandPath()
	if !command.HasSubCommands() {
		return fmt.Errorf("`%s` takes no arguments: leave out %s", path, strings.Join(args, " "))
	}
	sentence := fmt.Sprintf("there is no command `%s %s`: `%s --help` lists them", path, args[0], path)
	if similar := command.SuggestionsFor(args[0]); len(similar) > 0 {
		sentence += "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return errors.New(sentence)
}

// OneArgument returns the argument check of commands that take exactly one, such as "image". Its error shows the
// example.
func OneArgument(what, example string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return fmt.Errorf("`%s` needs one %s, as in `%s %s`", command.CommandPath(), what, command.CommandPath(), example)
	}
}

// Exclusive makes a command refuse two flags together.
func Exclusive(command *cobra.Command, one, other string) {
	before := command.Args
	command.Args = func(command *cobra.Command, args []string) error {
		if command.Flags().Changed(one) && command.Flags().Changed(other) {
			return fmt.Errorf("--%s and --%s exclude each other: leave one of them out", one, other)
		}
		if before == nil {
			return nil
		}
		return before(command, args)
	}
}

// Folder is the value of a flag that names a folder. An empty value is refused, because it comes from an unset variable
// of a script, and would silently name another folder.
type Folder string

// Set implements pflag.Value.
func (f *Folder) Set(name string) error {
	if name == "" {
		return errors.New("must not be empty")
	}
	*f = Folder(name)
	return nil
}

func (f *Folder) String() string { return string(*f) }

// Type names the value in a command's help.
func (*Folder) Type() string { return "folder" }

// Count is the value of a flag that is a number of times or things: 1 or more.
type Count int

// Set implements pflag.Value.
func (c *Count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("must be a whole number of at least 1")
	}
	*c = Count(n)
	return nil
}

func (c *Count) String() string { return strconv.Itoa(int(*c)) }

// Type names the value in a command's help.
func (*Count) Type() string { return "count" }

// expected describes what a flag expects, by the type of its value.
var expected = map[string]string{
	"bool":        "true, false or nothing",
	"count":       "a whole number of at least 1",
	"duration":    "a duration such as 90s or 1h30m",
	"folder":      "a folder",
	"int":         "a whole number",
	"int64":       "a whole number",
	"sandbox":     "auto, required or off",
	"string":      "text",
	"stringSlice": "a comma-separated list of names",
	"uint32":      "a whole number from 0 to 4294967295",
	"uint64":      "a whole number of at least 0",
}

// flagError describes in a sentence what is wrong with a flag.
func flagError(command *cobra.Command, err error) error {
	help := fmt.Sprintf("`%s --help` lists the flags", command.CommandPath())
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		return fmt.Errorf("invalid value %q for --%s: it must be %s; %s",
			invalid.GetValue(), flag.Name, expected[flag.Value.Type()], help)
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		flag := missing.GetFlag()
		return fmt.Errorf("--%s needs a value: add %s; %s", flag.Name, expected[flag.Value.Type()], help)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return fmt.Errorf("there is no flag %s%s: %s", dashes, unknown.GetSpecifiedName(), help)
	}
	if syntax, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return fmt.Errorf("%s is not a flag: %s", syntax.GetSpecifiedFlag(), help)
	}
	return err
}
