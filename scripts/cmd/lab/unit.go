// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/proving/gate"
	"lva.io/operators/scripts/proving/proof"
)

func unitCommand() *cobra.Command {
	var short, measuring, forgiving bool
	var only []string
	var controlPlane, since string
	command := &cobra.Command{
		Use: "unit", GroupID: groupMaintainers,
		Short: "Run the unit tests of all modules but the labs, which are the students'", Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if controlPlane != "" && controlPlane != gate.WithoutControlPlane && controlPlane != gate.WithControlPlane {
				return fmt.Errorf("--control-plane is %s or %s, and not %q",
					gate.WithoutControlPlane, gate.WithControlPlane, controlPlane)
			}
			modules, err := repo.Modules()
			if err != nil {
				return err
			}
			unchanged, err := gate.UnchangedSolutions(command.Context(), repo.Root, modules, since)
			if err != nil {
				return err
			}
			// Tests start clusters and grade submissions. Everything that they need is built here, with visible progress.
			if err := repo.Prepare(command.Context(), true, &repo.Labs.Labs[0]); err != nil {
				return err
			}
			if err := repo.EnsureAddons(command.Context(), known.Names()); err != nil {
				return err
			}
			tested, err := proof.TestedPrograms(repo)
			if err != nil {
				return err
			}
			// The solutions' tests start an API server with envtest.
			assets, err := repo.Assets(command.Context())
			if err != nil {
				return err
			}
			gotestsum, err := repo.Gotestsum(command.Context())
			if err != nil {
				return err
			}
			u := unitTests{
				repo: repo, gotestsum: gotestsum, environment: []string{"KUBEBUILDER_ASSETS=" + assets},
				measuring: measuring, forgiving: forgiving,
				// The linters of verify also run vet. Here, vet would take minutes for the modules that ours depend on.
				// Tests read pages and solutions, which Go's cache of results does not track.
				// Packages wait for clusters and for quiet periods. Two at a time leave a third of two cores idle.
				flags: []string{"-vet=off", "-count=1", "-timeout=60m", fmt.Sprintf("-p=%d", 2*runtime.NumCPU())},
			}
			if short {
				u.flags = append(u.flags, "-short")
			}
			if len(unchanged) > 0 {
				fmt.Printf("Left to the proof, because they are unchanged since %s: %s\n", since, strings.Join(unchanged, ", "))
			}
			ran := false
			for _, module := range append(modules, tested...) {
				if strings.HasPrefix(module, "labs/") || len(only) > 0 && !slices.Contains(only, module) {
					continue
				}
				ran = true
				if slices.Contains(unchanged, module) {
					continue
				}
				packages, err := gate.TestedPackages(command.Context(), repo.Root, module, controlPlane)
				if err != nil {
					return err
				}
				if len(packages) == 0 {
					continue
				}
				fmt.Printf("test %s\n", module)
				if err := u.run(command.Context(), module, packages); err != nil {
					return fmt.Errorf("the tests of %s failed: %w", module, err)
				}
			}
			if !ran {
				return fmt.Errorf("--only %s names no module with tests: there are %s", strings.Join(only, ","),
					strings.Join(append(modules, tested...), ", "))
			}
			return nil
		},
	}
	command.Flags().BoolVar(&short, "short", false, "leave out the tests that belong to the proof: those that take long")
	command.Flags().StringVar(&controlPlane, "control-plane", "",
		"only packages whose tests are linked "+gate.WithControlPlane+" or "+gate.WithoutControlPlane+
			" a control plane (default: all)")
	command.Flags().StringSliceVar(&only, "only", nil,
		"only these modules, by their folders, as in --only clusters,scripts")
	command.Flags().StringVar(&since, "since", "",
		"a commit whose tests passed: solutions that are unchanged since then are skipped")
	command.Flags().BoolVar(&measuring, "measure", false, "print the time of each package, and the slowest tests")
	command.Flags().BoolVar(&forgiving, "forgive", false,
		"retry what fails alone, at most twice. If it passes, record it in out/flaky.json and continue")
	return command
}

// unitTests runs the tests of modules with gotestsum.
type unitTests struct {
	repo      *checkout.Checkout
	gotestsum string
	// environment are variables in addition to those of a build. flags are flags of go test.
	environment, flags []string
	// measuring prints the times of packages and tests. forgiving repeats up to three failed tests, twice at most, while
	// no other test runs: docs/decisions/0029-a-failing-test-is-repeated-alone.md.
	measuring, forgiving bool
}

