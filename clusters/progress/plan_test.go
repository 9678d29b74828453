// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package progress

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The plan has two works, of three minutes and of four.
var (
	first = Work{
		What: "the first", Modules: 20, Download: 20 * time.Second,
		Packages: 100, Compile: 150 * time.Second, Link: 10 * time.Second,
	}
	second = Work{
		What: "the second", Modules: 20, Download: 20 * time.Second,
		Packages: 200, Compile: 200 * time.Second, Link: 20 * time.Second,
	}
)

// build behaves like a build, with the given numbers of modules and packages, the time for each of them, and the time
// for linking.
func build(bar *Bar, modules int, download time.Duration, packages int, compile, link time.Duration) {
	for n := range modules + 1 {
		bar.Set(Modules, n, 0)
		if n < modules {
			pass(download)
		}
	}
	for n := range packages + 1 {
		bar.Set(Packages, n, packages)
		if n < packages {
			pass(compile)
		}
	}
	pass(link)
	bar.Done()
}

var left = regexp.MustCompile(`(.*) \(.*, about (.*) left\)`)

func TestPlanShowsPositionAndTimeLeft(t *testing.T) {
	t.Parallel()
	log, content := newLog(t)
	synctest.Test(t, func(t *testing.T) {
		plan := NewPlan(log, first, second)
		if got, want := content(), "Building once: the first, the second. "+
			"This takes about 7 min if none of it was built here before.\n"; got != want {
			t.Errorf("first output = %q, want %q", got, want)
		}
		// Everything takes as long as in the figures.
		build(plan.Next(), 20, 950*time.Millisecond, 100, 1490*time.Millisecond, 10*time.Second)
		build(plan.Next(), 20, 950*time.Millisecond, 200, 990*time.Millisecond, 20*time.Second)
	})
	lines := strings.Split(strings.TrimSpace(content()), "\n")[1:]
	if first, last := lines[0], lines[len(lines)-1]; first !=
		"1 of 2: build the first: 2 modules (2s, about 7 min left)" ||
		last != "2 of 2: build the second: done in 3m57s" {
		t.Errorf("first line = %q, last line = %q", first, last)
	}
	previous := 8 * time.Minute
	for _, line := range lines {
		found := left.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		now, err := time.ParseDuration(strings.NewReplacer(" min", "m", " s", "s").Replace(found[2]))
		if err != nil || now > previous {
			t.Errorf("%q follows %s left (%v)", line, previous, err)
		}
		previous = now
	}
	if previous > 20*time.Second {
		t.Errorf("%s are left at the end", previous)
	}
}

func TestPlanAdjustsToTheMachine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name              string
		modules, packages int
		download, compile time.Duration
		link              time.Duration
		// want is the time that is left when the second work begins.
		want string
	}{
		{"as in the figures", 20, 100, time.Second, 1500 * time.Millisecond, 10 * time.Second, "4 min"},
		{"half as fast", 20, 100, time.Second, 3 * time.Second, 20 * time.Second, "8 min"},
		{"a slow network", 20, 100, 6 * time.Second, 1500 * time.Millisecond, 10 * time.Second, "6 min"},
		{"all modules are here", 0, 100, 0, 1500 * time.Millisecond, 10 * time.Second, "4 min"},
		{"nearly all is compiled", 0, 2, 0, 1500 * time.Millisecond, 10 * time.Second, "25 s"},
		{"all is compiled", 0, 0, 0, 0, 10 * time.Second, "20 s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log, content := newLog(t)
			synctest.Test(t, func(*testing.T) {
				plan := NewPlan(log, first, second)
				build(plan.Next(), test.modules, test.download, test.packages, test.compile, test.link)
				bar := plan.Next()
				bar.Set(Modules, 0, 0)
				pass(2500 * time.Millisecond)
				bar.Done()
			})
			_, after, _ := strings.Cut(content(), "2 of 2: build the second")
			if found := left.FindStringSubmatch(after); found == nil || found[2] != test.want {
				t.Errorf("output = %q, want %s left", after, test.want)
			}
		})
	}
}

// A plan notices a slow machine during the first work, and adjusts the estimate for the works after it.
func TestPlanAdjustsDuringCompilation(t *testing.T) {
	t.Parallel()
	log, content := newLog(t)
	synctest.Test(t, func(*testing.T) {
		bar := NewPlan(log, first, second).Next()
		bar.Set(Modules, 20, 0)
		pass(20500 * time.Millisecond)
		for n := range 51 {
			bar.Set(Packages, n, 100)
			pass(3 * time.Second) // twice as long as in the figures
		}
		bar.Done()
	})
	var last string
	for line := range strings.Lines(content()) {
		if found := left.FindStringSubmatch(line); found != nil {
			last = found[2]
		}
	}
	// 75 s for the rest, 15 s for linking, and six minutes for the second work, which has four in the figures.
	if last != "7 min" {
		t.Errorf("halfway, %s are left, want 7 min", last)
	}
}

func TestShortWorkHasNoPlan(t *testing.T) {
	t.Parallel()
	log, content := newLog(t)
	synctest.Test(t, func(*testing.T) {
		plan := NewPlan(log, Work{What: "the checks", Compile: 5 * time.Second})
		build(plan.Next(), 0, 0, 1, time.Second, 0)
		NewPlan(log)
	})
	if got, want := content(), "build the checks: done in 1s\n"; got != want {
		t.Errorf("output = %q, want %q", got, want)
	}
}

func TestOverdueWorkIsNotShownAsDone(t *testing.T) {
	t.Parallel()
	log, content := newLog(t)
	synctest.Test(t, func(*testing.T) {
		plan := NewPlan(log, first)
		bar := plan.Next()
		pass(10 * time.Minute)
		bar.Fail()
	})
	lines := strings.Split(strings.TrimSpace(content()), "\n")
	if last := lines[len(lines)-2]; last != "build the first: (9m47s, about 4 min left)" {
		t.Errorf("line after ten minutes without output = %q", last)
	}
	if last := lines[len(lines)-1]; last != "build the first: failed in 10m0s" {
		t.Errorf("last line = %q", last)
	}
}
