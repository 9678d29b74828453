// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"

	"lva.io/operators/scripts/grading/faults"
)

// followStorage reports to the injector each change in the folder where an aggregated API server stores its objects,
// so that the server can be killed after a change. A Pod, or a server that stores its objects elsewhere, has no such
// folder, and followStorage does nothing. end ends the reports.
func (o *operator) followStorage() (end func(), err error) {
	server := o.server()
	if server == nil || server.Serving().DataDir == "" {
		return func() {}, nil
	}
	return followFolder(server.Serving().DataDir, o.injector)
}

// followFolder reports to the injector each change in a folder and in its subfolders.
func followFolder(folder string, injector *faults.Injector) (end func(), err error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", folder, err)
	}
	if err := watchBelow(watcher, folder); err != nil {
		return nil, errors.Join(err, watcher.Close())
	}
	go func() { // ends with Close
		for {
			select {
			case event, ok := <-watcher.Events:
				if !ok {
					return
				}
				// This comes first, because a change in a new folder is not seen until the folder is watched.
				if event.Has(fsnotify.Create) {
					_ = watchBelow(watcher, event.Name) // a file, or already deleted
				}
				if verb := changeOf(event); verb != "" {
					file, _ := filepath.Rel(folder, event.Name)
					injector.Changed(verb, filepath.ToSlash(file))
				}
			case _, ok := <-watcher.Errors: // an overflow: some changes are not counted
				if !ok {
					return
				}
			}
		}
	}()
	return func() { _ = watcher.Close() }, nil
}

// changeOf describes in one word what happened to a file. It is empty if the content and the name are unchanged.
func changeOf(event fsnotify.Event) string {
	if changed := event.Op &^ fsnotify.Chmod; changed != 0 {
		return strings.ToLower(changed.String())
	}
	return ""
}

// watchBelow watches a folder and its subfolders.
func watchBelow(watcher *fsnotify.Watcher, folder string) error {
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return watcher.Add(path)
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", folder, err)
	}
	return nil
}
