// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

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

// How long the folder must be quiet before a save is reported: editors write a file in several steps. What is begun a
// step too early and costs nothing, as a build, need not wait for them.
const (
	// SaveWindow is for what is begun once for a save, such as a grading run.
	SaveWindow  = 50 * time.Millisecond
	buildWindow = 5 * time.Millisecond
)

// Save is a file that was saved, or why nothing more can be told.
type Save struct {
	// File is its name without its folder.
	File string
	// Err is why no more saves can be seen. It comes last.
	Err error
}

// WatchFolder tells of files that were saved below a folder, as soon as it was quiet for the time of a window, and
// until the context ends: what a submission is made of, not what tools leave there. It is an error if the folder can't
// be watched, as when this user may watch no more files.
func WatchFolder(ctx context.Context, root string, window time.Duration) (<-chan Save, error) {
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

// watchError adds what to do where this user may watch no more files.
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

// reportSaves reports what a watcher saw, until the context or the watcher ends.
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
			// So much was saved at once that the kernel kept no list of it. New folders may be among it.
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
