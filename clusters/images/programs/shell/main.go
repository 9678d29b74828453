// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command shell is a POSIX shell, mvdan.cc/sh, with mkdir, rm, ls and cat built in. It is /bin/sh in the image in which
// local-path storage runs its scripts. With it, storage can create volumes, and users can read files of a node, where
// there are no Debian packages to take a shell from.
//
//	sh FILE [ARGUMENT…]
//	sh -c COMMANDS [NAME [ARGUMENT…]]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
	var status interp.ExitStatus
	switch {
	case errors.As(err, &status):
		os.Exit(int(status))
	case err != nil:
		fmt.Fprintln(os.Stderr, "sh:", err)
		os.Exit(2)
	}
}

// run runs a script. The error is an interp.ExitStatus if the script ended with one.
func run(ctx context.Context, args []string, out, problems io.Writer) error {
	if len(args) == 0 || args[0] == "-c" && len(args) == 1 {
		return errors.New("name the file of a script, or give commands behind -c")
	}
	var script io.Reader
	name, parameters := args[0], args[1:]
	if name == "-c" {
		script, parameters = strings.NewReader(args[1]), args[min(3, len(args)):]
	} else {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		script = file
	}
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(script, name)
	if err != nil {
		return err
	}
	runner, err := interp.New(
		interp.StdIO(os.Stdin, out, problems),
		interp.Params(append([]string{"--"}, parameters...)...),
		interp.ExecHandlers(tools),
	)
	if err != nil {
		return err
	}
	return runner.Run(ctx, parsed)
}

// tools runs the commands that are known here, and leaves the others to PATH.
func tools(next interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		shell := interp.HandlerCtx(ctx)
		known, ok := map[string]func(dir string, args []string) error{
			"mkdir": mkdir, "rm": rm,
			"ls":  func(dir string, args []string) error { return ls(dir, args, shell.Stdout) },
			"cat": func(dir string, args []string) error { return cat(dir, args, shell.Stdout) },
		}[args[0]]
		if !ok {
			return next(ctx, args)
		}
		if err := known(shell.Dir, args[1:]); err != nil {
			fmt.Fprintf(shell.Stderr, "%s: %v\n", args[0], err)
			return interp.ExitStatus(1)
		}
		return nil
	}
}

// mkdir creates folders. With -p it also creates their parents, and accepts folders that exist. -m MODE sets the mode,
// in octal.
func mkdir(dir string, args []string) error {
	parents, mode, chosen := false, fs.FileMode(0o777), false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "-p":
			parents = true
		case args[0] == "-m" && len(args) > 1:
			bits, err := strconv.ParseUint(args[1], 8, 9)
			if err != nil {
				return fmt.Errorf("invalid mode %q: write it in octal, as 0755", args[1])
			}
			mode, chosen, args = fs.FileMode(bits), true, args[1:]
		case args[0] != "--":
			return fmt.Errorf("%s is not known here: there are -p and -m MODE", args[0])
		}
		args = args[1:]
	}
	for _, name := range args {
		path := at(dir, name)
		if parents {
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return err
			}
		}
		err := os.Mkdir(path, mode)
		if info, statErr := os.Stat(path); parents && statErr == nil && info.IsDir() {
			err = nil
		}
		if err == nil && chosen {
			err = os.Chmod(path, mode) // regardless of the umask
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rm removes files. With -r it also removes folders with everything in them. With -f it ignores missing files.
func rm(dir string, args []string) error {
	recursive, force := false, false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		for _, letter := range strings.TrimLeft(args[0], "-") {
			switch letter {
			case 'r', 'R':
				recursive = true
			case 'f':
				force = true
			default:
				return fmt.Errorf("-%c is not known here: there are -r and -f", letter)
			}
		}
		args = args[1:]
	}
	for _, name := range args {
		path := at(dir, name)
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && force:
			continue
		case err != nil:
			return err
		case info.IsDir() && !recursive:
			return fmt.Errorf("%s is a folder: remove it with -r", name)
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// ls lists the contents of folders, one name a line, and files themselves. With -l it also prints their modes and sizes
// in bytes.
func ls(dir string, args []string, out io.Writer) error {
	long := len(args) > 0 && args[0] == "-l"
	if long {
		args = args[1:]
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	if strings.HasPrefix(args[0], "-") {
		return fmt.Errorf("%s is not known here: there is -l", args[0])
	}
	list := func(info fs.FileInfo) {
		if long {
			fmt.Fprintf(out, "%s %d ", info.Mode(), info.Size())
		}
		fmt.Fprintln(out, info.Name())
	}
	for _, name := range args {
		path := at(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			list(info)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil { // otherwise it was removed meanwhile
				list(info)
			}
		}
	}
	return nil
}

// cat prints files.
func cat(dir string, args []string, out io.Writer) error {
	for _, name := range args {
		file, err := os.Open(at(dir, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(out, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// at resolves a name relative to a folder.
func at(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
