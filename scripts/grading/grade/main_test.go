// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/stage/own"
)

// TestMain gives these tests a separate temporary folder, so that they can check whether a run left anything behind.
// This binary also serves as the checks of some of the runs: see playedChecks.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getenv(protocol.RunVariable) != "" {
			flag.Parse()
			if err := flag.Set("test.run", "^TestPlayedChecks$"); err != nil {
				panic(err) // package testing has this flag
			}
			return m.Run()
		}
		temporary, err := os.MkdirTemp("", "grade-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(temporary)
		kept = filepath.Join(temporary, "kept")
		// This path is longer than the name of a socket may be.
		deep := filepath.Join(temporary, strings.Repeat("deep/", 30))
		if err := errors.Join(os.MkdirAll(deep, 0o700), os.Setenv("TMPDIR", deep)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := closePool(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		left := leftovers(deep)
		// The guard of a run that was killed ends after it.
		for end := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(end); left = leftovers(deep) {
			<-time.After(50 * time.Millisecond)
		}
		if len(left) > 0 {
			fmt.Fprintf(os.Stderr, "the runs left behind:\n%s\n", strings.Join(left, "\n"))
			return 1
		}
		return code
	}())
}

// leftovers returns run folders, other files in the folder of temporary files, and processes that were started from
// them or with them in their environment. The folder that contains all runs of a user is not a leftover.
func leftovers(temporary string) []string {
	var left []string
	all, _ := filepath.Glob(filepath.Join(temporary, "*"))
	runs, _ := filepath.Glob(filepath.Join(temporary, "operator-labs-*", "*"))
	others := slices.DeleteFunc(all, func(name string) bool {
		return strings.HasPrefix(filepath.Base(name), "operator-labs-")
	})
	for _, run := range append(runs, others...) { // with its content, which shows whose it was
		_ = filepath.WalkDir(run, func(name string, _ fs.DirEntry, _ error) error {
			left = append(left, name)
			return nil
		})
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if filepath.Base(process) == fmt.Sprint(os.Getpid()) {
			continue
		}
		// A process that ended meanwhile has neither.
		command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(process, "environ"))
		if strings.Contains(string(command)+string(environment), temporary) {
			left = append(left, process+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return left
}

// kept is a folder for programs built from submissions. It is outside the folder in which runs may leave nothing.
// unpacked are the names of the submissions that unpack has created, by their folders.
var (
	kept     string
	unpacked sync.Map
)

// unpack creates a submission in a folder: base.txtar, overlaid with the files of other archives. An empty file in an
// archive removes the file.
func unpack(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, archive := range append([]string{"base"}, names...) {
		parsed, err := txtar.ParseFile(filepath.Join("testdata", "submissions", archive+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range parsed.Files {
			path := filepath.Join(dir, filepath.FromSlash(file.Name))
			if len(file.Data) == 0 {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	unpacked.Store(dir, strings.Join(append([]string{"base"}, names...), "+"))
	return dir
}

// digest returns a digest of all names, times and contents below a folder.
func digest(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime())
		if entry.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		sum.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// tools are the programs of this checkout that a run needs besides a submission. They are built if necessary.
var tools = sync.OnceValues(func() (*built, error) {
	repo, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	b := &built{Checkout: repo}
	if err := repo.EnsureControlPlane(context.Background()); err != nil {
		return nil, err
	}
	b.controllerGen, err = repo.ControllerGen(context.Background())
	return b, err
})

type built struct {
	*checkout.Checkout
	controllerGen string
}

// pool lends control planes to the runs of these tests.
var pool = sync.OnceValues(func() (*own.Pool, error) {
	have, err := tools()
	if err != nil {
		return nil, err
	}
	return own.NewPool(have.ControlPlane), nil
})

func closePool() error {
	pool, err := pool()
	if err != nil {
		return err
	}
	return pool.Close()
}

// options returns options for grading a folder for a lab, with a control plane of the pool.
func options(t *testing.T, lab, dir string) Options {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	listed, err := have.Labs.Lab(lab)
	if err != nil {
		t.Fatal(err)
	}
	checks, err := have.Checks(t.Context(), listed)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pool()
	if err != nil {
		t.Fatal(err)
	}
	lease := pool.Lease()
	t.Cleanup(lease.Return)
	// Several tests grade the same submission, which is built once.
	buildCache := ""
	if names, is := unpacked.Load(dir); is {
		buildCache = filepath.Join(kept, "unpacked", names.(string))
	} else if solution, err := filepath.Rel(have.Root, dir); err == nil && filepath.IsLocal(solution) {
		buildCache = filepath.Join(kept, solution)
	}
	return Options{
		Lab: listed, Dir: dir, ControllerGen: have.controllerGen, Checks: checks,
		Kubectl: have.ControlPlane.Path, BuildCache: buildCache,
		OperatorLog: filepath.Join(t.TempDir(), "operator.log"), Start: lease.Start,
	}
}

// alone gives the run its own control plane, as a student's run has.
func alone(t *testing.T, options Options) Options {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	options.Start = own.Start(func(ctx context.Context) (*embedded.Cluster, error) {
		cluster, err := embedded.StartServer(ctx, have.ControlPlane)
		if err == nil {
			t.Cleanup(func() { wantGone(t, cluster) })
		}
		return cluster, err
	})
	return options
}

// wantGone checks, after a run, that nothing of its cluster is left.
func wantGone(t *testing.T, cluster *embedded.Cluster) {
	t.Helper()
	if _, err := os.Stat(cluster.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cluster's folder still exists: %v", err)
	}
	for name, pid := range cluster.PIDs() {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("%s is still running", name)
		}
	}
}

// grade runs the grader and checks what must hold for every run: the report is complete and valid, and the submission
// unchanged.
func grade(ctx context.Context, t *testing.T, options Options) *report.Report {
	t.Helper()
	before := digest(t, options.Dir)
	result := Run(ctx, options)
	if digest(t, options.Dir) != before {
		t.Error("the submission's folder was changed")
	}
	wantValid(t, options.Lab, result)
	return result
}

// wantValid checks that a report is valid in each of its formats, and contains all checks of a lab.
func wantValid(t *testing.T, lab *manifest.Lab, result *report.Report) {
	t.Helper()
	out := t.TempDir()
	if err := formats.Write(out, *result); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(out, report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Validate(written); err != nil {
		t.Error(err)
	}
	junit, err := os.ReadFile(filepath.Join(out, report.JUnitFile))
	if err != nil || !strings.Contains(string(junit), "<testsuite ") {
		t.Errorf("JUnit report is %q, %v", junit, err)
	}
	// Preconditions are worth no points.
	own := slices.DeleteFunc(slices.Clone(result.Checks), func(c report.Check) bool { return c.MaxPoints == 0 })
	if len(own) != len(lab.Own()) || result.MaxScore != lab.MaxScore() {
		t.Errorf("report has %d of %d checks", len(result.Checks), len(lab.Checks))
	}
}

func match(t *testing.T, what, text, expression string) {
	t.Helper()
	if !regexp.MustCompile(expression).MatchString(text) || (expression == "" && text != "") {
		t.Errorf("%s must match %q, got\n%s", what, expression, text)
	}
}

// witness is a View that calls a function when a step or a check begins.
type witness struct {
	silent
	begins func(what string)
}

func (w witness) StepStarted(name string)         { w.begins(name) }
func (w witness) CheckStarted(check report.Check) { w.begins(check.ID) }