// run runs the tests of some packages of a module. Its last lines are the output of the tests that failed.
func (u *unitTests) run(ctx context.Context, module string, packages []string) (err error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	recorded := filepath.Join(scope.Dir, "events.json")
	args := []string{
		"--format=pkgname", "--format-icons=text", "--hide-summary=all", "--no-color",
		"--packages=" + strings.Join(packages, " "), "--jsonfile=" + recorded,
	}
	if u.forgiving {
		args = append(args, "--rerun-fails=2", "--rerun-fails-max-failures=3", "--rerun-fails-run-root-test")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	wrapper := []string{program, attendName}
	var m *gate.Measurement
	if u.measuring {
		var before []string
		if m, before, err = gate.Measure(scope); err != nil {
			return err
		}
		wrapper = append(before, wrapper...)
	}
	flags := append(slices.Clip(u.flags), "-exec="+shellescape.QuoteCommand(wrapper))
	failed := runTestProgram(ctx, scope, u.repo, module, u.environment, u.gotestsum,
		slices.Concat(args, []string{"--"}, gobuild.Flags, flags)...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	events, err := os.ReadFile(recorded)
	if err != nil {
		return errors.Join(failed, err)
	}
	ended, err := gate.ReadTests(bytes.NewReader(events))
	if err != nil {
		return errors.Join(failed, err)
	}
	if m != nil {
		if err := m.Print(
			os.Stdout, filepath.Join(u.repo.Root, filepath.FromSlash(module)), bytes.NewReader(events),
		); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d tests passed, %d failed, %d were left out\n",
		module, ended.Passed, len(ended.Failed), ended.Skipped)
	for _, f := range ended.Failed {
		fmt.Printf("\n--- %s failed. Its last lines:\n%s\n", f.Name, lastLines(f.Output))
	}
	if failed == nil && len(ended.Failed) > 0 { // gotestsum repeats a package without a failed test, and then succeeds
		failed = errors.New("the failed package left a process or a folder behind, or could not be built")
	}
	if failed != nil {
		return failed
	}
	return gate.AddFlaky(u.repo.Root, ended.Flaky...)
}

// attendName is the name of the command that runs the program of a package's tests.
const attendName = "attend"

// leavePatience is how long the processes of tests may take to end after the tests. They need some milliseconds, or two
// seconds if a guard has to look for them.
const leavePatience = 30 * time.Second

func attendCommand() *cobra.Command {
	return &cobra.Command{
		Use: attendName + " PROGRAM [ARGUMENT…]", Hidden: true, DisableFlagParsing: true, Args: cobra.MinimumNArgs(1),
		Short: "Run a program, and fail if it leaves processes behind; go test runs test programs with it",
		RunE: func(command *cobra.Command, args []string) error {
			status, left, err := process.Attend(command.Context(), args[0], args[1:], leavePatience)
			if err != nil {
				return fmt.Errorf("running %s: %w", args[0], err)
			}
			if left != "" {
				fmt.Printf("FAIL: the tests left processes behind: %s\n", left)
				status = max(status, 1)
			}
			os.Exit(status)
			return nil
		},
	}
}

// shownLines is how many lines of a failed test are printed.
const shownLines = 40

func lastLines(output string) string {
	lines := strings.SplitAfter(output, "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "")
}

// goTest runs go test in a module.
func goTest(ctx context.Context, repo *checkout.Checkout, module string, args ...string) (err error) {
	program, err := exec.LookPath("go")
	if err != nil {
		return gobuild.ErrNoGo
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	return runTestProgram(ctx, scope, repo, module, nil, program, slices.Concat([]string{"test"}, gobuild.Flags, args)...)
}

// runTestProgram runs a program that tests a module, with variables in addition to those of a build. It prints the
// program's output.
func runTestProgram(
	ctx context.Context, scope *process.Scope, repo *checkout.Checkout,
	module string, environment []string, program string, args ...string,
) error {
	// Until the first package has been tested, go test prints nothing. On a fresh machine that takes minutes.
	bar := progress.Start(os.Stderr, "compile and test the first package of "+module)
	onOutput := sync.OnceFunc(bar.Done)
	p, err := scope.Start(process.Spec{
		Path: program, Args: args, Dir: filepath.Join(repo.Root, filepath.FromSlash(module)),
		Env:    append(gobuild.Environment(), environment...),
		Stdout: &output{to: os.Stdout, onOutput: onOutput},
		Stderr: &output{to: os.Stderr, onOutput: onOutput, downloads: func(n int) { bar.Set(progress.Modules, n, 0) }},
	})
	if err != nil {
		onOutput()
		return err
	}
	err = p.Wait(ctx)
	onOutput()
	return err
}

// output passes on the output of go test, line by line. It counts the downloads that go test reports, and does not
// print them.
type output struct {
	to        io.Writer
	onOutput  func() // before the first line is passed on
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
			o.onOutput()
			if _, err := o.to.Write(o.line[:end]); err != nil {
				return 0, err
			}
		}
		o.line = o.line[end:]
	}
}
