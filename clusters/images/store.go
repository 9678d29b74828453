// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lva.io/operators/clusters/images/named"
	"lva.io/operators/clusters/removal"
)

// Store is a folder that keeps images and their sources by content. Several programs may use it at once.
type Store struct {
	// Dir is the folder: .cache/images of a checkout.
	Dir string
	// Programs is the folder clusters/images/programs of the checkout.
	Programs string
	// Made, if set, is called once for each thing that was built, with its size in bytes. It may be called from several
	// goroutines.
	Made func(what string, took time.Duration, size int64)
}

// StoreOf returns the store of a checkout, given its root.
func StoreOf(root string) *Store {
	return &Store{
		Dir:      filepath.Join(root, ".cache", "images"),
		Programs: filepath.Join(root, "clusters", "images", "programs"),
	}
}

// Progress is called while something is built or written: done of total packages or bytes. A total of 0 means that it
// is unknown. It may be called from several goroutines, one for each thing that is being built.
type Progress func(what string, done, total int64)

func (p Progress) report(what string, done, total int64) {
	if p != nil {
		p(what, done, total)
	}
}

func (s *Store) made(what string, started time.Time, size int64) {
	if s.Made != nil {
		s.Made(what, time.Since(started), size)
	}
}

// Built is an image that is in the store.
type Built struct {
	// Reference is its name and tag.
	Reference string
	// ID is the digest of its configuration ("sha256:…"), which Docker and containerd show as the image's id.
	ID string
	// Size is the size of its layers, in bytes.
	Size int64

	content content
}

// content is what an image consists of in the store.
type content struct {
	Configuration blob   `json:"configuration"`
	Layers        []blob `json:"layers"`
}

func (c content) built(reference string) Built {
	b := Built{Reference: reference, ID: c.Configuration.Digest, content: c}
	for _, layer := range c.Layers {
		b.Size += layer.Size
	}
	return b
}

func (s *Store) complete(c content) bool {
	return c.Configuration.Digest != "" && s.has(c.Configuration) &&
		!slices.ContainsFunc(c.Layers, func(l blob) bool { return !s.has(l) })
}

// Ensure builds the images that are missing, and returns all of them in the given order. A day after it was built, it
// removes what is no longer in the catalogue. After an interruption, even by kill -9, it continues with the layer or
// program that was being built. It needs Go, and for images with Debian packages also Debian and root. It needs nothing
// for an image that exists.
func (s *Store) Ensure(ctx context.Context, images []Image, progress Progress) ([]Built, error) {
	removal.Abandoned(filepath.Join(s.Dir, "work"), "")
	if err := s.ingredients(ctx, images, progress); err != nil {
		return nil, err
	}
	built := make([]Built, 0, len(images))
	for _, image := range images {
		c, err := s.ensureImage(ctx, image, progress)
		if err != nil {
			return nil, fmt.Errorf("creating the image %s: %w", image.Reference, err)
		}
		if err := s.name(image.Reference, c); err != nil {
			return nil, err
		}
		built = append(built, c.built(image.Reference))
	}
	if len(images) > 0 {
		if err := s.prune(images[0].catalogue); err != nil {
			return nil, fmt.Errorf("removing old images: %w", err)
		}
	}
	return built, nil
}

// Find returns those of the images that are in the store and up to date with their sources.
func (s *Store) Find(images []Image) ([]Built, error) {
	var found []Built
	for _, image := range images {
		key, err := s.imageKey(image)
		if err != nil {
			return nil, err
		}
		var c content
		if s.readRecord("images", key, &c) && s.complete(c) {
			found = append(found, c.built(image.Reference))
		}
	}
	return found, nil
}

// name lets the node of an embedded cluster find an image.
func (s *Store) name(reference string, c content) error {
	return named.Write(s.Dir, image(reference, c))
}

func image(reference string, c content) named.Image {
	described := named.Image{Reference: reference, Configuration: named.Blob(c.Configuration)}
	for _, layer := range c.Layers {
		described.Layers = append(described.Layers, named.Blob(layer))
	}
	return described
}

// ingredients builds what takes long: Debian roots, which wait for a network, at the same time as programs, which need
// the processor.
func (s *Store) ingredients(ctx context.Context, images []Image, progress Progress) error {
	roots, programs, err := s.missing(images)
	if err != nil || len(roots)+len(programs) == 0 {
		return err
	}
	catalogue := images[0].catalogue
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for _, root := range roots {
			if _, err := s.ensureLayer(ctx, catalogue, Layer{Debian: root}, progress); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		for _, program := range programs {
			if _, err := s.ensureProgram(ctx, catalogue, program, progress); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// missing lists the Debian roots and programs of the layers that do not exist yet.
func (s *Store) missing(images []Image) (roots, programs []string, err error) {
	add := func(list []string, name string) []string {
		if name == "" || slices.Contains(list, name) {
			return list
		}
		return append(list, name)
	}
	var visit func(Image) error
	visit = func(image Image) error {
		key, err := s.imageKey(image)
		if err != nil {
			return err
		}
		var c content
		if s.readRecord("images", key, &c) && s.complete(c) {
			return nil
		}
		for _, layer := range image.Layers {
			layer = image.catalogue.named(layer)
			key, err := s.layerKey(image.catalogue, layer)
			if err != nil {
				return err
			}
			var built blob
			if s.readRecord("layers", key, &built) && s.has(built) {
				continue
			}
			roots = add(roots, layer.Debian)
			for _, path := range names(layer.Programs) {
				programs = add(programs, layer.Programs[path])
			}
			for _, file := range layer.Files {
				roots = add(roots, file.Debian)
			}
			for _, path := range names(layer.Archives) {
				for _, reference := range layer.Archives[path] {
					packed, err := image.catalogue.Image(reference)
					if err != nil {
						return err
					}
					if err := visit(packed); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	for _, image := range images {
		if err := visit(image); err != nil {
			return nil, nil, err
		}
	}
	return roots, programs, nil
}
