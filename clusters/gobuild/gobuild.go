// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package gobuild builds the project's own programs, once for each state of their sources: the control plane, the lab
// command, the checks, the pinned tools. It shows how far it is, two of them at once do not disturb each other, and an
// interrupted one leaves nothing half made. Submissions of students are not built here: they have rules of their own.
package gobuild

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"lva.io/operators/clusters/process"
)

// Flags are the build flags of everything in this project. They are the same everywhere so that the control plane, the
// harness and the labs share compiled packages in Go's build cache. Neither the folder nor the commit in which a program
// was built is in it, so that the same sources are the same program.
var Flags = []string{"-trimpath", "-buildvcs=false"}

// Target is a program to build.
type Target struct {
	// Package is what to build, as seen from Module: "." or an import path.
	Package string
	// Module is the folder of the module in which it is built.
	Module string
	// Output is the program's file.
	Output string
	// Sources are folders whose Go files and embedded files decide whether the program is built anew, together with
	// the module's go.mod and go.sum. Modules nested in them do not count. Default: Module.
	Sources []string
	// LinkFlags are given to the linker besides -s -w.
	LinkFlags []string
	// Tags are build tags.
	Tags []string
	// C lets the program have parts in C. Default: there are none, so that it is linked statically without a C compiler.
	C bool
	// Test builds a package's test binary instead of a program. What is compiled for it is not counted for Progress.
	Test bool
}

// Progress is called while building. phase is "modules" (downloaded; the total is unknown: 0) or "packages" (compiled).
type Progress func(phase string, done, total int)

// Environment is the environment in which this project builds Go code: no workspace, no C, no other toolchain than
// the one that is there.
func Environment() []string {
	return append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOFLAGS=-mod=readonly")
}

// Fresh reports whether the program is there and fits its sources.
func (t Target) Fresh() bool {
	stamp, err := t.stamp()
	return err == nil && t.fresh(stamp)
}

func (t Target) fresh(stamp string) bool {
	have, err := os.ReadFile(t.Output + ".stamp")
	if err != nil || string(have) != stamp {
		return false
	}
	_, err = os.Stat(t.Output)
	return err == nil
}

// Ensure builds the program unless it is there and fits its sources. A second Ensure of the same program, in this
// process or another, waits for the first.
func (t Target) Ensure(ctx context.Context, progress Progress) error {
	stamp, err := t.stamp()
	if err != nil {
		return err
	}
	if t.fresh(stamp) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(t.Output), 0o755); err != nil {
		return fmt.Errorf("making the folder for %s: %w", filepath.Base(t.Output), err)
	}
	unlock, err := Lock(ctx, t.Output+".lock")
	if err != nil {
		return fmt.Errorf("waiting for another build of %s: %w", filepath.Base(t.Output), err)
	}
	defer unlock()
	if t.fresh(stamp) {
		return nil
	}
	// We hold the lock, so a temporary file beside the program is that of a build that was killed. The old stamp goes,
	// too: if we are killed between the new program and its stamp, it must not vouch for a program that it does not fit.
	abandoned, _ := filepath.Glob(t.Output + ".[0-9]*")
	for _, file := range append(abandoned, t.Output+".stamp") {
		_ = os.Remove(file)
	}
	if err := t.build(ctx, progress); err != nil {
		return fmt.Errorf("building %s: %w", filepath.Base(t.Output), err)
	}
	return os.WriteFile(t.Output+".stamp", []byte(stamp), 0o644)
}

func (t Target) build(ctx context.Context, progress Progress) error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("Go is not installed or not on PATH: install it from go.dev/dl or your system's packages") //nolint:staticcheck // Go is a name
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer scope.Close()

	total := 0
	if !t.Test {
		// What is stale is what will be compiled: that is the whole that progress is a part of.
		stale, err := t.goCommand(ctx, scope, progress, 0, "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", t.Package)
		if err != nil {
			return err
		}
		total = len(strings.Fields(stale))
	}
	temporary := filepath.Join(scope.Dir, filepath.Base(t.Output))
	args := []string{"build", "-v", "-o", temporary}
	if t.Test {
		args = []string{"test", "-c", "-o", temporary}
	}
	args = append(args, "-ldflags", strings.Join(append([]string{"-s", "-w"}, t.LinkFlags...), " "))
	if _, err := t.goCommand(ctx, scope, progress, total, append(args, t.Package)...); err != nil {
		return err
	}
	return Install(temporary, t.Output)
}

