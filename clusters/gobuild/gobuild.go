// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package gobuild builds the project's own programs, once for each state of their sources: the control plane, the lab
// command, the checks, the pinned tools. It reports its progress. Builds that run at the same time do not disturb each
// other, and an interrupted one leaves nothing half-built. The package does not build students' submissions, which have
// rules of their own.
package gobuild

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/process"
)

// Flags are the build flags of everything in this project. They are the same everywhere so that the control plane, the
// harness and the labs share compiled packages in Go's build cache. A program includes neither the folder nor the
// commit in which it was built, so that the same sources produce the same program.
var Flags = []string{"-trimpath", "-buildvcs=false"}

// Target is a program to build.
type Target struct {
	// Package is the package to build, relative to Module: "." or an import path.
	Package string
	// Module is the absolute path of the folder of the module in which it is built.
	Module string
	// Output is the program's file.
	Output string
	// LinkFlags are passed to the linker in addition to -s -w.
	LinkFlags []string
	// Tags are build tags.
	Tags []string
	// C allows C code in the program. By default there is none, so that it is linked statically without a C compiler.
	C bool
	// Arch is the program's processor architecture, as GOARCH. Default: that of Go.
	Arch string
	// Test builds a package's test binary instead of a program.
	Test bool
}

// Progress is called during a build. unit is "modules" (downloaded, with total 0 because it is unknown) or "packages"
// (compiled).
type Progress func(unit string, done, total int)

// ErrNoGo reports that there is no go command.
var ErrNoGo = errors.New("Go is not installed or not on PATH: " + //nolint:staticcheck // Go is a name
	"install it from go.dev/dl or your system's packages")

// Ensure builds the program unless it exists and is up to date with its sources. A second Ensure of the same program,
// in this process or another, waits for the first.
func (t Target) Ensure(ctx context.Context, progress Progress) error {
	if t.Fresh() {
		return nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("building %s: %w", filepath.Base(t.Output), ErrNoGo)
	}
	if err := os.MkdirAll(filepath.Dir(t.Output), 0o755); err != nil {
		return fmt.Errorf("creating the folder for %s: %w", filepath.Base(t.Output), err)
	}
	unlock, err := filelock.Wait(ctx, t.Output+".lock")
	if err != nil {
		return fmt.Errorf("waiting for another build of %s: %w", filepath.Base(t.Output), err)
	}
	defer unlock()
	if t.Fresh() {
		return nil
	}
	// We hold the lock, so the temporary files beside the program belong to a killed build. Its compilers may still write
	// into its work folder, which then stays until the next build.
	for _, pattern := range []string{".[0-9]*", ".stamp.[0-9]*", workDirSuffix + "*"} {
		abandoned, _ := filepath.Glob(t.Output + pattern)
		for _, name := range abandoned {
			_ = os.RemoveAll(name)
		}
	}
	if progress == nil {
		progress = func(string, int, int) {}
	}
	if err := t.build(ctx, progress); err != nil {
		return fmt.Errorf("building %s: %w", filepath.Base(t.Output), err)
	}
	return nil
}

// workDir is the folder and the scope of processes of one build.
type workDir struct {
	scope *process.Scope
	// dir is for files. It is beside the program, since TMPDIR may be in memory, and Kubernetes takes 3 GB.
	dir string
}

// workDirSuffix follows the program's name in that of a work folder.
const workDirSuffix = ".work"

// workDir creates a work folder. A build never uses the folder of another build, whose compilers may still write there.
func (t Target) workDir() (w workDir, err error) {
	if w.dir, err = os.MkdirTemp(filepath.Dir(t.Output), filepath.Base(t.Output)+workDirSuffix); err != nil {
		return w, err
	}
	if w.scope, err = process.NewScope(process.Options{}); err != nil {
		return w, errors.Join(err, os.RemoveAll(w.dir))
	}
	return w, nil
}

// close ends the processes of the build, and removes its folder.
func (w workDir) close() error { return errors.Join(w.scope.Close(), os.RemoveAll(w.dir)) }

func (t Target) build(ctx context.Context, progress Progress) (err error) {
	work, err := t.workDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.close()) }()

	made := stamp{Go: goProgram(), Recipe: t.recipe()}
	listed, err := t.list(ctx, work, progress)
	if err != nil {
		return err
	}
	made.Packages = listed.own
	// The digest is computed before the build, because the program may lack changes that are made during the build.
	if made.Sources, err = t.digest(made.Packages); err != nil {
		return fmt.Errorf("reading its sources: %w", err)
	}
	temporary := filepath.Join(work.dir, filepath.Base(t.Output))
	link := []string{
		"-o", temporary,
		"-ldflags", strings.Join(append([]string{"-s", "-w"}, t.LinkFlags...), " "),
		t.Package,
	}
	count := follow{unit: "packages", total: listed.stale, progress: progress}
	args := append([]string{"build", "-v"}, link...)
	if t.Test {
		// `go test -c` does not report what it compiles. So all packages except the tests are compiled first.
		if len(listed.imports) > 0 {
			if _, err := t.goCommand(ctx, work, &count, append([]string{"build", "-v"}, listed.imports...)...); err != nil {
				return err
			}
		}
		// Vet would read all packages of all modules, which takes longer than compiling them. `make verify` lints our own
		// packages.
		args = append([]string{"test", "-c", "-vet=off"}, link...)
	}
	if _, err := t.goCommand(ctx, work, &count, args...); err != nil {
		return err
	}
	if err := Install(temporary, t.Output); err != nil {
		return err
	}
	return t.writeStamp(made)
}

