// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/cli"
	"lva.io/operators/scripts/parts"
)

func testCommand() *cobra.Command {
	var part int
	var measuring bool
	command := &cobra.Command{
		Use: "test", GroupID: groupMaintainers, Short: "Run the unit tests of all modules but the labs, which are the students'", Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if err := parts.Check(part); err != nil {
				return err
			}
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			leftOut, done, err := leftOut()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, done()) }()
			// Tests start clusters and grade: what they need is built here, where one sees how far it is.
			if err := here.Prepare(command.Context(), true, &here.Labs.Labs[0]); err != nil {
				return err
			}
			if err := here.EnsureAddons(command.Context(), known.Names()); err != nil {
				return err
			}
			modules, err := here.Modules()
			if err != nil {
				return err
			}
			tested, err := testedPrograms(here)
			if err != nil {
				return err
			}
			// The solutions' tests start an API server with envtest.
			assets, err := here.Assets(command.Context())
			if err != nil {
				return err
			}
			gotestsum, err := here.Gotestsum(command.Context())
			if err != nil {
				return err
			}
			environment := []string{"KUBEBUILDER_ASSETS=" + assets, parts.Variable + "=" + strconv.Itoa(part), parts.LeftOutVariable + "=" + leftOut}
			for _, module := range append(modules, tested...) {
				if strings.HasPrefix(module, "labs/") {
					continue
				}
				fmt.Printf("test %s\n", module)
				// What go test vets, the linters of verify vet, too. Here, it would look at each module that ours need: minutes.
				// Tests read pages and solutions, of which Go's cache of results knows nothing.
				if err := unitTests(command.Context(), here, module, gotestsum, environment, measuring, "-vet=off", "-count=1", "-timeout=40m"); err != nil {
					return fmt.Errorf("the tests of %s failed: %w", module, err)
				}
			}
			return nil
		},
	}
	command.Flags().IntVar(&part, "part", 0, fmt.Sprintf("of the rows that are whole gradings only those of this part, 1 to %d (default: all)", parts.Parts))
	command.Flags().BoolVar(&measuring, "measure", false, "print what each package took, and the slowest tests")
	return command
}

// leftOut is the name of a file for what tests leave out. done prints it, and removes it.
func leftOut() (name string, done func() error, err error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return "", nil, err
	}
	name = filepath.Join(scope.Dir, "left-out")
	return name, func() error {
		if lines, err := os.ReadFile(name); err == nil {
			fmt.Printf("Left out of the unit tests:\n%s", lines)
		}
		return scope.Close()
	}, nil
}

// testedPrograms are the modules of programs for images that have tests. The others are not compiled for nothing: some of
// them are huge.
func testedPrograms(here *checkout.Checkout) ([]string, error) {
	tests, err := filepath.Glob(filepath.Join(here.Root, "clusters", "images", "programs", "*", "*_test.go"))
	if err != nil {
		return nil, err
	}
	var modules []string
	for _, test := range tests {
		module, err := filepath.Rel(here.Root, filepath.Dir(test))
		if err != nil {
			return nil, err
		}
		modules = append(modules, filepath.ToSlash(module))
	}
	return slices.Compact(modules), nil
}

func benchCommand() *cobra.Command {
	var times, only string
	command := &cobra.Command{
		Use: "bench", GroupID: groupMaintainers, Short: "Measure the budgets of the design", Args: cli.NoArguments,
		Long: "bench measures the budgets of the design: medians and worst cases, with envtest as the peer of the cluster's start.\n" +
			"The figures of a quiet machine belong into docs/benchmarks.md.",
		RunE: func(command *cobra.Command, _ []string) error {
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			if err := anyBenchmark(filepath.Join(here.Root, "scripts", "bench"), only); err != nil {
				return err
			}
			if _, err := here.EnsureNode(command.Context()); err != nil {
				return err
			}
			return goTest(command.Context(), here, "scripts",
				"-run=^$", "-bench="+only, "-benchtime="+times, "-timeout=60m", "./bench")
		},
	}
	command.Flags().StringVar(&times, "times", "10x", "how often each is measured: a count, as 10x")
	command.Flags().StringVar(&only, "only", ".", "a regular expression for the benchmarks to run")
	return command
}

// anyBenchmark returns an error unless a benchmark of a folder matches the expression of --only: go test would run none, and
// be content.
func anyBenchmark(folder, only string) error {
	// Behind a slash stands what chooses among the parts of a benchmark.
	wanted, _, _ := strings.Cut(only, "/")
	expression, err := regexp.Compile(wanted)
	if err != nil {
		return fmt.Errorf("--only %s is no regular expression: %w", only, err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("looking for benchmarks: %w", err)
		}
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(function.Name.Name, "Benchmark") {
				continue
			}
			if expression.MatchString(function.Name.Name) {
				return nil
			}
			names = append(names, function.Name.Name)
		}
	}
	return fmt.Errorf("no benchmark matches --only %s: there are %s", only, strings.Join(names, ", "))
}

