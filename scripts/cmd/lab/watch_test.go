// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/submission"
)

func TestSavesAreToldAlsoOfFoldersThatAreNew(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	saves, err := watchFolder(t.Context(), root, saveWindow)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("notes.txt", "not a part")
	write(".main.go.swp", "an editor's")
	write("main.go", "package main")
	if got := next(t, saves); got.file != "main.go" || got.err != nil {
		t.Errorf("told is %v", got)
	}
	if err := os.Mkdir(filepath.Join(root, "internal"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Nobody says when the new folder is watched.
	for written := 1; ; written++ {
		write("internal/shop.go", strings.Repeat("\n", written))
		select {
		case got := <-saves:
			if got.file != "shop.go" {
				t.Errorf("told is %v", got)
			}
			return
		case <-time.After(4 * saveWindow):
		}
		if written == 100 {
			t.Fatal("of a file in a new folder nothing is told")
		}
	}
}

// The kernel keeps a list of limited length. What was lost may be what the student waits for.
func TestSavesThatGotLostAreASave(t *testing.T) {
	t.Parallel()
	watcher, saves := told(t)
	watcher.Errors <- fsnotify.ErrEventOverflow
	if got := next(t, saves); got.err != nil || got.file == "" {
		t.Errorf("told is %v", got)
	}
	watcher.Events <- fsnotify.Event{Name: "main.go", Op: fsnotify.Write}
	if got := next(t, saves); got.err != nil || got.file != "main.go" {
		t.Errorf("after it told is %v", got)
	}
}

func TestAWatcherThatFailsIsNoSilence(t *testing.T) {
	t.Parallel()
	watcher, saves := told(t)
	watcher.Errors <- errors.New("the device is gone")
	if got := next(t, saves); got.err == nil || !strings.Contains(got.err.Error(), "the device is gone") {
		t.Errorf("told is %v", got)
	}
}

// What the compiler says is said once, with its place.
func TestWhatDoesNotCompileIsSaidOnce(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	printUnbuilt(&said, "shop.go", &submission.Problem{
		Reason:      "it does not compile",
		Diagnostics: []report.Diagnostic{{File: "internal/shop.go", Line: 7, Column: 2, Message: "undefined: cone"}},
	})
	if want := "shop.go was saved: it does not compile\n    internal/shop.go:7:2: undefined: cone\n"; said.String() != want {
		t.Errorf("it says %q, want %q", said.String(), want)
	}
}

// told is a watcher whose events and errors a test makes, and what is told of them.
func told(t *testing.T) (*fsnotify.Watcher, <-chan save) {
	t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { watcher.Close() })
	saves := make(chan save)
	go tellSaves(t.Context(), watcher, t.TempDir(), saveWindow, saves)
	return watcher, saves
}

func next(t *testing.T, saves <-chan save) save {
	t.Helper()
	select {
	case got := <-saves:
		return got
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is told")
		return save{}
	}
}

func TestAWatchBeginsWithWhatTheLastVerdictExplained(t *testing.T) {
	t.Parallel()
	const all, others = "newest-goes", "served" // of the checks of a run
	for _, test := range []struct{ what, of, sample, check, want string }{
		{"nothing was graded", "own", "", all, ""},
		{"a check failed", "own", "graded-failed.json", all, "newest-goes"},
		{"nothing failed", "own", "graded-full.json", all, ""},
		{"it does not compile", "own", "not-built.json", all, ""},
		{"another folder", "another", "graded-failed.json", all, ""},
		{"a run without the check that failed", "own", "graded-failed.json", others, ""},
	} {
		dir := t.TempDir()
		lab := &manifest.Lab{Number: 2, Checks: []manifest.Check{{ID: test.check}}}
		c := &choice{Checkout: &checkout.Checkout{Root: dir}, Lab: lab, Dir: filepath.Join(dir, "own"), Out: filepath.Join(dir, "out")}
		if test.sample != "" {
			stored, err := report.Read(filepath.Join("..", "..", "grading", "report", "testdata", test.sample))
			if err != nil {
				t.Fatal(err)
			}
			stored.Submission.Dir = filepath.Join(dir, test.of)
			if err := formats.Write(filepath.Join(c.Out, verdictDir), *stored); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.toFix(); got != test.want {
			t.Errorf("%s: it begins with %q, want %q", test.what, got, test.want)
		}
	}
}
