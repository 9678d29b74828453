// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"

	"lva.io/operators/clusters/gobuild"
)

const (
	// format is the format of the manifest. It changes when readers of older checkouts could no longer read the manifest.
	format       = "operator-labs-programs-1"
	manifestName = "manifest.json"
	// manifestLimit is ten times the size of a manifest of all programs.
	manifestLimit = 16 << 20
	// blockSize is the block size of a tar archive.
	blockSize = 512
)

// Manifest describes the contents of an archive.
type Manifest struct {
	Format string `json:"format"`
	// Go is the version of the go command that built the programs, and System the platform that they run on: linux/amd64.
	Go     string  `json:"go"`
	System string  `json:"system"`
	Layers []Layer `json:"layers"`
}

// Layer is a part of an archive that is fetched as a whole.
type Layer struct {
	Name string `json:"name"`
	// Size is the size of the compressed layer in bytes, and SHA256 its digest in hexadecimal. Unpacked is the size of its
	// contents.
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
	Unpacked int64  `json:"unpacked"`
	// Programs are the sources that the layer's programs were built from, by the programs' files below .cache,
	// slash-separated.
	Programs map[string]gobuild.Origin `json:"programs"`
}

var (
	layerName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	digest    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// check returns an error for a manifest that this package would not write.
func (m *Manifest) check() error {
	if m.Format != format {
		return fmt.Errorf("its format is %q, and this checkout reads %s", m.Format, format)
	}
	for _, layer := range m.Layers {
		if !layerName.MatchString(layer.Name) || !digest.MatchString(layer.SHA256) || layer.Size <= 0 || layer.Unpacked <= 0 {
			return fmt.Errorf("its layer %q has no name, size or SHA-256", layer.Name)
		}
		for name := range layer.Programs {
			if !filepath.IsLocal(filepath.FromSlash(name)) {
				return fmt.Errorf("its layer %s has a program %q outside of the checkout", layer.Name, name)
			}
		}
	}
	return nil
}

// readManifest reads the manifest at the beginning of an archive. The layers follow at the returned offset. want is the
// manifest's SHA-256, or empty.
func readManifest(r io.Reader, want string) (m *Manifest, end int64, err error) {
	header, err := tar.NewReader(io.LimitReader(r, blockSize)).Next()
	switch {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) && !errors.Is(err, tar.ErrHeader):
		return nil, 0, err
	case err != nil, header.Name != manifestName, header.Size <= 0, header.Size > manifestLimit:
		return nil, 0, errors.New("it is not an archive of `lab programs save`, or it is truncated")
	}
	content := make([]byte, header.Size)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, 0, fmt.Errorf("it is truncated: %w", err)
	}
	if sum := sha256.Sum256(content); want != "" && hex.EncodeToString(sum[:]) != want {
		return nil, 0, fmt.Errorf("its manifest has the SHA-256 %x, and %s is expected", sum, want)
	}
	m = &Manifest{}
	if err := json.Unmarshal(content, m); err != nil {
		return nil, 0, fmt.Errorf("its manifest is broken: %w", err)
	}
	return m, blockSize + padded(header.Size), m.check()
}

// padded returns the size of a file including the padding of its last block.
func padded(size int64) int64 { return (size + blockSize - 1) / blockSize * blockSize }
