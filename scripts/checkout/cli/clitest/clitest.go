// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package clitest tests that each command answers wrong arguments and flags with a sentence about what to do. It does
// not test what the commands do.
package clitest

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// foreign are words of the libraries that parse a command line. They explain neither what is expected nor what to do.
var foreign = regexp.MustCompile(`arg\(s\)|strconv|parsing "|invalid argument|` +
	`unknown (command|flag|shorthand)|in the group|needs an argument|required flag`)

// CheckUsageErrors calls a command and all its subcommands with wrong numbers of arguments and with wrong
// flags. newRoot creates the command for each call, because a flag that was set stays set.
func CheckUsageErrors(t *testing.T, newRoot func() *cobra.Command) {
	t.Helper()
	tried := 0
	try := func(path []string, args ...string) {
		t.Helper()
		tried++
		root := newRoot()
		root.SetArgs(slices.Concat(path, args))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		// A command that accepts its arguments is canceled at once.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := root.ExecuteContext(ctx)
		line := strings.Join(slices.Concat([]string{root.Name()}, path, args), " ")
		switch {
		case err == nil:
			t.Errorf("%s: there is no error", line)
		case foreign.MatchString(err.Error()) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: %v", line, err)
		}
	}
	var each func(command *cobra.Command, path []string)
	each = func(command *cobra.Command, path []string) {
		for _, below := range command.Commands() {
			each(below, append(slices.Clip(path), below.Name()))
		}
		if command.DisableFlagParsing || command.Hidden || command.Name() == "help" || command.Name() == "completion" {
			return
		}
		five := []string{"a", "b", "c", "d", "e"}
		if command.Args != nil && command.ValidateArgs(five) != nil {
			try(path, five...)
		}
		if command.Args != nil && command.ValidateArgs(nil) != nil {
			try(path)
		}
		try(path, "--no-such-flag")
		try(path, "-Z")
		try(path, "--=x")
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			switch flag.Value.Type() {
			case "bool":
				try(path, "--"+flag.Name+"=perhaps")
			case "string", "stringSlice":
				try(path, "--"+flag.Name)
			case "folder":
				try(path, "--"+flag.Name, "")
			case "count":
				try(path, "--"+flag.Name, "0")
				try(path, "--"+flag.Name, "many")
			default:
				try(path, "--"+flag.Name, "many")
				try(path, "--"+flag.Name)
			}
		})
	}
	each(newRoot(), nil)
	if tried < 50 {
		t.Errorf("only %d command lines were tried", tried)
	}
}
