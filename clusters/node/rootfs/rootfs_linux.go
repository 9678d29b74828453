// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rootfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/images/named"
	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/removal"
)

// Store keeps the files of images and containers. Several nodes may share Images and Layers.
type Store struct {
	// Images is an image store, which is only read. Layers has a folder for each layer, and Containers has one for each
	// container.
	Images, Layers, Containers string

	copies bool
}

// New returns the store in these folders. It tests whether overlayfs can be used.
func New(images, layers, containers string) (*Store, error) {
	s := &Store{Images: images, Layers: layers, Containers: containers}
	for _, dir := range []string{layers, containers} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("creating the folders of containers: %w", err)
		}
	}
	overlays, err := s.overlays()
	s.copies = !overlays
	return s, err
}

// overlays reports whether overlayfs can be used, by mounting one. An agent that was killed may have left the test's
// folder.
func (s *Store) overlays() (can bool, err error) {
	dir := filepath.Join(s.Containers, ".try")
	_ = unix.Unmount(filepath.Join(dir, "merged"), unix.MNT_DETACH)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		return false, fmt.Errorf("testing overlayfs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return false, fmt.Errorf("testing overlayfs: %w", err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	if container.Overlay(in("merged"), []string{in("lower")}, in("upper"), in("work")) != nil {
		return false, nil
	}
	return true, unix.Unmount(in("merged"), unix.MNT_DETACH)
}

// Copies reports whether each container has a copy of its image's files, because overlayfs can't be used.
func (s *Store) Copies() bool { return s.copies }

// Image is an image of the store, with its configuration.
type Image struct {
	named.Image
	Entrypoint, Cmd, Env         []string
	User, WorkingDir, StopSignal string
	Volumes                      []string
}

// Image reads an image, by reference or ID. The error is named.ErrUnknown if there is none.
func (s *Store) Image(reference string) (Image, error) {
	found, err := named.Read(s.Images, reference)
	if err != nil {
		return Image{}, err
	}
	return s.describe(found)
}

func (s *Store) describe(found named.Image) (Image, error) {
	image := Image{Image: found}
	text, err := os.ReadFile(found.Configuration.Path(s.Images))
	if errors.Is(err, fs.ErrNotExist) {
		return image, named.ErrUnknown // it was removed from the store
	}
	if err != nil {
		return image, fmt.Errorf("reading the image %s: %w", found.Reference, err)
	}
	var file struct {
		Config struct {
			Entrypoint, Cmd, Env         []string
			User, WorkingDir, StopSignal string
			Volumes                      map[string]struct{}
		} `json:"config"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return image, fmt.Errorf("the image %s is damaged in the store (%w): build it again", found.Reference, err)
	}
	c := file.Config
	image.Entrypoint, image.Cmd, image.Env = c.Entrypoint, c.Cmd, c.Env
	image.User, image.WorkingDir, image.StopSignal = c.User, c.WorkingDir, c.StopSignal
	for path := range c.Volumes {
		image.Volumes = append(image.Volumes, path)
	}
	return image, nil
}

// List returns all images of the store that can be read.
func (s *Store) List() ([]Image, error) {
	all, err := named.List(s.Images)
	if err != nil {
		return nil, err
	}
	var images []Image
	for _, found := range all {
		image, err := s.describe(found)
		if errors.Is(err, named.ErrUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return images, nil
}

// Unpack makes sure that the layers of an image are unpacked.
func (s *Store) Unpack(image Image) error {
	for _, layer := range image.Layers {
		if err := s.unpackOnce(layer); err != nil {
			return fmt.Errorf("unpacking the image %s: %w", image.Reference, err)
		}
	}
	return nil
}

// Folders returns the folders of an image's layers, lowest first.
func (s *Store) Folders(image Image) []string {
	folders := make([]string, 0, len(image.Layers))
	for _, layer := range image.Layers {
		folders = append(folders, s.folder(layer))
	}
	return folders
}

func (s *Store) folder(layer named.Blob) string {
	return filepath.Join(s.Layers, strings.TrimPrefix(layer.Digest, "sha256:"))
}

// Prepare creates the folders of a container. An image without layers has an empty root.
func (s *Store) Prepare(id string, image Image) (container.Root, error) {
	if err := s.Unpack(image); err != nil {
		return container.Root{}, err
	}
	dir := filepath.Join(s.Containers, id)
	root := container.Root{Dir: filepath.Join(dir, "root")}
	folders := []string{root.Dir}
	if !s.copies && len(image.Layers) > 0 {
		root.Layers = s.Folders(image)
		root.Upper, root.Work = filepath.Join(dir, "upper"), filepath.Join(dir, "work")
		folders = append(folders, root.Upper, root.Work)
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return root, fmt.Errorf("preparing the files of a container: %w", err)
		}
	}
	if s.copies {
		for _, layer := range s.Folders(image) {
			if err := copyLayer(layer, root.Dir); err != nil {
				return root, fmt.Errorf("preparing the files of a container: %w", err)
			}
		}
	}
	return root, nil
}

// Written returns how many bytes and files a container has written.
func (s *Store) Written(id string) (bytes, files uint64) {
	dir := filepath.Join(s.Containers, id, "upper")
	if s.copies {
		dir = filepath.Join(s.Containers, id, "root")
	}
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has just been removed
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				const block = 512
				bytes += uint64(stat.Blocks) * block
			} else {
				bytes += uint64(info.Size())
			}
			files++
		}
		return nil
	})
	return bytes, files
}

// Keep removes the files of all unknown containers, which an earlier node has left.
func (s *Store) Keep(known func(id string) bool) error {
	entries, err := os.ReadDir(s.Containers)
	if err != nil {
		return fmt.Errorf("listing the files of containers: %w", err)
	}
	for _, entry := range entries {
		if !known(entry.Name()) {
			if err := s.Remove(entry.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove removes the files that a container has written.
func (s *Store) Remove(id string) error {
	if id == "" || strings.ContainsRune(id, '/') {
		return fmt.Errorf("%q is not the ID of a container", id)
	}
	// overlayfs leaves a folder without permissions in work, and a container may do so anywhere.
	if err := removal.All(filepath.Join(s.Containers, id)); err != nil {
		return fmt.Errorf("removing the files of a container: %w", err)
	}
	return nil
}
