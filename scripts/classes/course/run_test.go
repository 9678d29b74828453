// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/report"
)

// childDir is set in a process that grades a class into that folder and is killed while it grades. With childResults,
// the process also writes the results.
const (
	childDir     = "COURSE_TEST_CHILD"
	childResults = "COURSE_TEST_RESULTS"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	grader := &fake{takes: 100 * time.Microsecond, onRun: func(context.Context, Job) { fmt.Println("a run begins") }}
	grades := gradeClass
	if os.Getenv(childResults) != "" {
		grades = runClass
	}
	if _, err := grades(context.Background(), dir, grader, 3); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// results returns the files that a class has besides its journal, by name. It leaves out the page of the class, which
// contains the times of the runs.
func results(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		short, err := filepath.Rel(dir, name)
		if err != nil || strings.HasPrefix(short, "journal") || strings.HasPrefix(short, runsDir) || short == PageFile {
			return err
		}
		content, err := os.ReadFile(name)
		all[short] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) || len(want) < 50 {
		t.Errorf("got %d files of results, want %d", len(got), len(want))
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s is\n%s\nwant\n%s", name, got[name], content)
			return
		}
	}
}

// onceEach reads a journal, returns its number of lines, and reports runs that were repeated although they had decided
// something.
func onceEach(t *testing.T, dir string) (lines int) {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, journalFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	final := map[Key]int{}
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if lines++; l.Record != nil && l.Record.final() {
			if final[l.Record.Key]++; final[l.Record.Key] > 1 {
				t.Errorf("%s %s was graded again", l.Record.Lab, l.Record.Digest)
			}
		}
	}
	return lines
}

func TestKilledProcessChangesNoResult(t *testing.T) {
	t.Parallel()
	want := t.TempDir()
	mustRun(t, want, &fake{})
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	// child starts a process and kills it some time after so many runs have begun, unless runs is 0. The processes that
	// run longer than half of them also write results.
	child := func(runs int) (killed bool) {
		command := exec.CommandContext(t.Context(), program)
		command.Env = append(os.Environ(), childDir+"="+dir)
		if runs == 0 || runs > 30 {
			command.Env = append(command.Env, childResults+"=yes")
		}
		command.Stderr = os.Stderr
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if n++; n == runs {
				killTimer := time.AfterFunc(time.Duration(random.IntN(1000))*time.Microsecond, func() {
					_ = command.Process.Kill() // may have ended
				})
				defer killTimer.Stop()
			}
		}
		err = command.Wait()
		exit, failed := errors.AsType[*exec.ExitError](err)
		if failed && exit.Exited() || err != nil && !failed {
			t.Fatalf("the process failed before it was killed: %v", err)
		}
		return failed
	}
	kills := 0
	for range 50 {
		if child(1 + random.IntN(60)) {
			kills++
		}
	}
	child(0)
	t.Logf("killed %d times; the journal has %d lines", kills, onceEach(t, dir))
	same(t, results(t, dir), results(t, want))
	if kills < 25 {
		t.Errorf("killed only %d times", kills)
	}
}

