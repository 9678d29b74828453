// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	module = "module example.test/greeting\n\ngo 1.26\n"
	hello  = "package main\n\nfunc main() { println(\"hello\") }\n"
	goodby = "package main\n\nfunc main() { println(\"goodbye\") }\n"
	aTest  = "package main\n\nimport \"testing\"\n\nfunc TestNothing(*testing.T) {}\n"
)

// newTarget is a program of one file in a module of its own.
func newTarget(t *testing.T) Target {
	t.Helper()
	dir := t.TempDir()
	target := Target{Package: ".", Module: filepath.Join(dir, "module"), Output: filepath.Join(dir, "out", "greeting")}
	write(t, target, "go.mod", module)
	write(t, target, "main.go", hello)
	return target
}

func write(t *testing.T, target Target, name, content string) {
	t.Helper()
	file := filepath.Join(target.Module, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func ensure(t *testing.T, target Target) os.FileInfo {
	t.Helper()
	if err := target.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(target.Output)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// wantOnlyResults looks for files that a build should have removed.
func wantOnlyResults(t *testing.T, target Target, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(target.Output))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("beside the program are %v, want %v", names, want)
	}
}

func TestAProgramIsBuiltOnceForEachStateOfItsSources(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	if target.Fresh() {
		t.Error("a program that was never built is fresh")
	}
	built := ensure(t, target)
	if said, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(said) != "hello\n" {
		t.Fatalf("the program says %q (%v)", said, err)
	}
	wantOnlyResults(t, target, "greeting", "greeting.lock", "greeting.stamp")

	for _, unimportant := range []struct{ name, content string }{
		{"README.md", "what a program is not made from"},
		{"main_test.go", aTest},
		{"testdata/broken.go", "not Go"},
		{"nested/go.mod", "module example.test/nested\n"},
		{"nested/nested.go", "package nested\n"},
	} {
		write(t, target, unimportant.name, unimportant.content)
		if !target.Fresh() {
			t.Errorf("%s makes the program old", unimportant.name)
		}
	}
	if !os.SameFile(built, ensure(t, target)) {
		t.Error("the program was built again though nothing that it is made from has changed")
	}

	for _, important := range []struct{ name, content string }{
		{"main.go", goodby},
		{"go.mod", module + "\n// changed\n"},
		{"another.go", "package main\n"},
		{"page.html", "embedded, perhaps"},
	} {
		write(t, target, important.name, important.content)
		if target.Fresh() {
			t.Errorf("a change of %s goes unnoticed", important.name)
		}
		again := ensure(t, target)
		if os.SameFile(built, again) {
			t.Errorf("the program was not built again after a change of %s", important.name)
		}
		built = again
	}
	if said, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(said) != "goodbye\n" {
		t.Errorf("the program says %q (%v)", said, err)
	}
	if err := os.Remove(target.Output); err != nil {
		t.Fatal(err)
	}
	if target.Fresh() {
		t.Error("a program that was removed is fresh")
	}
}

func TestATestBinaryIsAlsoMadeFromTests(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	target.Test = true
	target.Sources = []string{filepath.Join(target.Module, "tests")}
	target.Package = "./tests"
	write(t, target, "tests/one_test.go", strings.Replace(aTest, "main", "tests", 1))
	built := ensure(t, target)
	if said, err := exec.Command(target.Output, "-test.v").CombinedOutput(); err != nil || !strings.Contains(string(said), "--- PASS: TestNothing") {
		t.Errorf("the test binary says %q (%v)", said, err)
	}
	write(t, target, "main.go", goodby)
	if !os.SameFile(built, ensure(t, target)) {
		t.Error("it was built again though none of the folders that were named has changed")
	}
	write(t, target, "tests/one_test.go", strings.Replace(aTest, "main", "tests", 1)+"\n// changed\n")
	again := ensure(t, target)
	if os.SameFile(built, again) {
		t.Error("it was not built again after a change of a test")
	}
	write(t, target, "go.mod", module+"\n// a requirement, perhaps\n")
	if target.Fresh() {
		t.Error("a change of go.mod goes unnoticed when the sources are other folders")
	}
}

func TestLinkFlagsReachTheProgram(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	write(t, target, "main.go", "package main\n\nvar version = \"none\"\n\nfunc main() { println(version) }\n")
	target.LinkFlags = []string{"-X", "main.version=v1"}
	ensure(t, target)
	if said, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(said) != "v1\n" {
		t.Errorf("the program says %q (%v)", said, err)
	}
	target.LinkFlags = []string{"-X", "main.version=v2"}
	if target.Fresh() {
		t.Error("other link flags go unnoticed")
	}
}

func TestTwoAtOnceBuildOnce(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	var built [2]os.FileInfo
	var building sync.WaitGroup
	for i := range built {
		building.Go(func() {
			if err := target.Ensure(t.Context(), nil); err != nil {
				t.Error(err)
				return
			}
			built[i], _ = os.Stat(target.Output)
		})
	}
	building.Wait()
	if !t.Failed() && !os.SameFile(built[0], built[1]) {
		t.Error("the second one built it again")
	}
	wantOnlyResults(t, target, "greeting", "greeting.lock", "greeting.stamp")
}

func TestWhoeverWaitsForABuildCanGiveUp(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	if err := os.MkdirAll(filepath.Dir(target.Output), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := Lock(t.Context(), target.Output+".lock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	lostPatience := errors.New("lost patience")
	waiting := make(chan error)
	go func() { waiting <- target.Ensure(ctx, nil) }()
	cancel(lostPatience)
	if err := <-waiting; !errors.Is(err, lostPatience) {
		t.Errorf("waiting ended with %v, want %v", err, lostPatience)
	}
	unlock()
	// The one that gave up must not come by the lock later and keep it.
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := target.Ensure(ctx, nil); err != nil {
		t.Error(err)
	}
}

func TestACompileErrorIsReportedWithItsPlace(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	ensure(t, target)
	write(t, target, "main.go", "package main\n\nfunc main() {\n\tundefinedName()\n}\n")
	err := target.Ensure(t.Context(), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "building greeting: go build: exit status 1\n") ||
		!strings.Contains(err.Error(), "main.go:4:2: undefined: undefinedName") {
		t.Errorf("the error is %v", err)
	}
	write(t, target, "main.go", hello)
	if target.Fresh() {
		t.Error("after a build that failed the program is fresh")
	}
	ensure(t, target)
}

func TestWithoutGoOnePlainSentenceSaysSo(t *testing.T) {
	target := newTarget(t)
	t.Setenv("PATH", t.TempDir())
	err := target.Ensure(t.Context(), nil)
	want := "building greeting: Go is not installed or not on PATH: install it from go.dev/dl or your system's packages"
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestAKilledBuildsFilesGo(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	if err := os.MkdirAll(filepath.Dir(target.Output), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".4711", ".stamp"} {
		if err := os.WriteFile(target.Output+suffix, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ensure(t, target)
	wantOnlyResults(t, target, "greeting", "greeting.lock", "greeting.stamp")
}

// The cache is empty, so the standard library's packages are compiled, too, and there is something to interrupt.
func TestACancelledBuildLeavesNothingAndTheNextOneCountsToTheEnd(t *testing.T) {
	cache, temporary := t.TempDir(), t.TempDir()
	t.Setenv("GOCACHE", cache)
	t.Setenv("TMPDIR", temporary)
	target := newTarget(t)

	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	err := target.Ensure(ctx, func(string, int, int) { cancel(interrupted) })
	if !errors.Is(err, interrupted) {
		t.Fatalf("a build that was cancelled ended with %v", err)
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
	if len(steps) == 0 {
		t.Fatal("no progress was shown")
	}
	total := steps[0].total
	for i, s := range steps {
		if s.phase != "packages" || s.total != total || s.done != min(i+1, total) {
			t.Errorf("step %d is %+v", i+1, s)
		}
	}
	if last := steps[len(steps)-1]; last.done != total || total < 10 {
		t.Errorf("it ended at %d of %d packages", last.done, total)
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
		// The processes of a build have our TMPDIR; we ourselves had another when we began.
		if environment, err := os.ReadFile(file); err == nil && strings.Contains(string(environment), "TMPDIR="+temporary+"\x00") {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			t.Errorf("still running: %q", command)
		}
	}
}

func TestTheSameSourcesAreTheSameProgramInAnotherFolderAndCommit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	var programs [][]byte
	for range 2 {
		target := newTarget(t)
		for _, args := range [][]string{
			{"init", "--quiet"},
			{"add", "."},
			{"-c", "user.name=t", "-c", "user.email=t@example.test", "commit", "--quiet", "--message", target.Module},
		} {
			command := exec.Command("git", args...)
			command.Dir = target.Module
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v: %s", args, err, out)
			}
		}
		ensure(t, target)
		program, err := os.ReadFile(target.Output)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program)
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("the two programs differ")
	}
}

func TestTagsChooseFilesAndMakeAProgramStale(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	write(t, target, "main.go", "//go:build !polite\n\n"+hello)
	write(t, target, "polite.go", "//go:build polite\n\n"+goodby)
	ensure(t, target)
	target.Tags = []string{"polite"}
	if target.Fresh() {
		t.Error("with other tags it is fresh")
	}
	ensure(t, target)
	if out, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(out) != "goodbye\n" {
		t.Errorf("it says %q (%v)", out, err)
	}
}
