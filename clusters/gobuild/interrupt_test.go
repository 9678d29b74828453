// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/clusters/filelock"
)

func TestWaitForAnotherBuildCanBeCanceled(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	if err := os.MkdirAll(filepath.Dir(target.Output), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := filelock.Wait(t.Context(), target.Output+".lock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("lost patience")
	waiting := make(chan error)
	go func() { waiting <- target.Ensure(ctx, nil) }()
	cancel(cause)
	if err := <-waiting; !errors.Is(err, cause) {
		t.Errorf("error of the wait = %v, want %v", err, cause)
	}
	unlock()
	// The build that gave up must not get the lock later and keep it.
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := target.Ensure(ctx, nil); err != nil {
		t.Error(err)
	}
}

func TestFilesOfKilledBuildAreRemoved(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	if err := os.MkdirAll(filepath.Dir(target.Output), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".4711", ".stamp", ".stamp.4711"} {
		if err := os.WriteFile(target.Output+suffix, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(target.Output+workDirSuffix, "go-build1", "b001"), 0o700); err != nil {
		t.Fatal(err)
	}
	ensure(t, target)
	wantOnlyResults(t, target, "greeting", "greeting.lock", "greeting.stamp")
}

// `kill -9` of a build ends its compilers a moment later. Until then they write.
func TestBuildIgnoresCompilersOfKilledBuild(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	abandoned := target.Output + workDirSuffix
	if err := os.MkdirAll(abandoned, 0o755); err != nil {
		t.Fatal(err)
	}
	killed, ended := make(chan struct{}), make(chan struct{})
	go func() { // a compiler: it writes until it is killed, and its folder may be removed at any moment
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-killed:
				return
			default:
				folder := filepath.Join(abandoned, "b001")
				_ = os.MkdirAll(folder, 0o755)
				_ = os.WriteFile(filepath.Join(folder, strconv.Itoa(n)), nil, 0o600)
			}
		}
	}()
	kill := sync.OnceFunc(func() { close(killed); <-ended })
	defer kill()
	for range 3 {
		ensure(t, target)
		if err := os.Remove(target.Output); err != nil {
			t.Fatal(err)
		}
	}
	kill()
	ensure(t, target)
	wantOnlyResults(t, target, "greeting", "greeting.lock", "greeting.stamp")
}

// The cache is empty, so the standard library's packages are compiled, too, and there is time for an interruption.
func TestCanceledBuildLeavesNothing(t *testing.T) {
	cache, temporary := t.TempDir(), t.TempDir()
	t.Setenv("GOCACHE", cache)
	t.Setenv("TMPDIR", temporary)
	target := newTarget(t)

	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	err := target.Ensure(ctx, func(string, int, int) { cancel(interrupted) })
	if !errors.Is(err, interrupted) {
		t.Fatalf("error of a canceled build = %v", err)
	}
	wantOnlyResults(t, target, "greeting.lock")
	wantNoRun(t, temporary)

	type step struct {
		phase       string
		done, total int
	}
	var steps []step
	if err := target.Ensure(t.Context(), func(phase string, done, total int) {
		steps = append(steps, step{phase, done, total})
	}); err != nil {
		t.Fatal(err)
	}
	wantNoRun(t, temporary)
	if len(steps) < 2 {
		t.Fatalf("steps = %v", steps)
	}
	// It reports this before anything is downloaded or compiled.
	total := steps[1].total
	want := []step{{"modules", 0, 0}}
	for n := range total + 1 {
		want = append(want, step{"packages", n, total})
	}
	if !slices.Equal(steps, want) {
		t.Errorf("steps = %v, want %v", steps, want)
	}
	if last := steps[len(steps)-1]; last.done != total || total < 10 {
		t.Errorf("the progress ended at %d of %d packages", last.done, total)
	}
	if !target.Fresh() {
		t.Error("the program is not fresh")
	}
}

// wantNoRun looks for run folders and processes below a TMPDIR.
func wantNoRun(t *testing.T, temporary string) {
	t.Helper()
	if runs, _ := filepath.Glob(filepath.Join(temporary, "operator-labs-*", "*")); len(runs) > 0 {
		t.Errorf("left behind: %v", runs)
	}
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environments {
		// The processes of a build have our TMPDIR. The test itself had another one when it started.
		if environment, err := os.ReadFile(file); err == nil &&
			strings.Contains(string(environment), "TMPDIR="+temporary+"\x00") {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			t.Errorf("still running: %q", command)
		}
	}
}