// TestInterruptionsChangeNoResult checks that an interruption cancels the active runs. After it, even the last line of
// the journal may be missing or incomplete.
func TestInterruptionsChangeNoResult(t *testing.T) {
	t.Parallel()
	gradebook := func(c *Class) string {
		var text strings.Builder
		if err := WriteGradebook(&text, c.Labs, c.Rows()); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	uninterrupted, err := gradeClass(t.Context(), t.TempDir(), &fake{}, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := gradebook(uninterrupted)
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		dir := t.TempDir()
		interrupted := 0
		for {
			ctx, cancel := context.WithCancel(t.Context())
			var started atomic.Int32
			after := int32(1 + random.IntN(150)) // the submissions without a verdict alone take 60 runs
			class, err := gradeClass(ctx, dir, &fake{onRun: func(context.Context, Job) {
				if started.Add(1) == after {
					cancel()
				}
			}}, 1+random.IntN(4))
			cancel()
			if err == nil {
				if got := gradebook(class); got != want {
					t.Fatalf("the gradebook is\n%s\nwant\n%s", got, want)
				}
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if interrupted++; interrupted%2 == 0 {
				file := filepath.Join(dir, journalFile)
				info, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(file, max(0, info.Size()-int64(random.IntN(100)))); err != nil {
					t.Fatal(err)
				}
			}
		}
		onceEach(t, dir)
	}
}

func TestEachJobIsGradedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	grader := &fake{takes: time.Millisecond}
	c := mustRun(t, dir, grader)
	jobs := c.Jobs()
	if len(grader.fetched) != len(jobs) {
		t.Errorf("modules were fetched for %d of %d", len(grader.fetched), len(jobs))
	}
	for _, job := range jobs {
		want := 1
		switch word, _, _ := strings.Cut(job.Digest, "-"); word {
		case "flaky":
			want = 2
		case "broken", "panics", "odd":
			want = Tries
		}
		if got := grader.graded[job.Key]; got != want {
			t.Errorf("%s was graded %d times, want %d times", job.Digest, got, want)
		}
		if job.Digest == "same" && job.Others != 2 {
			t.Errorf("Others = %d", job.Others)
		}
	}
	if grader.most != 3 {
		t.Errorf("%d submissions were graded at a time", grader.most)
	}

	// The second call grades only submissions without a verdict.
	again := &fake{}
	before := results(t, dir)
	mustRun(t, dir, again)
	for key := range again.graded {
		if result := c.Results[key]; result.final() {
			t.Errorf("%s was graded again", key.Digest)
		}
	}
	if len(again.graded) == 0 {
		t.Error("work without a verdict was not graded again")
	}
	same(t, results(t, dir), before)
}

func TestOnlyChangedWorkIsGraded(t *testing.T) {
	t.Parallel()
	journal := openJournal(t, t.TempDir())
	defer closeJournal(t, journal)
	c := fakeClass()
	if _, err := Run(t.Context(), Options{Jobs: c.Jobs(), Grader: &fake{}, Journal: journal}); err != nil {
		t.Fatal(err)
	}
	for i := range c.Labs {
		c.Labs[i].Grader += "-newer"
	}
	c.Submissions[0].Digest = "right-new"
	again := &fake{}
	all, err := Run(t.Context(), Options{Jobs: c.Jobs(), Grader: again, Journal: journal, OnlyChanged: true})
	if err != nil {
		t.Fatal(err)
	}
	for key := range again.graded {
		if result := all[key]; key.Digest != "right-new" && result.final() {
			t.Errorf("%s has not changed, and was graded", key.Digest)
		}
	}
	if again.graded[Key{"01-icecream", "right-new", "g1-newer", c.Seed}] != 1 || len(all) != len(c.Jobs()) {
		t.Errorf("changed work was not graded, or results are missing: %d of %d", len(all), len(c.Jobs()))
	}
	everything := &fake{}
	if _, err := Run(t.Context(), Options{Jobs: c.Jobs(), Grader: everything, Journal: journal}); err != nil {
		t.Fatal(err)
	}
	if len(everything.graded) != len(c.Jobs())-1 {
		t.Errorf("another grader graded %d of %d again", len(everything.graded), len(c.Jobs()))
	}
}

// TestHangingRunIsCancelled checks that a run that hangs is cancelled, and the class continues.
func TestHangingRunIsCancelled(t *testing.T) {
	t.Parallel()
	journal := openJournal(t, t.TempDir())
	defer closeJournal(t, journal)
	var jobs []Job
	for i, digest := range []string{"hangs", "right", "hangs-too", "wrong"} {
		jobs = append(jobs, Job{
			Key: Key{Lab: "02-reconciler", Digest: digest}, Student: fmt.Sprint(i), Dir: "/x", Within: 20 * time.Millisecond,
		})
	}
	all, err := Run(t.Context(), Options{Jobs: jobs, Grader: &fake{}, Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		result, want := all[job.Key], report.Graded
		if strings.HasPrefix(job.Digest, "hangs") {
			want = report.Error
		}
		if result.Outcome != want || result.Report.Outcome != want {
			t.Errorf("%s: %s %s", job.Digest, result.Outcome, result.Report.Reason)
		}
	}
}

func TestDeployedSubmissionsAreLimited(t *testing.T) {
	t.Parallel()
	journal := openJournal(t, t.TempDir())
	defer closeJournal(t, journal)
	var now, most atomic.Int32
	grader := &fake{takes: time.Millisecond, onRun: func(ctx context.Context, job Job) {
		if strings.HasPrefix(job.Digest, "deployed") {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			context.AfterFunc(ctx, func() {})
			now.Add(-1)
		}
	}}
	var jobs []Job
	for i := range 12 {
		jobs = append(jobs,
			Job{Key: Key{Lab: "05-cert-manager", Digest: fmt.Sprint("deployed-", i)}, Dir: "/x", Deployed: true},
			Job{Key: Key{Lab: "02-reconciler", Digest: fmt.Sprint("process-", i)}, Dir: "/x"})
	}
	all, err := Run(t.Context(), Options{Jobs: jobs, Grader: grader, Journal: journal, Slots: 4, Deployed: 1})
	if err != nil || len(all) != len(jobs) {
		t.Fatalf("%d results: %v", len(all), err)
	}
	if most.Load() != 1 || grader.most != 4 {
		t.Errorf("%d deployed labs at a time, %d submissions at a time", most.Load(), grader.most)
	}
}

// TestJournalErrorEndsRun checks that a class whose journal can't be written is aborted, because its results would be
// lost.
func TestJournalErrorEndsRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	journal := openJournal(t, dir)
	grader := &fake{onRun: func(context.Context, Job) { _ = os.RemoveAll(filepath.Join(dir, runsDir)) }}
	c := fakeClass()
	_, err := Run(t.Context(), Options{Jobs: c.Jobs(), Grader: grader, Journal: journal, Slots: 2})
	if err == nil || !strings.Contains(err.Error(), "saving the report") {
		t.Errorf("Run() error = %v", err)
	}
	if len(grader.graded) > 4 {
		t.Errorf("%d submissions were graded", len(grader.graded))
	}
	closeJournal(t, journal)
}

func TestSlotsFitTheMachine(t *testing.T) {
	t.Parallel()
	const gb = 1 << 30
	for _, c := range []struct {
		processors int
		free, each int64
		want       int
	}{
		{2, 24 * gb, MemoryOfProcess, 3},
		{1, 24 * gb, MemoryOfProcess, 2},
		{8, 64 * gb, MemoryOfProcess, 12},
		{8, 4 * gb, MemoryOfProcess, 3},
		{64, 64 * gb, MemoryOfNode, 34},
		{4, 1, MemoryOfNode, 1},
		{0, 0, 0, 1},
	} {
		if got := Slots(c.processors, c.free, c.each); got != c.want {
			t.Errorf("%d processors, %d MB free: %d slots, want %d", c.processors, c.free>>20, got, c.want)
		}
	}
	if free, err := FreeMemory(); err != nil || free <= 0 {
		t.Errorf("FreeMemory() = %d, %v", free, err)
	}
}
