// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"lva.io/operators/clusters/removal"
)

// bundleFormat is the name of the first file of a bundle, which lists the contents.
const bundleFormat = "operator-labs-bundle-1"

// bundled is the list that a bundle begins with.
type bundled struct {
	Format string   `json:"format"`
	Images []string `json:"images"`
	System string   `json:"system"`
	Go     string   `json:"go"`
}

// Save writes a bundle of all images and charts of the catalogue: a tar archive, compressed with zstd. With a bundle,
// another machine with the same checkout needs neither a compiler nor a network. All images must exist, so call Ensure
// first. Save leaves out layers that only contain archives of other images. Restore creates these again.
func (s *Store) Save(ctx context.Context, w io.Writer) error {
	c, err := Load()
	if err != nil {
		return err
	}
	return s.save(ctx, c, w)
}

func (s *Store) save(ctx context.Context, c *Catalogue, w io.Writer) error {
	for _, name := range names(c.Charts) {
		if _, err := s.chart(ctx, c, name); err != nil {
			return fmt.Errorf("saving a bundle: %w", err)
		}
	}
	parts, err := s.bundle(c)
	if err != nil {
		return fmt.Errorf("saving a bundle: %w", err)
	}
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, part := range parts {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := part.entry.writeTo(archive, part.name); err != nil {
			return fmt.Errorf("saving a bundle: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("saving a bundle: %w", err)
	}
	return nil
}

type bundlePart struct {
	name  string
	entry entry
}

// bundle lists the files of a bundle.
func (s *Store) bundle(c *Catalogue) ([]bundlePart, error) {
	list := bundled{Format: bundleFormat, System: c.Images[0].configuration().Architecture, Go: s.goVersion()}
	var parts []bundlePart
	written := map[string]bool{}
	add := func(name string) {
		if !written[name] {
			written[name] = true
			parts = append(parts, bundlePart{name, entry{mode: 0o644, source: filepath.Join(s.Dir, name)}})
		}
	}
	for _, image := range c.Images {
		key, err := s.imageKey(image)
		if err != nil {
			return nil, err
		}
		var has content
		if !s.readRecord("images", key, &has) || !s.complete(has) {
			return nil, fmt.Errorf("the image %s does not exist yet: build the images first", image.Reference)
		}
		list.Images = append(list.Images, image.Reference)
		for i, layer := range image.Layers {
			layer = c.named(layer)
			if len(layer.Archives) > 0 && len(layer.Files)+len(layer.Programs) == 0 {
				continue
			}
			key, err := s.layerKey(c, layer)
			if err != nil {
				return nil, err
			}
			add(path.Join("layers", key))
			add(fileOf(has.Layers[i]))
		}
	}
	for _, name := range names(c.Charts) {
		file, _, err := s.chartFile(c, name)
		if err != nil {
			return nil, err
		}
		add(path.Join("charts", filepath.Base(file)))
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return slices.Insert(parts, 0, bundlePart{bundleFormat, entry{mode: 0o644, content: text}}), nil
}

// Restore reads a bundle into the store of the folder dir. It keeps what is already there. Every layer is compared with
// its digest before it gets its name, so a broken bundle leaves no wrong layer.
func Restore(ctx context.Context, dir string, r io.Reader) error {
	s := &Store{Dir: dir}
	removal.Abandoned(filepath.Join(s.Dir, "work"), "")
	decompressed, err := zstd.NewReader(r)
	if err != nil {
		return err
	}
	defer decompressed.Close()
	archive := tar.NewReader(decompressed)
	first := true
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && !first {
			return nil
		}
		if err == nil && first {
			err = s.restoreList(header, archive)
		} else if err == nil {
			err = s.restore(header, archive)
		}
		if err != nil {
			return fmt.Errorf("loading a bundle: this is not one that `cluster bundle save` wrote, or it is broken: %w", err)
		}
		first = false
	}
}

// restoreList reads the list at the beginning of a bundle.
func (s *Store) restoreList(header *tar.Header, r io.Reader) error {
	if header.Name != bundleFormat {
		return fmt.Errorf("it begins with %q, and this version reads %s", header.Name, bundleFormat)
	}
	var list bundled
	if err := json.NewDecoder(io.LimitReader(r, 1<<20)).Decode(&list); err != nil {
		return err
	}
	if own := (Image{}).configuration().Architecture; list.System != own {
		return fmt.Errorf("it is for %s, and this machine is %s", list.System, own)
	}
	return s.writeFile("", goVersionFile, []byte(list.Go+"\n"))
}

// restore puts one file of a bundle into its place.
func (s *Store) restore(header *tar.Header, r io.Reader) error {
	folder, name := path.Split(header.Name)
	if header.Typeflag != tar.TypeReg || name == "" || strings.Trim(name, "0123456789abcdefghijklmnopqrstuvwxyz.-") != "" {
		return fmt.Errorf("it has a file %q", header.Name)
	}
	switch folder {
	case "blobs/sha256/":
		b, err := s.newBlob(nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(b, r); err != nil {
			b.discard()
			return err
		}
		if digest := fmt.Sprintf("%x", b.digest.Sum(nil)); digest != name {
			b.discard()
			return fmt.Errorf("%s has the digest %s", header.Name, digest)
		}
		_, err = s.finish(b)
		return err
	case "layers/":
		var b blob
		if err := json.NewDecoder(io.LimitReader(r, 1<<20)).Decode(&b); err != nil {
			return err
		}
		return s.record("layers", name, b)
	case "charts/":
		var content bytes.Buffer
		if _, err := io.Copy(&content, io.LimitReader(r, 64<<20)); err != nil {
			return err
		}
		return s.writeFile("charts", name, content.Bytes())
	}
	return fmt.Errorf("it has a file %q", header.Name)
}
