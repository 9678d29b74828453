// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"context"
	"errors"
	"io"
	"time"
)

// Store is a folder with images and what they are made from, by content. Several programs may use it at once.
type Store struct {
	// Dir is the folder: .cache/images of a checkout.
	Dir string
	// Programs is the folder clusters/images/programs of the checkout.
	Programs string
	// Made, where it is set, is called once for each thing that was made, with its size in bytes.
	Made func(what string, took time.Duration, size int64)
}

// Progress is called while something is made or written: done of total packages or bytes. A total of 0 is unknown. It may
// be called from several goroutines, one for each thing that is being made.
type Progress func(what string, done, total int64)

// Built is an image that is in the store.
type Built struct {
	// Reference is its name and tag.
	Reference string
	// ID is the digest of its configuration ("sha256:…"), which Docker and containerd show as the image's id.
	ID string
	// Size is that of its layers, in bytes.
	Size int64
}

// Chart is a Helm chart, as it came.
type Chart struct {
	// Path is a chart archive (.tgz).
	Path string
	// Version is that of the module it came from, such as v1.20.2. What the chart itself says may be a placeholder.
	Version string
}

var errUnfinished = errors.New("the image store is being written: not yet")

// Ensure makes what is missing of the images, and returns all of them in the order given.
func (s *Store) Ensure(ctx context.Context, images []Image, progress Progress) ([]Built, error) {
	return nil, errUnfinished
}

// Archive writes images as one archive for `docker load` and `ctr images import`. A layer that several have is in it once.
func (s *Store) Archive(ctx context.Context, w io.Writer, built ...Built) error {
	return errUnfinished
}

// FromProgram makes an image of one static Linux program: a lab's operator. The program becomes /manager, and runs as
// user 65532.
func (s *Store) FromProgram(ctx context.Context, reference, program string) (Built, error) {
	return Built{}, errUnfinished
}

// Chart returns a chart of the catalogue.
func (s *Store) Chart(ctx context.Context, name string) (Chart, error) {
	return Chart{}, errUnfinished
}

// Save writes a bundle of everything that the catalogue has; Restore reads one.
func (s *Store) Save(ctx context.Context, w io.Writer) error { return errUnfinished }

// Restore reads a bundle into the store of the folder dir.
func Restore(ctx context.Context, dir string, r io.Reader) error { return errUnfinished }
