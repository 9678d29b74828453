// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lva.io/operators/scripts/checkout/programs/reference"
)

// Archive is an archive whose manifest has been read.
type Archive struct {
	Manifest
	// Reference names it.
	Reference reference.Reference

	source source
	pace   Pace
	layers int64 // the offset of the first one
}

// Open reads the manifest of an archive. pace is how fast a server must deliver it.
func Open(ctx context.Context, named reference.Reference, pace Pace) (*Archive, error) {
	if pace == (Pace{}) {
		pace = DefaultPace
	}
	a := &Archive{Reference: named, pace: pace}
	if named.IsURL() {
		a.source = server{url: named.Source, pace: pace}
	} else {
		a.source = file(named.Source)
		a.pace.Attempts = 1 // reading a file again gives the same
	}
	err := a.attempt(ctx, func() (int64, error) {
		content, err := a.source.from(ctx, 0)
		if err != nil {
			return 0, err
		}
		defer content.Close()
		read, end, err := readManifest(content, named.SHA256)
		if err == nil {
			a.Manifest, a.layers = *read, end
		}
		return 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the archive %s: %w", named.Source, err)
	}
	return a, nil
}

// attempt tries until it succeeds, or has failed so often in a row that another try is no use. do returns how many
// bytes it received.
func (a *Archive) attempt(ctx context.Context, do func() (int64, error)) error {
	for failed := 1; ; failed++ {
		got, err := do()
		if _, final := errors.AsType[*finalError](err); err == nil || final {
			return err
		}
		if got > 0 {
			failed = 0
		}
		if failed >= a.pace.Attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(a.pace.Wait):
		}
	}
}

// offset returns the position where the content of a layer begins.
func (a *Archive) offset(name string) int64 {
	at := a.layers
	for _, layer := range a.Layers {
		at += blockSize
		if layer.Name == name {
			break
		}
		at += padded(layer.Size)
	}
	return at
}

// fetch downloads a layer into a folder, unless it is there, and returns its file. If the download breaks off, the
// bytes that it has received stay, and the next fetch continues from there. fetch verifies the SHA-256 of the layer. No
// other fetch may use the folder meanwhile.
func (a *Archive) fetch(
	ctx context.Context, layer Layer, dir string, progress func(done, total int64),
) (string, error) {
	name := filepath.Join(dir, layer.SHA256+".tar.zst")
	out, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer out.Close()
	// The existing bytes are read, too, because a kill or a full disk may have left anything.
	sum := sha256.New()
	have, err := io.Copy(sum, io.LimitReader(out, layer.Size))
	if err := errors.Join(err, out.Truncate(have)); err != nil {
		return "", err
	}
	err = a.attempt(ctx, func() (got int64, err error) {
		if have >= layer.Size {
			return 0, nil
		}
		content, err := a.source.from(ctx, a.offset(layer.Name)+have)
		if err != nil {
			return 0, err
		}
		defer content.Close()
		buffer := make([]byte, 256<<10)
		for have < layer.Size {
			n, err := content.Read(buffer[:min(int64(len(buffer)), layer.Size-have)])
			if _, err := out.WriteAt(buffer[:n], have); err != nil {
				return got, &finalError{err}
			}
			sum.Write(buffer[:n])
			have, got = have+int64(n), got+int64(n)
			progress(have, layer.Size)
			if err != nil && have < layer.Size {
				if errors.Is(err, io.EOF) {
					err = fmt.Errorf("it ends after %d of %d bytes", have, layer.Size)
				}
				return got, err
			}
		}
		return got, nil
	})
	if err != nil {
		return "", fmt.Errorf("fetching the layer %s: %w", layer.Name, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != layer.SHA256 {
		return "", cmp.Or(os.Remove(name),
			fmt.Errorf("fetching the layer %s: it does not have the SHA-256 that the manifest names", layer.Name))
	}
	return name, nil
}
