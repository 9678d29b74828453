// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package filewatch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestSavesInNewFoldersAreReported(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	saves, err := Watch(t.Context(), root, SaveWindow)
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
	if got := next(t, saves); got.File != "main.go" || got.Err != nil {
		t.Errorf("got save %v", got)
	}
	if err := os.Mkdir(filepath.Join(root, "internal"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The test can't observe when the new folder is watched.
	for written := 1; ; written++ {
		write("internal/shop.go", strings.Repeat("\n", written))
		select {
		case got := <-saves:
			if got.File != "shop.go" {
				t.Errorf("got save %v", got)
			}
			return
		case <-time.After(4 * SaveWindow):
		}
		if written == 100 {
			t.Fatal("no save in the new folder was reported")
		}
	}
}

// The kernel's event queue is limited. A lost event may be the save that the student waits for.
func TestLostEventsCountAsASave(t *testing.T) {
	t.Parallel()
	watcher, saves := newWatcher(t)
	watcher.Errors <- fsnotify.ErrEventOverflow
	if got := next(t, saves); got.Err != nil || got.File == "" {
		t.Errorf("got save %v", got)
	}
	watcher.Events <- fsnotify.Event{Name: "main.go", Op: fsnotify.Write}
	if got := next(t, saves); got.Err != nil || got.File != "main.go" {
		t.Errorf("got next save %v", got)
	}
}

func TestWatcherErrorIsReported(t *testing.T) {
	t.Parallel()
	watcher, saves := newWatcher(t)
	watcher.Errors <- errors.New("the device is gone")
	if got := next(t, saves); got.Err == nil || !strings.Contains(got.Err.Error(), "the device is gone") {
		t.Errorf("got save %v", got)
	}
}

// newWatcher returns a watcher to which a test sends events and errors, and the saves that are reported for them.
func newWatcher(t *testing.T) (*fsnotify.Watcher, <-chan Save) {
	t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { watcher.Close() })
	saves := make(chan Save)
	go reportSaves(t.Context(), watcher, t.TempDir(), SaveWindow, saves)
	return watcher, saves
}

func next(t *testing.T, saves <-chan Save) Save {
	t.Helper()
	select {
	case got := <-saves:
		return got
	case <-time.After(10 * time.Second):
		t.Fatal("no save was reported")
		return Save{}
	}
}
