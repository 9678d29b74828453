// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package progress

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pass waits. In a bubble of synctest, that takes no time.
func pass(duration time.Duration) { <-time.After(duration) }

func newLog(t *testing.T) (log *os.File, content func() string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log, func() string {
		t.Helper()
		content, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
}

func TestLogGetsPeriodicLines(t *testing.T) {
	t.Parallel()
	log, content := newLog(t)
	synctest.Test(t, func(t *testing.T) {
		bar := Start(log, "build")
		pass(1900 * time.Millisecond)
		if got := content(); got != "" {
			t.Errorf("output within two seconds = %q", got)
		}
		pass(200 * time.Millisecond)
		bar.Set("modules", 7, 0)
		pass(15 * time.Second)
		bar.Set("packages", 3, 10)
		pass(15 * time.Second)
		bar.Done()
	})
	want := `build: (2s)
build: 7 modules (17s)
build: 3 of 10 packages (32s)
build: done in 32.1s
`
	if got := content(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestShortWorkHasOneLine(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[string]string{"done": "build: done in 1.5s\n", "failed": "build: failed in 1.5s\n"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			log, content := newLog(t)
			synctest.Test(t, func(*testing.T) {
				bar := Start(log, "build")
				bar.Set("packages", 1, 2)
				pass(1500 * time.Millisecond)
				if outcome == "done" {
					bar.Done()
				} else {
					bar.Fail()
				}
			})
			if got := content(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestPipeIsNotATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	if IsTerminal(write) {
		t.Error("IsTerminal() of a pipe = true")
	}
	log, _ := newLog(t)
	if IsTerminal(log) {
		t.Error("IsTerminal() of a file = true")
	}
}

func TestGauge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ done, total, filled int }{
		{0, 10, 0}, {1, 10, 2}, {5, 10, 12}, {10, 10, 24}, {11, 10, 24},
	} {
		bar := &Bar{done: test.done, total: test.total}
		want := "[" + strings.Repeat("█", test.filled) + strings.Repeat("·", 24-test.filled) + "]"
		if got := bar.gauge(); got != want {
			t.Errorf("%d of %d: got %s, want %s", test.done, test.total, got, want)
		}
	}
	if got := (&Bar{done: 5}).gauge(); got != "" {
		t.Errorf("unknown total: got %s, want nothing", got)
	}
}

func TestTimeLeftFollowsFromProgress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		done, total int
		elapsed     time.Duration
		want        string
	}{
		{0, 10, time.Minute, ""},
		{1, 10, time.Second, ""},
		{5, 0, time.Minute, ""},
		{5, 10, 40 * time.Second, "40 s"},
		{1, 10, time.Minute, "9 min"},
		{10, 10, time.Minute, "5 s"},
	} {
		if got := Left(test.done, test.total, test.elapsed); got != test.want {
			t.Errorf("Left(%d, %d, %s) = %q, want %q", test.done, test.total, test.elapsed, got, test.want)
		}
	}
}
