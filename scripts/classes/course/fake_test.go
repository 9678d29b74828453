// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/scripts/classes/course/intake"
	"lva.io/operators/scripts/classes/course/rules"
	"lva.io/operators/scripts/grading/report"
)

// fake grades by the digest alone: the digest names the result.
type fake struct {
	// takes is how long a run takes.
	takes time.Duration
	// onRun is called in each run. It may be nil.
	onRun func(ctx context.Context, job Job)

	mutex   sync.Mutex
	fetched []Key
	graded  map[Key]int
	most    int // the largest number of runs at a time
	now     int
}

func (f *fake) Fetch(_ context.Context, job Job) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.fetched = append(f.fetched, job.Key)
}

func (f *fake) Blank(job Job) *report.Report {
	return &report.Report{
		Schema: report.Schema, Lab: job.Lab, Title: "A lab",
		Submission: report.Submission{Dir: job.Dir}, Outcome: report.Graded, Seed: job.Seed,
		MaxScore: 100, Environment: report.Environment{Cluster: "embedded", OS: "linux", Arch: "amd64", CPUs: 2},
		Started: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Seconds: 1.5,
		Checks: []report.Check{
			{
				ID: "first", Title: "The first one holds", Status: report.Skipped,
				MaxPoints: 60, Reason: "skipped: the run ended before it",
			},
			{
				ID: "second", Title: "The second one holds", Status: report.Skipped,
				MaxPoints: 40, Reason: "skipped: the run ended before it",
			},
		},
	}
}

func (f *fake) Grade(ctx context.Context, job Job, try int, view View) *report.Report {
	f.mutex.Lock()
	if f.graded == nil {
		f.graded = map[Key]int{}
	}
	f.graded[job.Key]++
	f.now++
	f.most = max(f.most, f.now)
	f.mutex.Unlock()
	defer func() {
		f.mutex.Lock()
		f.now--
		f.mutex.Unlock()
	}()
	result := f.Blank(job)
	view.StepStarted("build")
	if f.onRun != nil {
		f.onRun(ctx, job)
	}
	timer := time.NewTimer(f.takes)
	defer timer.Stop()
	wait := timer.C
	if strings.HasPrefix(job.Digest, "hangs") {
		wait = nil
	}
	select {
	case <-wait:
	case <-ctx.Done():
		result.Outcome, result.Reason = report.Interrupted, "it ended before all checks had run"
		return result
	}
	view.StepDone("build", time.Millisecond, "")
	switch word, _, _ := strings.Cut(job.Digest, "-"); {
	case word == "broken", word == "flaky" && try < 2:
		result.Outcome, result.Reason = report.Error, "this machine was too busy"
		return result
	case word == "panics":
		panic("a defect of the grader")
	case word == "odd":
		result.Score = 1000 // which contradicts its checks
		return result
	case word == "unbuilt":
		result.Outcome, result.Reason = report.NotBuilt, "it does not compile: "+job.Dir+"/main.go:3"
		return result
	}
	sum := fnv.New32a()
	fmt.Fprint(sum, job.Digest)
	for i := range result.Checks {
		check := &result.Checks[i]
		view.CheckStarted(*check)
		check.Reason = ""
		if check.Status = report.Passed; sum.Sum32()>>i&1 == 0 {
			check.Status, check.Expected, check.Observed = report.Failed, "it holds",
				fmt.Sprintf("in %s/main.go it does not, with seed %d", job.Dir, job.Seed)
		} else {
			check.Points = check.MaxPoints
			result.Score += check.Points
		}
		view.CheckDone(*check)
	}
	return result
}

// fakeClass returns a class of two labs. Its digests name the results.
func fakeClass() *Class {
	c := &Class{
		Title: "Operators", Rules: rules.Default(), Seed: 123456789,
		Labs: []Lab{
			{Name: "01-icecream", Title: "An API", Number: 1, Max: 100, Grader: "g1"},
			{Name: "02-reconciler", Title: "A loop", Number: 2, Max: 100, Grader: "g2"},
		},
	}
	digests := []string{"right", "same", "wrong", "flaky", "broken", "unbuilt", "panics", "odd"}
	for i := range 24 {
		student := fmt.Sprintf("student-%02d", i)
		for _, lab := range c.Labs {
			digest := fmt.Sprintf("%s-%d", digests[i%len(digests)], i)
			if strings.HasPrefix(digest, "same") {
				digest = "same"
			}
			s := intake.Submission{
				Student: student, Lab: lab.Name, Attempt: 1,
				Dir: "/srv/prof/class/" + student + "/" + lab.Name, From: student + ".zip", Digest: digest,
			}
			if i == 23 {
				s.Dir, s.Digest, s.Problem = "", "", "its archive is broken: hand it in again"
			}
			c.Submissions = append(c.Submissions, s)
		}
	}
	c.Submissions = append(c.Submissions, intake.Submission{
		Student: "student-02", Lab: "02-reconciler", Attempt: 2, Dir: "/srv/prof/class/student-02/2", Digest: "right-again",
	})
	return c
}

// unsynced does not sync a file: the kernel writes it even if this process is killed. On a busy disk a sync takes a
// second, and a test would need a thousand of them.
func unsynced(*os.File) error { return nil }

// gradeClass grades a class into a folder.
func gradeClass(ctx context.Context, dir string, grader *fake, slots int) (*Class, error) {
	journal, err := openSynced(dir, unsynced)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	c := fakeClass()
	c.Results, err = Run(ctx, Options{Jobs: c.Jobs(), Grader: grader, Journal: journal, Slots: slots})
	return c, err
}

// runClass grades a class into a folder, and writes its results unless it was interrupted.
func runClass(ctx context.Context, dir string, grader *fake, slots int) (*Class, error) {
	if err := RemoveResults(dir); err != nil {
		return nil, err
	}
	c, err := gradeClass(ctx, dir, grader, slots)
	if err != nil {
		return c, err
	}
	return c, WriteResults(dir, c, About{Redactor: NewRedactor("/srv/prof")})
}

func mustRun(t *testing.T, dir string, grader *fake) *Class {
	t.Helper()
	c, err := runClass(t.Context(), dir, grader, 3)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