// unitTests runs the tests of a module with gotestsum. Up to three that fail are repeated once, when no other test runs, and
// named: docs/decisions/0029-a-failing-test-is-repeated-alone.md. More of them, a panic or what a package leaves behind fail
// the run. With measuring, what the packages and tests took is printed.
func unitTests(
	ctx context.Context, here *checkout.Checkout, module, gotestsum string, environment []string, measuring bool, flags ...string,
) (err error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	events, repeated := filepath.Join(scope.Dir, "events.json"), filepath.Join(scope.Dir, "repeated.txt")
	args := []string{
		"--format=pkgname-and-test-fails", "--format-icons=text", "--hide-summary=skipped", "--no-color", "--packages=./...",
		"--rerun-fails=1", "--rerun-fails-max-failures=3", "--rerun-fails-run-root-test", "--rerun-fails-report=" + repeated,
		"--jsonfile-timing-events=" + events, "--",
	}
	var m *measurement
	if measuring {
		var more []string
		if m, more, err = measure(scope); err != nil {
			return err
		}
		flags = append(flags, more...)
	}
	if err := runTestProgram(ctx, scope, here, module, environment, gotestsum, slices.Concat(args, gobuild.Flags, flags)...); err != nil {
		return err
	}
	recorded, err := os.Open(events)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorded.Close()) }()
	if err := failedWithoutTest(recorded); err != nil {
		return err
	}
	if m != nil {
		if _, err := recorded.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := m.print(os.Stdout, filepath.Join(here.Root, filepath.FromSlash(module)), recorded); err != nil {
			return err
		}
	}
	if names, err := os.ReadFile(repeated); err == nil && len(names) > 0 {
		fmt.Printf("FLAKY in %s: these passed only when they were repeated alone; fix them:\n%s", module, names)
	}
	return nil
}

// failedWithoutTest returns an error that names a package that failed although each of its tests passed: it has left a process
// or a folder behind. gotestsum repeats it without any test, and is content. events are those of `go test -json`.
func failedWithoutTest(events io.Reader) error {
	failed := map[string]bool{}
	var without error
	err := eachTestEvent(events, func(event testEvent) {
		switch {
		case event.Action != "fail" || without != nil:
		case event.Test != "":
			failed[event.Package] = true
		case !failed[event.Package]:
			without = fmt.Errorf("package %s failed although each of its tests passed: its output above says why", event.Package)
		}
	})
	return errors.Join(err, without)
}

// testEvent is an event of `go test -json`. Elapsed is in seconds.
type testEvent struct {
	Action, Package, Test string
	Elapsed               float64
}

// eachTestEvent reads events of `go test -json`.
func eachTestEvent(events io.Reader, take func(testEvent)) error {
	for decoder := json.NewDecoder(events); ; {
		var event testEvent
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what the tests have reported: %w", err)
		}
		take(event)
	}
}

// goTest runs go test in a module.
func goTest(ctx context.Context, here *checkout.Checkout, module string, args ...string) (err error) {
	program, err := exec.LookPath("go")
	if err != nil {
		return gobuild.ErrNoGo
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	return runTestProgram(ctx, scope, here, module, nil, program, slices.Concat([]string{"test"}, gobuild.Flags, args)...)
}

// runTestProgram runs a program that tests a module, with variables besides those of a build, its output ours.
func runTestProgram(
	ctx context.Context, scope *process.Scope, here *checkout.Checkout, module string, environment []string, program string, args ...string,
) error {
	// Until the first package has been tested, go test says nothing, and on a fresh machine that takes minutes.
	bar := progress.Start(os.Stderr, "compile and test the first package of "+module)
	speaks := sync.OnceFunc(bar.Done)
	p, err := scope.Start(process.Spec{
		Path: program, Args: args, Dir: filepath.Join(here.Root, filepath.FromSlash(module)),
		Env:    append(gobuild.Environment(), environment...),
		Stdout: &output{to: os.Stdout, speaks: speaks},
		Stderr: &output{to: os.Stderr, speaks: speaks, downloads: func(n int) { bar.Set(progress.Modules, n, 0) }},
	})
	if err != nil {
		speaks()
		return err
	}
	err = p.Wait(ctx)
	speaks()
	return err
}

// output passes on what go test prints, line by line, but for the downloads that it tells of: these are counted.
type output struct {
	to        io.Writer
	speaks    func() // before the first line is passed on
	downloads func(n int)
	n         int
	line      []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.line = append(o.line, p...)
	for {
		end := bytes.IndexByte(o.line, '\n') + 1
		if end == 0 {
			return len(p), nil
		}
		if o.downloads != nil && bytes.HasPrefix(o.line, []byte("go: downloading ")) {
			o.n++
			o.downloads(o.n)
		} else {
			o.speaks()
			if _, err := o.to.Write(o.line[:end]); err != nil {
				return 0, err
			}
		}
		o.line = o.line[end:]
	}
}
