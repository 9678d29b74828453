// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package named maps image references to images, in the folder of an image store. The node of an embedded cluster runs
// the image to which a reference points at that time. The package does not build images or read their contents.
package named

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
)

// Blob is a file of the store.
type Blob struct {
	// Digest is the file's name: "sha256:…".
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Path returns the file's path, given the store's folder.
func (b Blob) Path(store string) string {
	return filepath.Join(store, "blobs", "sha256", strings.TrimPrefix(b.Digest, "sha256:"))
}

// Image is the image to which a reference points.
type Image struct {
	Reference     string `json:"reference"`
	Configuration Blob   `json:"configuration"`
	// Layers are tar archives, lowest first.
	Layers []Blob `json:"layers"`
}

// folder is the folder of the references in a store, and work is that of files that are being written.
const (
	folder = "references"
	work   = "work"
)

// ErrUnknown reports that the store has no image with that name.
var ErrUnknown = errors.New("there is no such image")

var (
	component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
	// host is a registry: it has a dot or a port, or is localhost.
	host    = `(?:localhost|[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+|[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*:[0-9]+)(?::[0-9]+)?`
	grammar = regexp.MustCompile(`^(?:(` + host + `)/)?(` + component + `(?:/` + component + `)*)` +
		`(?::([\w][\w.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`)
	identity = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// Complete returns a reference with its default parts filled in: "web" is docker.io/library/web:latest.
func Complete(reference string) (string, error) {
	parts := grammar.FindStringSubmatch(reference)
	if parts == nil {
		return "", fmt.Errorf("%q is not the name of an image: it must be of the form registry/name:tag, in small letters",
			reference)
	}
	registry, name, tag, digest := parts[1], parts[2], parts[3], parts[4]
	if registry == "" {
		registry = "docker.io"
		if !strings.Contains(name, "/") {
			name = "library/" + name
		}
	}
	switch {
	case digest != "":
		return registry + "/" + name + "@" + digest, nil
	case tag == "":
		tag = "latest"
	}
	return registry + "/" + name + ":" + tag, nil
}

// writes numbers the writes of one process.
var writes atomic.Int64

// Write points a reference at an image. Concurrent readers see either the old image or the new one.
func Write(store string, image Image) error {
	name, err := Complete(image.Reference)
	if err != nil {
		return err
	}
	image.Reference = name
	text, err := json.Marshal(image)
	if err != nil {
		return err
	}
	dir := filepath.Join(store, folder)
	for _, needed := range []string{dir, filepath.Join(store, work)} {
		if err := os.MkdirAll(needed, 0o755); err != nil {
			return fmt.Errorf("naming an image: %w", err)
		}
	}
	file := filepath.Join(dir, url.PathEscape(name))
	if old, err := os.ReadFile(file); err == nil && string(old) == string(text)+"\n" {
		return nil
	}
	// The file is in the work folder, where the store removes the files of killed commands. In the folder of the names,
	// List would read it.
	unfinished := filepath.Join(store, work, fmt.Sprintf("%d-%d.name", os.Getpid(), writes.Add(1)))
	err = os.WriteFile(unfinished, append(text, '\n'), 0o644)
	if err == nil {
		err = os.Rename(unfinished, file)
	}
	if err != nil {
		return fmt.Errorf("naming an image: %w", errors.Join(err, os.Remove(unfinished)))
	}
	return nil
}

// Read returns the image with a reference, or with an id ("sha256:…"). The error is ErrUnknown if there is none.
func Read(store, reference string) (Image, error) {
	if identity.MatchString(reference) {
		all, err := List(store)
		for _, image := range all {
			if image.Configuration.Digest == reference {
				return image, nil
			}
		}
		if err == nil {
			err = ErrUnknown
		}
		return Image{}, err
	}
	name, err := Complete(reference)
	if err != nil {
		return Image{}, err
	}
	return read(filepath.Join(store, folder, url.PathEscape(name)))
}

func read(file string) (Image, error) {
	var image Image
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return image, ErrUnknown
	}
	if err == nil {
		err = json.Unmarshal(text, &image)
	}
	if err != nil {
		return image, fmt.Errorf("the image store is damaged at %s (%w): remove that file, and build the image again",
			file, err)
	}
	return image, nil
}

// List returns all images that have names.
func List(store string) ([]Image, error) {
	files, err := namesOf(store, "")
	if err != nil {
		return nil, err
	}
	var images []Image
	for _, file := range files {
		image, err := read(file)
		if errors.Is(err, ErrUnknown) {
			continue // it was just removed
		}
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return images, nil
}

// namesOf returns the files of the names that begin with a text. The folder has other files, too, and no slash is in
// their names.
func namesOf(store, beginning string) (files []string, err error) {
	dir := filepath.Join(store, folder)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the names of images: %w", err)
	}
	for _, entry := range entries {
		if name, err := url.PathUnescape(entry.Name()); err == nil &&
			strings.HasPrefix(name, beginning) && strings.Contains(name, "/") {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files, nil
}
