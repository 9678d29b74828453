// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package filewatch reports which files of a submission were saved, for programs that grade or restart after a save. It
// watches a folder with everything below it, and ignores files of tools and editors. It neither builds nor grades.
package filewatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How long the folder must be quiet before a save is reported, because editors write a file in several steps. A build
// need not wait for all of them, because an unnecessary build costs nothing.
const (
	// SaveWindow is for actions that start once for each save, such as a grading run. BuildWindow is for builds.
	SaveWindow  = 50 * time.Millisecond
	BuildWindow = 5 * time.Millisecond
)

// Save is a file that was saved, or the error after which no more saves are reported.
type Save struct {
	// File is the file's name without its folder.
	File string
	// Err is the reason why no more saves can be detected. The Save with it is the last one.
	Err error
}

// Watch reports files that were saved below a folder, as soon as the folder was quiet for the time of a window,
// and until the context ends. It reports only files of a submission, not those of tools. It returns an error if the
// folder can't be watched, for example if this user may watch no more files.
func Watch(ctx context.Context, root string, window time.Duration) (<-chan Save, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, watchError(root, err)
	}
	if err := addFolders(watcher, root); err != nil {
		watcher.Close()
		return nil, err
	}
	saves := make(chan Save)
	go func() {
		defer watcher.Close()
		reportSaves(ctx, watcher, root, window, saves)
	}()
	return saves, nil
}

// watchError adds advice for a user who may watch no more files.
func watchError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("watching %s: this user has reached the limit of inotify instances: "+
			"close other programs that watch files, such as editors, "+
			"or let root run: sysctl -w fs.inotify.max_user_instances=1024 (make doctor shows the limits)", path)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("watching %s: this user has reached the limit of inotify watches: "+
			"close other programs that watch files, such as editors, "+
			"or let root run: sysctl -w fs.inotify.max_user_watches=524288 (make doctor shows the limits)", path)
	}
	return fmt.Errorf("watching %s: %w", path, err)
}

// reportSaves reports the saves that a watcher detects, until the context or the watcher ends.
func reportSaves(ctx context.Context, watcher *fsnotify.Watcher, root string, window time.Duration, saves chan<- Save) {
	var next Save
	var settled <-chan time.Time
	for {
		select {
		case event := <-watcher.Events:
			if info, err := os.Stat(event.Name); err == nil && info.IsDir() {
				if err := addFolders(watcher, event.Name); err != nil {
					next, settled = Save{Err: err}, time.After(0)
				}
				continue
			}
			if event.Op == fsnotify.Chmod || !isSource(event.Name) {
				continue
			}
			next, settled = Save{File: filepath.Base(event.Name)}, time.After(window)
		case err := <-watcher.Errors:
			// The kernel's event queue has overflowed. The lost events may include new folders.
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				err = addFolders(watcher, root)
				next, settled = Save{File: "a file"}, time.After(window)
			}
			if err != nil {
				next, settled = Save{Err: fmt.Errorf("watching %s: %w: restart lab watch", root, err)}, time.After(0)
			}
		case <-settled:
			select {
			case saves <- next:
			case <-ctx.Done():
				return
			}
			if next.Err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func addFolders(watcher *fsnotify.Watcher, root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != root && (strings.HasPrefix(name, ".") || name == "bin") {
			return filepath.SkipDir
		}
		if err := watcher.Add(path); err != nil {
			return watchError(path, err)
		}
		return nil
	})
}

// isSource reports whether a file belongs to the submission: not an editor's swap file or backup.
func isSource(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".mod", ".sum", ".yaml", ".yml":
		return !strings.HasPrefix(filepath.Base(name), ".")
	}
	return false
}