// listing is what the go command reports about the packages of a program.
type listing struct {
	own []sourcePackage
	// stale is how many packages will be compiled, and imports are those of them that are no tests.
	stale   int
	imports []string
}

// list asks the go command for the packages of the program. It downloads missing modules.
func (t Target) list(ctx context.Context, work workDir, progress Progress) (l listing, err error) {
	// Without the files that packages embed, all packages that embed any would be stale.
	args := []string{"list", "-deps", "-json=Dir,ImportPath,ForTest,Name,Stale,Standard,Module," +
		"EmbedPatterns,TestEmbedPatterns,XTestEmbedPatterns,EmbedFiles,TestEmbedFiles,XTestEmbedFiles"}
	if t.Test {
		args = append(args, "-test")
	}
	out, err := t.goCommand(ctx, work, &follow{unit: "modules", progress: progress}, append(args, t.Package)...)
	if err != nil {
		return l, err
	}
	for decoder := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct {
			Dir, ImportPath, ForTest, Name                       string
			Stale, Standard                                      bool
			EmbedPatterns, TestEmbedPatterns, XTestEmbedPatterns []string
			Module                                               *struct {
				Dir     string
				Main    bool
				Replace *struct{ Version string }
			}
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return l, nil
		} else if err != nil {
			return l, fmt.Errorf("reading the output of go list: %w", err)
		}
		isTest := p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test")
		if p.Stale {
			l.stale++
			if !isTest && p.Name != "main" {
				l.imports = append(l.imports, p.ImportPath)
			}
		}
		// Packages of this project are those of the module itself, and of modules that a replace directive takes from a
		// folder beside it. All others are fixed by go.sum.
		if p.Standard || p.Module == nil {
			continue
		}
		if local := p.Module.Replace != nil && p.Module.Replace.Version == ""; !p.Module.Main && !local {
			continue
		}
		own := sourcePackage{Embeds: p.EmbedPatterns, Tests: p.ForTest != ""}
		if own.Tests {
			own.Embeds = slices.Concat(p.EmbedPatterns, p.TestEmbedPatterns, p.XTestEmbedPatterns)
		}
		if own.Folder, err = filepath.Rel(t.Module, p.Dir); err != nil {
			return l, err
		}
		if own.Module, err = filepath.Rel(t.Module, p.Module.Dir); err != nil {
			return l, err
		}
		l.own = append(l.own, own)
	}
}

// goCommand runs the go command and returns what it prints. Its messages are counted, or kept for the error.
func (t Target) goCommand(ctx context.Context, work workDir, follow *follow, args ...string) (string, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	flags := slices.Clone(Flags)
	if len(t.Tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(t.Tags, ","))
	}
	args = append([]string{args[0]}, append(flags, args[1:]...)...)
	// With PWD, the go command prints paths that begin with the module's path as we know it, even if that contains links.
	environment := append(Environment(), "GOTMPDIR="+work.dir, "PWD="+t.Module)
	if t.C {
		environment = append(environment, "CGO_ENABLED=1")
	}
	if t.Arch != "" {
		environment = append(environment, "GOARCH="+t.Arch)
	}
	messagesRead, messagesWrite, err := os.Pipe()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	p, err := work.scope.Start(process.Spec{
		Path: path, Args: args, Dir: t.Module, Env: environment,
		Stdout: &out, Stderr: messagesWrite,
	})
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
		problems = follow.read(messagesRead)
	}()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		<-read
		return "", context.Cause(ctx)
	}
	<-read
	if err := p.Err(); err != nil {
		reason, fault := MachineFault(strings.Join(append(problems, err.Error()), "\n"))
		if len(problems) > 20 {
			problems = append(problems[:20], "…")
		}
		err = fmt.Errorf("go %s: %w\n%s", args[0], err, strings.Join(problems, "\n"))
		if fault {
			err = fmt.Errorf("%s\n%w", reason, err)
		}
		return "", err
	}
	return out.String(), nil
}

// follow counts the steps that the go command reports. Several commands may be followed one after the other.
type follow struct {
	unit        string
	done, total int
	progress    Progress
}

func (f *follow) count(unit string) {
	if unit != f.unit {
		return
	}
	f.done++
	if f.total > 0 {
		f.done = min(f.done, f.total)
	}
	f.progress(f.unit, f.done, f.total)
}

// read reads the messages of the go command: downloads, import paths (with -v), and everything else: problems.
func (f *follow) read(messages io.Reader) (problems []string) {
	f.progress(f.unit, f.done, f.total)
	lines := bufio.NewScanner(messages)
	lines.Buffer(nil, 1<<20) // a linker that fails repeats its whole command line
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			f.count("modules")
		case line != "" && !strings.ContainsAny(line, " \t:"):
			f.count("packages")
		case line != "":
			problems = append(problems, line)
		}
	}
	return problems
}

// Install atomically puts a copy of a built file in its place, even if the place is on another disk or in use.
func Install(from, to string) error { return install(from, to, 0o755) }

// Move atomically moves a file to its place, which may be on another disk.
func Move(from, to string) error {
	if os.Rename(from, to) == nil {
		return nil
	}
	return errors.Join(install(from, to, 0o644), os.Remove(from))
}

func install(from, to string, mode os.FileMode) error {
	temporary := fmt.Sprintf("%s.%d", to, os.Getpid())
	defer os.Remove(temporary)
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err := errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return os.Rename(temporary, to)
}
