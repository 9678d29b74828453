// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

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

	"al.essio.dev/pkg/shellescape"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
)

// UnitTests runs the unit tests of modules with gotestsum.
type UnitTests struct {
	// Root is the folder of the checkout. Modules are the folders of modules in it. Labs among them are not tested, since
	// they are the students'.
	Root    string
	Modules []string
	// Only limits the run to these modules. Default: all.
	Only []string
	// Unchanged are modules that are left to the proof, because they are unchanged since the commit Since.
	Unchanged []string
	Since     string
	// ControlPlane is WithControlPlane or WithoutControlPlane. Default: all packages are tested.
	ControlPlane string
	// Gotestsum is its program. Environment has variables in addition to those of a build.
	Gotestsum   string
	Environment []string
	// Short leaves out the tests that belong to the proof. Measuring prints the times of packages and tests. Forgiving
	// repeats up to three failed tests, twice at most, while no other test runs:
	// docs/decisions/0029-a-failing-test-is-repeated-alone.md.
	Short, Measuring, Forgiving bool
	// Out gets the results.
	Out io.Writer
}

// Run runs the tests, one module after the other, until the tests of a module fail.
func (u *UnitTests) Run(ctx context.Context) error {
	if len(u.Unchanged) > 0 {
		fmt.Fprintf(u.Out, "Left to the proof, because they are unchanged since %s: %s\n",
			u.Since, strings.Join(u.Unchanged, ", "))
	}
	ran := false
	for _, module := range u.Modules {
		if strings.HasPrefix(module, "labs/") || len(u.Only) > 0 && !slices.Contains(u.Only, module) {
			continue
		}
		ran = true
		if slices.Contains(u.Unchanged, module) {
			continue
		}
		packages, err := TestedPackages(ctx, u.Root, module, u.ControlPlane)
		if err != nil {
			return err
		}
		if len(packages) == 0 {
			continue
		}
		fmt.Fprintf(u.Out, "test %s\n", module)
		if err := u.run(ctx, module, packages); err != nil {
			return fmt.Errorf("the tests of %s failed: %w", module, err)
		}
	}
	if !ran {
		return fmt.Errorf("--only %s names no module with tests: there are %s",
			strings.Join(u.Only, ","), strings.Join(u.Modules, ", "))
	}
	return nil
}

// flags returns the flags of go test. The linters of verify also run vet. Here, vet would take minutes for the modules
// that ours depend on. Tests read pages and solutions, which Go's cache of results does not track. Packages wait for
// clusters and for quiet periods: two at a time leave a third of two cores idle.
func (u *UnitTests) flags() []string {
	flags := []string{"-vet=off", "-count=1", "-timeout=60m", fmt.Sprintf("-p=%d", 2*runtime.NumCPU())}
	if u.Short {
		flags = append(flags, "-short")
	}
	return flags
}

// run runs the tests of some packages of a module. Its last lines are the output of the tests that failed.
func (u *UnitTests) run(ctx context.Context, module string, packages []string) (err error) {
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
	if u.Forgiving {
		args = append(args, "--rerun-fails=2", "--rerun-fails-max-failures=3", "--rerun-fails-run-root-test")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	wrapper := []string{program, AttendCommand}
	var m *Measurement
	if u.Measuring {
		var before []string
		if m, before, err = Measure(scope); err != nil {
			return err
		}
		wrapper = append(before, wrapper...)
	}
	flags := append(u.flags(), "-exec="+shellescape.QuoteCommand(wrapper))
	failed := runTestProgram(ctx, scope, u.Out, u.Root, module, u.Environment, u.Gotestsum,
		slices.Concat(args, []string{"--"}, gobuild.Flags, flags)...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	events, err := os.ReadFile(recorded)
	if err != nil {
		return errors.Join(failed, err)
	}
	ended, err := ReadTests(bytes.NewReader(events))
	if err != nil {
		return errors.Join(failed, err)
	}
	if m != nil {
		if err := m.Print(
			u.Out, filepath.Join(u.Root, filepath.FromSlash(module)), bytes.NewReader(events),
		); err != nil {
			return err
		}
	}
	fmt.Fprintf(u.Out, "%s: %d tests passed, %d failed, %d were left out\n",
		module, ended.Passed, len(ended.Failed), ended.Skipped)
	for _, f := range ended.Failed {
		fmt.Fprintf(u.Out, "\n--- %s failed. Its last lines:\n%s\n", f.Name, lastLines(f.Output))
	}
	if failed == nil && len(ended.Failed) > 0 { // gotestsum repeats a package without a failed test, and then succeeds
		failed = errors.New("the failed package left a process or a folder behind, or could not be built")
	}
	if failed != nil {
		return failed
	}
	return AddFlaky(u.Root, ended.Flaky...)
}

// AttendCommand is the name of the command of this program that runs the program of a package's tests, and fails if
// processes are left behind.
const AttendCommand = "attend"

// shownLines is how many lines of a failed test are printed.
const shownLines = 40

func lastLines(output string) string {
	lines := strings.SplitAfter(output, "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "")
}

// GoTest runs go test in a module of the checkout at root, and prints its output to out.
func GoTest(ctx context.Context, out io.Writer, root, module string, args ...string) (err error) {
	program, err := exec.LookPath("go")
	if err != nil {
		return gobuild.ErrNoGo
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	return runTestProgram(ctx, scope, out, root, module, nil, program,
		slices.Concat([]string{"test"}, gobuild.Flags, args)...)
}

// runTestProgram runs a program that tests a module, with variables in addition to those of a build. It prints the
// program's output.
func runTestProgram(
	ctx context.Context, scope *process.Scope, out io.Writer,
	root, module string, environment []string, program string, args ...string,
) error {
	// Until the first package has been tested, go test prints nothing. On a fresh machine that takes minutes.
	bar := progress.Start(os.Stderr, "compile and test the first package of "+module)
	onOutput := sync.OnceFunc(bar.Done)
	p, err := scope.Start(process.Spec{
		Path: program, Args: args, Dir: filepath.Join(root, filepath.FromSlash(module)),
		Env:    append(gobuild.Environment(), environment...),
		Stdout: &output{to: out, onOutput: onOutput},
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
