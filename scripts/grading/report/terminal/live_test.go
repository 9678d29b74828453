// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/google/go-cmp/cmp"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/grading/report"
)

// replay shows a stored run as Live would have shown it.
func replay(live *Live, r *report.Report) {
	for _, step := range r.Steps {
		live.StepStarted(step.Name)
		live.StepDone(step.Name, time.Duration(step.Seconds*float64(time.Second)), "")
	}
	for _, check := range r.Checks {
		if check.Status != report.Skipped {
			live.CheckStarted(check)
		}
		live.CheckDone(check)
	}
	live.Close()
}

// settle returns the text that remains on a screen after all cleared lines.
func settle(text string) string {
	var screen strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		parts := strings.Split(line, progress.ClearLine)
		screen.WriteString(parts[len(parts)-1] + "\n")
	}
	return strings.TrimSuffix(screen.String(), "\n")
}

func TestLiveAndVerdictShowWhatRenderShows(t *testing.T) {
	t.Parallel()
	r := reports(t)["graded-failed"]
	for _, screen := range []Screen{plain, columns(80), columns(120)} {
		var out bytes.Buffer
		replay(newLive(&out, r, options(screen), time.Now), r)
		if err := Verdict(&out, r, options(screen)); err != nil {
			t.Fatal(err)
		}
		got, want := settle(out.String()), render(t, r, options(screen))
		if screen.Interactive {
			// On a terminal the steps differ: one line each, or all of them in one.
			cut := func(text string) string { return text[strings.Index(text, "✓"):] }
			got, want = cut(got), cut(want)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at %d columns (-render +live):\n%s", screen.Width, diff)
		}
	}
}

// A student who fixes a check can read its verdict while the other checks still run.
func TestFirstVerdictIsShownAtOnce(t *testing.T) {
	t.Parallel()
	r := reports(t)["graded-failed"]
	failed, passed := *r.Explained(),
		r.Checks[slices.IndexFunc(r.Checks, func(c report.Check) bool { return c.Status == report.Passed })]
	for _, test := range []struct {
		screen Screen
		first  report.Check
		want   []string
	}{
		{plain, failed, []string{"\nexpected: " + failed.Expected, "\nobserved: "}},
		{plain, passed, []string{"\nfixed: " + passed.ID + ": " + passed.Title}},
		{columns(120), failed, []string{"expected", "observed", "Checking the other 12."}},
		{columns(120), passed, []string{"Fixed: " + passed.ID + ". Checking the other 12."}},
	} {
		var out bytes.Buffer
		o := options(test.screen)
		o.First = test.first.ID
		live := newLive(&out, r, o, time.Now)
		live.CheckDone(test.first)
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("output after the first check is\n%s\nwithout %q", out.String(), want)
			}
		}
		before := out.Len()
		live.CheckDone(report.Check{ID: "another", Title: "Another", Status: report.Passed, MaxPoints: 5, Points: 5})
		if output := out.String()[before:]; strings.Contains(output, "Checking") || strings.Contains(output, "ixed:") {
			t.Errorf("for another check, the output is %q", output)
		}
		live.Close()
	}
}

func TestLiveLastLine(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	live := newLive(&out, &report.Report{Lab: "02-reconciler", Title: "T", Submission: report.Submission{Dir: "d"}},
		options(columns(120)), func() time.Time { return now })
	lastLine := func() string {
		parts := strings.Split(out.String(), progress.ClearLine)
		return parts[len(parts)-1]
	}
	want := func(parts ...string) {
		t.Helper()
		line := lastLine()
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("last line is %q, want %q in it", line, part)
			}
		}
		if lipgloss.Width(line[strings.LastIndex(line, "\n")+1:]) >= 120 {
			t.Errorf("last line %q fills the screen", line)
		}
	}
	live.StepStarted("cluster")
	now = now.Add(1500 * time.Millisecond)
	live.StepStarted("build")
	want("⠋ cluster, build ", "1.5 s")
	live.StepProgress("build", "312 of 1840 packages "+strings.Repeat("x", 200))
	live.print("")
	want("312 of 1840 packages", "…", "1.5 s")
	live.StepDone("cluster", 1500*time.Millisecond, "Kubernetes v1.36.3")
	want("· cluster", "Kubernetes v1.36.3", "⠋ build ", "0.0 s")
	live.StepDone("build", time.Second, "")
	if strings.Contains(lastLine(), "⠋") {
		t.Errorf("the spinner runs without an activity: %q", lastLine())
	}
	before := out.Len()
	live.CheckStarted(report.Check{ID: "burst", Title: "Thirty end right"})
	if strings.Contains(out.String()[before:], progress.ClearLine) {
		t.Error("a line was cleared that was not drawn")
	}
	now = now.Add(2 * time.Second)
	live.print("")
	want("⠋ burst ", "Thirty end right", "2.0 s")
	live.Close()
	if got := lastLine(); got != "" {
		t.Errorf("after Close, the last line is %q", got)
	}
	closed := out.String()
	live.Close()
	live.StepStarted("late")
	live.StepDone("late", time.Second, "")
	live.CheckDone(report.Check{ID: "late", Title: "late", Status: report.Passed})
	if out.String() != closed {
		t.Errorf("after Close, it printed %q", out.String()[len(closed):])
	}
}

func TestLiveAnimates(t *testing.T) {
	t.Parallel()
	seen := &frames{two: make(chan struct{}), different: map[string]bool{}}
	live := NewLive(seen, reports(t)["graded-full"], options(columns(80)))
	defer live.Close()
	live.StepStarted("cluster")
	select {
	case <-seen.two:
	case <-time.After(30 * time.Second):
		t.Error("the spinner does not run")
	}
}

// frames closes a channel once it has seen two frames of the spinner.
type frames struct {
	mutex     sync.Mutex
	different map[string]bool
	two       chan struct{}
}

func (f *frames) Write(data []byte) (int, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, picture := range progress.Frames(true) {
		frame := string(picture)
		if n := len(f.different); strings.Contains(string(data), frame) {
			f.different[frame] = true
			if n == 1 && len(f.different) == 2 {
				close(f.two)
			}
		}
	}
	return len(data), nil
}

func TestLiveProgressInAPipe(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	live := newLive(&out, reports(t)["graded-full"], options(plain), func() time.Time { return now })
	live.StepStarted("control plane")
	for i := range 25 {
		now = now.Add(time.Second)
		live.StepProgress("control plane", fmt.Sprintf("%d of 25 packages", i+1))
	}
	live.StepProgress("unknown", "x")
	live.Close()
	_, got, _ := strings.Cut(out.String(), "\n") // without the header
	want := "step control plane: 1 of 25 packages\n" +
		"step control plane: 11 of 25 packages\n" +
		"step control plane: 21 of 25 packages\n"
	if got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestLiveFromSeveralGoroutines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	live := NewLive(&out, reports(t)["graded-full"], options(columns(120)))
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			name := fmt.Sprintf("step-%02d", i)
			live.StepStarted(name)
			live.StepProgress(name, "x")
			live.StepDone(name, time.Second, "done")
		})
	}
	all.Wait()
	live.Close()
	text := settle(out.String())
	for i := range 50 {
		if n := strings.Count(text, fmt.Sprintf("· step-%02d ", i)); n != 1 {
			t.Errorf("step %d is printed %d times", i, n)
		}
	}
	if n := strings.Count(text, "\n"); n != 53 {
		t.Errorf("got %d lines, want 50 and a header of 3:\n%s", n, text)
	}
}
