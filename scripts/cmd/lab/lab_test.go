// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	main "lva.io/operators/scripts/cmd/lab"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

// lab is the path of the command, which is this test binary by another name. temporary is the folder for temporary
// files. The tests must leave nothing in it.
var lab, temporary string

// isLab is the environment variable that makes this test binary the lab command.
const isLab = "OPERATOR_LABS_TEST_IS_LAB"

func TestMain(m *testing.M) {
	if os.Getenv(isLab) != "" {
		main.Main()
		return
	}
	os.Exit(func() int {
		var err error
		if temporary, err = os.MkdirTemp("", "lab-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(temporary)
		lab = filepath.Join(temporary, "bin", "lab")
		binary, err := os.Executable()
		if err == nil {
			err = errors.Join(os.Mkdir(filepath.Dir(lab), 0o755), os.Symlink(binary, lab))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "laying out the lab command: %v\n", err)
			return 1
		}
		return m.Run()
	}())
}

// cachedCheckout finds the checkout once, because it reads and validates labs.yaml.
var cachedCheckout = sync.OnceValues(checkout.Find)

// findCheckout returns the checkout that contains these tests.
func findCheckout(t *testing.T) *checkout.Checkout {
	t.Helper()
	found, err := cachedCheckout()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// bare creates a checkout in which nothing was built and nothing was run. It has no sources, so a command that builds
// something there fails.
func bare(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{
		manifest.File, manifest.SchemaFile, "clusters/controlplane/go.mod",
		"docs/lectures/01-extending-kubernetes.md", "scripts/proving/bench/bench_test.go",
	} {
		content, err := os.ReadFile(filepath.Join(findCheckout(t).Root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// complete creates a checkout with everything that was built in this one, and with reports of its own. If labs are
// named, it only has their checks.
func complete(t *testing.T, labs ...string) string {
	t.Helper()
	from := findCheckout(t)
	if err := from.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := from.ControllerGen(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range from.Labs.Labs {
		if len(labs) > 0 && !slices.Contains(labs, from.Labs.Labs[i].Name) {
			continue
		}
		if _, err := from.Checks(t.Context(), &from.Labs.Labs[i]); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, ".cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"clusters", "docs", "labs", "scripts", "solutions", ".cache/bin", ".cache/checks", ".cache/controlplane",
	} {
		if err := os.Symlink(filepath.Join(from.Root, name), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	// A solution's program from one test is not reused by the next test.
	built := filepath.Join(temporary, "submissions")
	if err := errors.Join(
		os.MkdirAll(built, 0o755), os.Symlink(built, filepath.Join(root, ".cache", "submissions")),
	); err != nil {
		t.Fatal(err)
	}
	return root
}

// command returns the lab command in a folder, with a temporary folder of its own.
func command(t *testing.T, dir string, args ...string) (c *exec.Cmd, runs string) {
	t.Helper()
	runs, err := os.MkdirTemp(temporary, "r") //nolint:usetesting // the names of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	c = exec.Command(lab, args...)
	c.Dir = dir
	c.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKELEVEL=") }),
		"TMPDIR="+runs, isLab+"=true")
	return c, runs
}

type result struct {
	stdout, stderr string
	code           int
	runs           string
}

func run(t *testing.T, dir string, args ...string) result {
	t.Helper()
	c, runs := command(t, dir, args...)
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), c.ProcessState.ExitCode(), runs}
}

// runHere runs the command within this process, for commands that start no work, since starting a program takes longer.
// No other test runs at the same time.
func runHere(t *testing.T, dir string, args ...string) result {
	t.Helper()
	runs := t.TempDir()
	t.Setenv("TMPDIR", runs)
	t.Chdir(dir)
	capture := func(stream **os.File) (captured func() string) {
		file, err := os.Create(filepath.Join(t.TempDir(), "captured"))
		if err != nil {
			t.Fatal(err)
		}
		before := *stream
		*stream = file
		return func() string {
			*stream = before
			content, err := os.ReadFile(file.Name())
			if err := errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
			return string(content)
		}
	}
	stdout, stderr := capture(&os.Stdout), capture(&os.Stderr)
	command := main.Root()
	command.SetArgs(args)
	code := cli.Run(t.Context(), command)
	return result{stdout(), stderr(), code, runs}
}

func TestWrongArguments(t *testing.T) {
	nothing := t.TempDir()
	for _, test := range []struct {
		args string
		want string
	}{
		{"grade", "grade needs one lab, as in `lab grade 2`; `lab labs` lists them"},
		{"grade 1 2", "grade needs one lab"},
		{"hint", "hint needs one lab, as in `lab hint 2`"},
		{"read 1 2", "read needs one lab"},
		{
			"grade 99",
			`there is no lab "99"; the labs are 1 (01-icecream), 2 (02-reconciler), 3 (03-finalizer), 4 (04-webhook)`,
		},
		{"watch pizza", `there is no lab "pizza"; the labs are `},
		{"reset 0", `there is no lab "0"; the labs are `},
		{"run 99", `there is no lab "99"; the labs are `},
		{"certify 99", `there is no lab "99"; the labs are `},
		{"torture", "torture needs one lab, as in `lab torture 2`"},
		{"torture 99", `there is no lab "99"; the labs are `},
		{"torture 1", "lab 01-icecream runs no operator, so there is nothing to torture"},
		{"torture 2 --random -1", "--random must not be negative"},
		{
			"torture 2 --random many",
			"invalid value \"many\" for --random: it must be a whole number; `lab torture --help` lists the flags",
		},
		{"torture 2 --seed -1", `invalid value "-1" for --seed: it must be a whole number from 0 to 4294967295`},
		{"torture 2 --dir nowhere", "--dir nowhere is not a folder: name the folder that holds the submission's go.mod"},
		{"torture 2 --dir . --solution", "--dir and --solution exclude each other: leave one of them out"},
		{"grade 2 --seed x", `invalid value "x" for --seed: it must be a whole number from 0 to 4294967295`},
		{"grade 2 --dir=", `invalid value "" for --dir: it must be a folder`},
		{"run 2 --dir=", `invalid value "" for --dir: it must be a folder`},
		{"deploy IMAGE", `"IMAGE" is not the name of an image`},
		{"deploy image:v1 --cluster context:mine", "--cluster context:mine: write playground, kind, or kind:NAME"},
		{"deploy image:v1 --dir=", `invalid value "" for --dir: it must be a folder`},
		{"grade 2 --stories 0", `invalid value "0" for --stories: it must be a whole number of at least 1`},
		{"certify --draw abc", `invalid value "abc" for --draw: it must be a whole number`},
		{"certify --since 0123abc", "--since and --seed apply only to drawn mutants: add --draw, or leave them out"},
		{
			"certify --forgive --load 2",
			"--forgive repeats what failed, so it cannot be combined with --repeat, --soak or --load",
		},
		{"unit --control-plane maybe", `--control-plane is without or with, and not "maybe"`},
		{"certify --draw 1 --since 0123abc", "there is no commit 0123abc in this repository: name one that `git log` shows"},
		{"certify --parallel 0", `invalid value "0" for --parallel: it must be a whole number of at least 1`},
		{"certify --repeat -1", `invalid value "-1" for --repeat: it must be a whole number of at least 1`},
		{"mutate 99", `there is no lab "99"; the labs are `},
		{"mutate --sample 0", `invalid value "0" for --sample: it must be a whole number of at least 1`},
		{"mutate --seed -1", `invalid value "-1" for --seed: it must be a whole number from 0 to 4294967295`},
		{"mutate --sample 10 --again", "--sample and --again exclude each other: leave one of them out"},
		{"mutate --sample 10 --only f562c4ee", "--sample and --only exclude each other: leave one of them out"},
		{"mutate --again --only f562c4ee", "--again and --only exclude each other: leave one of them out"},
		{"image build", "`lab image build` needs one image, as in `lab image build operator-labs/icecream-operator:v1`"},
		{"verify --only nope", `there is no check "nope": there are files, `},
		{"fix --only nope", `there is no check "nope": there are files, `},
		{"bench --only nope", "no benchmark matches --only nope: there are BenchmarkStart, BenchmarkGrade"},
		{"bench --only (", "--only ( is not a regular expression"},
		{"grade 2 --dir nowhere", "--dir nowhere is not a folder: name the folder that holds the submission's go.mod"},
		{"grade 2 --dir labs/labs.yaml", "--dir labs/labs.yaml is not a folder"},
		{"grade 2 --dir . --solution", "--dir and --solution exclude each other: leave one of them out"},
		{"grade --all 2", "--all grades all labs: leave out the lab, --dir, --step, --without-node and --gradescope"},
		{"grade --all --dir .", "--all grades all labs: leave out the lab, --dir, --step, --without-node and --gradescope"},
		{"grade --all --step 2", "--all grades all labs: leave out the lab, --dir, --step, --without-node and --gradescope"},
		{"grade 2 --without-node", "lab 02-reconciler needs no node: leave out --without-node"},
		{"grade 5 --without-node", "no check of lab 05-cert-manager can be decided without a node: leave out --without-node"},
		{"grade 8 --without-node --step 2", "--step and --without-node exclude each other: leave one of them out"},
		{
			"grade 8 --without-node --cluster kind",
			"--without-node is about this machine, and --cluster names another cluster: leave one of them out",
		},
		{
			"grade 8 --without-node --gradescope x",
			"--without-node gives no grade, and --gradescope writes one: leave one of them out",
		},
		{"grade 2 --step 1", "the checks of lab 02-reconciler do not belong to numbered steps"},
		{"grade 8 --step 10", "lab 08-lolcow has no step 10: it has the steps 1 to 9"},
		{"run 2 --pod", "there is no flag --pod: `lab run --help` lists the flags"},
		{"grade 2 --al", "there is no flag --al: `lab grade --help` lists the flags"},
		{"hint 1", "there is no report"},
		{"report 2", "grade the lab first"},
		{"hint 1 --dir clusters", "grade the lab first"},
		{"frobnicate", "there is no command `lab frobnicate`: `lab --help` lists them"},
		{"grad 2", "there is no command `lab grad`: `lab --help` lists them; did you mean grade"},
		{"labs 1", "`lab labs` takes no arguments: leave out 1"},
		{"kubectl get nodes", "the playground is not running: start it with `make up`"},
		{"helm list", "the playground is not running: start it with `make up`"},
		{"chart pizza", "there is no chart pizza: there are cert-manager and cilium"},
		{"chart", "`lab chart` needs one chart, as in `lab chart cert-manager`"},
		{"status", "the playground is not running: start it with `make up`"},
		{"up --addons vault", `there is no add-on "vault": the add-ons are cert-manager, ingress, pebble`},
		{"up --addons pebble --node=false", "--addons and --node=false cannot be combined"},
		{"up now", "`lab up` takes no arguments: leave out now"},
	} {
		t.Run(test.args, func(t *testing.T) {
			root := bare(t)
			got := runHere(t, root, strings.Fields(test.args)...)
			if got.code != 1 || got.stdout != "" {
				t.Errorf("got exit code %d and output %q", got.code, got.stdout)
			}
			if !strings.HasPrefix(got.stderr, "lab: ") || !strings.Contains(got.stderr, test.want) ||
				strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("want one line with %q, got\n%s", test.want, got.stderr)
			}
			wantNothing(t, got.runs)
			if _, err := os.Stat(filepath.Join(root, ".cache")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the command began to build something: %v", err)
			}
		})
	}
	t.Run("not a checkout", func(t *testing.T) {
		if got := run(t, nothing, "labs"); got.code != 1 ||
			!strings.Contains(got.stderr, "this is not a checkout of Operator Labs: change into one") {
			t.Errorf("got exit code %d, %s", got.code, got.stderr)
		}
	})
}

// A run whose report can't be written fails at once, before the student waits for a grade.
func TestUnwritableReportFolderIsRefusedFirst(t *testing.T) {
	t.Parallel()
	root := bare(t)
	if err := errors.Join(
		os.Mkdir(filepath.Join(root, "out"), 0o755),
		os.MkdirAll(filepath.Join(root, "labs", "01-icecream"), 0o755),
		os.Symlink("/proc/self", filepath.Join(root, "out", "01-icecream")),
	); err != nil {
		t.Fatal(err)
	}
	// The exit code of `lab grade` distinguishes a verdict from a run that has no report.
	for args, code := range map[string]int{"grade 1": 2, "watch 1": 1} {
		got := run(t, root, strings.Fields(args)...)
		want := "lab: reports can't be written into " + filepath.Join(root, "out", "01-icecream")
		if got.code != code || !strings.HasPrefix(got.stderr, want) ||
			!strings.Contains(got.stderr, "make the folder yours") || got.stdout != "" {
			t.Errorf("%s: got exit code %d and output\n%s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

func TestHelpIsNotError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}, {"grade", "--help"}} {
		if got := run(t, t.TempDir(), args...); got.code != 0 || got.stderr != "" ||
			!strings.Contains(got.stdout, "lab grade 2") {
			t.Errorf("lab %v: exit code %d\n%s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

// last writes the report of a last run of lab 1, in which the given check is the first that failed.
func last(t *testing.T, root, failed string, change func(*report.Report)) {
	t.Helper()
	listed, err := findCheckout(t).Labs.Lab("1")
	if err != nil {
		t.Fatal(err)
	}
	r := grade.Blank(grade.Options{Lab: listed, Dir: filepath.Join(root, "labs", "01-icecream")}, time.Now())
	for i := range r.Checks {
		check := &r.Checks[i]
		check.Status, check.Reason, check.Points = report.Passed, "", check.MaxPoints
		if check.ID == failed {
			check.Status, check.Points, check.Expected, check.Observed = report.Failed, 0, "right", "wrong"
		}
		r.Score += check.Points
	}
	if change != nil {
		change(r)
	}
	for _, dir := range []string{listed.Name, filepath.Join(listed.Name, "verdict")} {
		if err := formats.Write(filepath.Join(root, "out", dir), *r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProgressAndLastReport(t *testing.T) {
	t.Parallel()
	root := bare(t)
	last(t, root, "columns", nil)
	got := run(t, root, "labs")
	lines := strings.Split(got.stdout, "\n")
	if got.code != 0 || len(lines) < 3 || !strings.Contains(lines[1], "90 of 100") ||
		!strings.Contains(lines[1], "make lab-1") ||
		!strings.Contains(lines[2], "never") || !strings.Contains(lines[2], "make read-2") {
		t.Errorf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	old := filepath.Join(root, "out", "02-reconciler", "verdict")
	if err := errors.Join(
		os.MkdirAll(old, 0o755),
		os.WriteFile(filepath.Join(old, report.JSONFile), []byte(`{"schema": "operator-labs/report/v1"}`), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	if got := run(t, root, "labs"); got.code != 0 || !strings.Contains(got.stdout, "90 of 100") ||
		!strings.Contains(got.stderr, "grade again to get a new one") {
		t.Errorf("a report of another version: exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := run(t, root, "report", "1"); got.code != 0 || !strings.Contains(got.stdout, "90 of 100 points") ||
		!strings.Contains(got.stdout, "make hint-1") {
		t.Errorf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := run(t, root, "read", "1"); got.code != 0 || !strings.HasPrefix(got.stdout, "# ") {
		t.Errorf("exit code %d:\n%.200s%s", got.code, got.stdout, got.stderr)
	}
}

// wantNothing fails the test if a process with this temporary folder still runs, or if the folder is not empty. It
// waits a little, because after a kill -9 the guard cleans up, and no process waits for the guard.
func wantNothing(t *testing.T, runs string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	giveUp := time.After(10 * time.Second)
	for {
		left, _ := filepath.Glob(filepath.Join(runs, "operator-labs-*", "*"))
		processes, _ := filepath.Glob("/proc/[0-9]*")
		for _, process := range processes {
			command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
			environment, _ := os.ReadFile(filepath.Join(process, "environ"))
			if strings.Contains(string(command)+string(environment), runs) {
				left = append(left, process+" "+strings.ReplaceAll(string(command), "\x00", " "))
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-giveUp:
			t.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
		}
	}
}
