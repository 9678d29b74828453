// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"lva.io/operators/clusters/gobuild"
)

// named returns the layer that a name refers to.
func (c *Catalogue) named(l Layer) Layer {
	if l.Name != "" {
		return c.Layers[l.Name]
	}
	return l
}

// layerKey returns a digest of everything that determines the bytes of a layer.
func (s *Store) layerKey(c *Catalogue, l Layer) (string, error) {
	from := struct {
		Layer    Layer
		Debian   Debian
		Programs map[string]programSource
		Roots    map[string]Debian
		Modules  map[string]string
		Images   map[string]string
		Written  map[string]string `json:",omitempty"`
		System   string
	}{
		Layer: l, Programs: map[string]programSource{},
		Roots: map[string]Debian{}, Modules: map[string]string{}, Images: map[string]string{},
		Written: map[string]string{}, System: runtime.GOARCH,
	}
	if l.Debian != "" {
		from.Debian = c.Debian[l.Debian]
		from.Layer.Debian = "" // two names for the same packages are one root
	}
	for _, path := range names(l.Programs) {
		source, err := s.programSource(c.Programs[l.Programs[path]])
		if err != nil {
			return "", err
		}
		from.Programs[l.Programs[path]] = source
	}
	for _, file := range l.Files {
		if file.Debian != "" {
			from.Roots[file.Debian] = c.Debian[file.Debian]
		}
		if file.Module != "" {
			module := c.Modules[file.Module]
			version, err := gobuild.Required(s.path(module.RequiredBy), module.Path)
			if err != nil {
				return "", err
			}
			from.Modules[file.Module] = module.Path + "@" + version
		}
		if file.Command != "" {
			written, err := digestOf(s.written(file), func(string, fs.DirEntry) bool { return true })
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // Until the command has run, only this layer can't be built.
				return "", err
			}
			from.Written[file.From] = written
		}
	}
	for _, path := range names(l.Archives) {
		for _, reference := range l.Archives[path] {
			packed, err := c.Image(reference)
			if err != nil {
				return "", err
			}
			if from.Images[reference], err = s.imageKey(packed); err != nil {
				return "", err
			}
		}
	}
	return keyOf("layer", from)
}

func (s *Store) ensureLayer(ctx context.Context, c *Catalogue, l Layer, progress Progress) (blob, error) {
	key, err := s.layerKey(c, l)
	if err != nil {
		return blob{}, err
	}
	var b blob
	if s.readRecord("layers", key, &b) && s.has(b) {
		return b, nil
	}
	unlock, err := s.lock(ctx, key)
	if err != nil {
		return blob{}, err
	}
	defer unlock()
	if s.readRecord("layers", key, &b) && s.has(b) {
		return b, nil
	}
	started := time.Now()
	if l.Debian != "" {
		b, err = s.write(nil, func(w io.Writer) error {
			return s.writeDebian(ctx, l.Debian, c.Debian[l.Debian], w, progress)
		})
	} else {
		var files tree
		if files, err = s.collect(ctx, c, l, progress); err != nil {
			return blob{}, err
		}
		b, err = s.write(func(done int64) { progress.report("packing", done, 0) }, files.write)
	}
	if err != nil {
		return blob{}, err
	}
	if err := s.record("layers", key, b); err != nil {
		return blob{}, fmt.Errorf("writing into the image store: %w", err)
	}
	if l.Debian != "" {
		s.made("Debian packages for "+l.Debian, started, b.Size)
	}
	return b, nil
}

// collect gathers the files of a layer.
func (s *Store) collect(ctx context.Context, c *Catalogue, l Layer, progress Progress) (tree, error) {
	files := tree{}
	for _, path := range names(l.Directories) {
		bits, err := mode(l.Directories[path], 0)
		if err != nil {
			return nil, err
		}
		if err := files.add(path, entry{mode: fs.ModeDir | bits}); err != nil {
			return nil, err
		}
	}
	for _, path := range names(l.Links) {
		if err := files.add(path, entry{mode: fs.ModeSymlink, link: l.Links[path]}); err != nil {
			return nil, err
		}
	}
	for _, path := range names(l.Programs) {
		bits, err := mode(l.Modes[path], 0o755)
		if err != nil {
			return nil, err
		}
		program, err := s.ensureProgram(ctx, c, l.Programs[path], progress)
		if err != nil {
			return nil, err
		}
		if err := files.add(path, entry{mode: bits, source: program}); err != nil {
			return nil, err
		}
	}
	for _, file := range l.Files {
		if err := s.collectFile(ctx, c, files, file, progress); err != nil {
			return nil, fmt.Errorf("%s: %w", file.To, err)
		}
	}
	for _, path := range names(l.Archives) {
		var packed []Built
		for _, reference := range l.Archives[path] {
			image, err := c.Image(reference)
			if err != nil {
				return nil, err
			}
			built, err := s.ensureImage(ctx, image, progress)
			if err != nil {
				return nil, fmt.Errorf("creating the image %s: %w", reference, err)
			}
			packed = append(packed, built.built(reference))
		}
		err := files.add(path, entry{
			mode: 0o644, size: archiveSize(packed),
			write: func(w io.Writer) error { return s.Archive(ctx, w, packed...) },
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (s *Store) collectFile(ctx context.Context, c *Catalogue, files tree, file File, progress Progress) error {
	bits, err := mode(file.Mode, 0o644)
	if err != nil {
		return err
	}
	switch {
	case file.Content != "":
		return files.add(file.To, entry{mode: bits, content: []byte(file.Content)})
	case file.Debian != "":
		root, err := s.ensureLayer(ctx, c, Layer{Debian: file.Debian}, progress)
		if err != nil {
			return err
		}
		text, err := s.fromLayer(root, file.From)
		if err != nil {
			return fmt.Errorf("the Debian packages for %s: %w", file.Debian, err)
		}
		if text, err = edited(text, file.Replace); err != nil {
			return err
		}
		return files.add(file.To, entry{mode: bits, content: text})
	case file.Command != "":
		if _, err := os.Stat(s.written(file)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is not there: run %s first", file.From, file.Command)
		}
		return files.addFiles(s.checkout(), file, bits)
	}
	folder, _, err := s.moduleFolder(ctx, c.Modules[file.Module])
	if err != nil {
		return err
	}
	return files.addFiles(folder, file, bits)
}