// goCommand runs the go command and returns what it prints. Its messages are counted for progress, or kept for the error.
func (t Target) goCommand(ctx context.Context, scope *process.Scope, progress Progress, total int, args ...string) (string, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	flags := slices.Clone(Flags)
	if len(t.Tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(t.Tags, ","))
	}
	args = append([]string{args[0]}, append(flags, args[1:]...)...)
	environment := Environment()
	if t.C {
		environment = append(environment, "CGO_ENABLED=1")
	}
	messagesRead, messagesWrite, err := os.Pipe()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	p, err := scope.Start(process.Spec{Path: path, Args: args, Dir: t.Module, Env: environment, Stdout: &out, Stderr: messagesWrite})
	messagesWrite.Close()
	if err != nil {
		messagesRead.Close()
		return "", err
	}
	var problems []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer messagesRead.Close()
		problems = follow(messagesRead, total, progress)
	}()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		<-read
		return "", context.Cause(ctx)
	}
	<-read
	if p.Err() != nil {
		if len(problems) > 20 {
			problems = append(problems[:20], "…")
		}
		return "", fmt.Errorf("go %s: %w\n%s", args[0], p.Err(), strings.Join(problems, "\n"))
	}
	return out.String(), nil
}

// follow reads the messages of the go command: downloads, import paths (with -v), and everything else: problems.
func follow(messages io.Reader, total int, progress Progress) (problems []string) {
	modules, packages := 0, 0
	lines := bufio.NewScanner(messages)
	lines.Buffer(nil, 1<<20) // a linker that fails repeats its whole command line
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			modules++
			if progress != nil {
				progress("modules", modules, 0)
			}
		case line != "" && !strings.ContainsAny(line, " \t:"):
			packages++
			if progress != nil {
				progress("packages", min(packages, total), total)
			}
		case line != "":
			problems = append(problems, line)
		}
	}
	return problems
}

// stamp is a digest of all that the program is made from.
func (t Target) stamp() (string, error) {
	digest := sha256.New()
	goProgram, err := exec.LookPath("go")
	if err == nil {
		if info, err := os.Stat(goProgram); err == nil {
			fmt.Fprintln(digest, goProgram, info.Size(), info.ModTime().UnixNano())
		}
	}
	fmt.Fprintln(digest, t.Package, t.LinkFlags, t.Test, Flags)
	if len(t.Tags) > 0 || t.C {
		fmt.Fprintln(digest, t.Tags, t.C)
	}
	sources := t.Sources
	if len(sources) == 0 {
		sources = []string{t.Module}
	} else {
		for _, name := range []string{"go.mod", "go.sum"} {
			content, err := os.ReadFile(filepath.Join(t.Module, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("reading the sources of %s: %w", filepath.Base(t.Output), err)
			}
			fmt.Fprintf(digest, "%s %d\n%s", name, len(content), content)
		}
	}
	for _, folder := range sources {
		if err := addFolder(digest, folder, t.Test); err != nil {
			return "", fmt.Errorf("reading the sources of %s: %w", filepath.Base(t.Output), err)
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

func addFolder(digest io.Writer, folder string, tests bool) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path == folder {
				return nil
			}
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if nested == nil || strings.HasPrefix(name, ".") || name == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, "_test.go") && !tests {
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".mod", ".sum", ".yaml", ".json", ".html", ".css", ".js", ".tmpl":
		default:
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		fmt.Fprintln(digest, relative, len(content))
		_, err = digest.Write(content)
		return err
	})
}

// Install puts a built file in its place at once, though the place may be on another disk or in use.
func Install(from, to string) error {
	beside := fmt.Sprintf("%s.%d", to, os.Getpid())
	defer os.Remove(beside)
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(beside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err := errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return os.Rename(beside, to)
}

// Lock waits until it holds the file's lock alone. A lock dies with its holder, so a killed build blocks nobody.
func Lock(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	held := make(chan struct{})
	var failed error
	go func() {
		defer close(held)
		failed = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}()
	select {
	case <-held:
	case <-ctx.Done():
		// The system call goes on waiting; when it gets the lock, nobody wants it any more.
		go func() {
			<-held
			file.Close()
		}()
		return nil, context.Cause(ctx)
	}
	if failed != nil {
		file.Close()
		return nil, failed
	}
	return func() { file.Close() }, nil
}
