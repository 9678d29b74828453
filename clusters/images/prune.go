// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"lva.io/operators/clusters/images/named"
)

// keep is how long the store keeps something that the catalogue no longer has. That is long enough for a developer who
// returns to a branch, and for everything that reads it now.
const keep = 24 * time.Hour

// prune removes what was built from an earlier catalogue or from earlier sources, a day after it was built.
func (s *Store) prune(c *Catalogue) error {
	current := map[string]bool{}
	for _, image := range c.Images {
		key, err := s.imageKey(image)
		if err != nil {
			return err
		}
		current[key] = true
		for _, layer := range image.Layers {
			key, err := s.layerKey(c, c.named(layer))
			if err != nil {
				return err
			}
			current[key] = true
			for _, file := range c.named(layer).Files {
				if file.Debian == "" {
					continue
				}
				if key, err = s.layerKey(c, Layer{Debian: file.Debian}); err != nil {
					return err
				}
				current[key] = true
			}
		}
	}
	for _, name := range names(c.Charts) {
		file, _, err := s.chartFile(c, name)
		if err != nil {
			return err
		}
		current[filepath.Base(file)] = true
	}
	inUse := map[string]bool{}
	for _, folder := range []string{"images", "layers", "charts"} {
		if err := s.pruneFolder(folder, func(name string) bool { return current[name] }, func(file string) {
			var record struct {
				content
				blob
			}
			text, err := os.ReadFile(file)
			if err != nil || folder == "charts" || json.Unmarshal(text, &record) != nil {
				return
			}
			for _, b := range append(record.Layers, record.Configuration, record.blob) {
				inUse[filepath.Base(s.blob(b.Digest))] = true
			}
		}); err != nil {
			return err
		}
	}
	all, err := named.List(s.Dir)
	if err != nil {
		return err
	}
	for _, image := range all {
		for _, b := range append(image.Layers, image.Configuration) {
			inUse[filepath.Base(s.blob(b.Digest))] = true
		}
	}
	return s.pruneFolder("blobs/sha256", func(name string) bool { return inUse[name] }, func(string) {})
}

// pruneFolder removes the files of a folder that are neither wanted nor recent, and calls stays for the others.
func (s *Store) pruneFolder(folder string, wanted func(name string) bool, stays func(file string)) error {
	entries, err := os.ReadDir(filepath.Join(s.Dir, folder))
	if err != nil {
		return ignoreMissing(err)
	}
	for _, entry := range entries {
		file := filepath.Join(s.Dir, folder, entry.Name())
		info, err := entry.Info()
		if err != nil {
			continue // another process has removed it
		}
		if wanted(entry.Name()) || time.Since(info.ModTime()) < keep {
			stays(file)
			continue
		}
		if err := ignoreMissing(os.Remove(file)); err != nil {
			return err
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// touch makes a record recent again, because it is used.
func (s *Store) touch(folder, key string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(s.Dir, folder, key), now, now)
}
