// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"lva.io/operators/clusters/gobuild"
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
	return &Store{Dir: filepath.Join(root, ".cache", "images"), Programs: filepath.Join(root, "clusters", "images", "programs")}
}

// Progress is called while something is built or written: done of total packages or bytes. A total of 0 means that it
// is unknown. It may be called from several goroutines, one for each thing that is being built.
type Progress func(what string, done, total int64)

func (p Progress) say(what string, done, total int64) {
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
	return c.Configuration.Digest != "" && s.has(c.Configuration) && !slices.ContainsFunc(c.Layers, func(l blob) bool { return !s.has(l) })
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
			return nil, fmt.Errorf("making the image %s: %w", image.Reference, err)
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
		if s.recall("images", key, &c) && s.complete(c) {
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

// ingredients makes what takes long: Debian roots, which wait for a network, beside programs, which need the processor.
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

// missing lists the Debian roots and programs of the layers that are not there.
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
		if s.recall("images", key, &c) && s.complete(c) {
			return nil
		}
		for _, layer := range image.Layers {
			layer = image.catalogue.named(layer)
			key, err := s.layerKey(image.catalogue, layer)
			if err != nil {
				return err
			}
			var there blob
			if s.recall("layers", key, &there) && s.has(there) {
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

// named is the layer that a name stands for.
func (c *Catalogue) named(l Layer) Layer {
	if l.Name != "" {
		return c.Layers[l.Name]
	}
	return l
}

// layerKey stands for all that decides about the bytes of a layer.
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
		Layer: l, Programs: map[string]programSource{}, Roots: map[string]Debian{}, Modules: map[string]string{}, Images: map[string]string{},
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
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // Until the command has run, only the layer can't be made.
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

// imageKey stands for all that decides about the bytes of an image.
func (s *Store) imageKey(image Image) (string, error) {
	layers := make([]string, 0, len(image.Layers))
	for _, layer := range image.Layers {
		key, err := s.layerKey(image.catalogue, image.catalogue.named(layer))
		if err != nil {
			return "", err
		}
		layers = append(layers, key)
	}
	return keyOf("image", struct {
		Layers        []string
		Configuration v1.ConfigFile
	}{layers, image.configuration()})
}

// configuration is what an image says about how to run it.
func (i Image) configuration() v1.ConfigFile {
	file := v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", Created: v1.Time{Time: Epoch},
		Config: v1.Config{
			Entrypoint: i.Entrypoint, Cmd: i.Command, User: i.User, WorkingDir: i.WorkingDirectory, StopSignal: i.StopSignal,
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
	}
	for _, name := range names(i.Environment) {
		file.Config.Env = append(file.Config.Env, name+"="+i.Environment[name])
	}
	return file
}

func (s *Store) ensureImage(ctx context.Context, image Image, progress Progress) (content, error) {
	key, err := s.imageKey(image)
	if err != nil {
		return content{}, err
	}
	var c content
	if s.recall("images", key, &c) && s.complete(c) {
		return c, nil
	}
	started := time.Now()
	c = content{}
	for _, layer := range image.Layers {
		made, err := s.ensureLayer(ctx, image.catalogue, image.catalogue.named(layer), progress)
		if err != nil {
			return content{}, err
		}
		c.Layers = append(c.Layers, made)
	}
	c, err = s.describe(image, c.Layers)
	if err != nil {
		return content{}, err
	}
	if err := s.record("images", key, c); err != nil {
		return content{}, fmt.Errorf("writing into the image store: %w", err)
	}
	s.made("image "+image.Reference, started, c.built("").Size)
	return c, nil
}

// describe writes an image's configuration.
func (s *Store) describe(image Image, layers []blob) (content, error) {
	configuration := image.configuration()
	for _, layer := range layers {
		id, err := v1.NewHash(layer.Digest)
		if err != nil {
			return content{}, err
		}
		configuration.RootFS.DiffIDs = append(configuration.RootFS.DiffIDs, id)
		configuration.History = append(configuration.History, v1.History{Created: v1.Time{Time: Epoch}, CreatedBy: "Operator Labs"})
	}
	text, err := json.Marshal(configuration)
	if err != nil {
		return content{}, err
	}
	written, err := s.write(nil, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	return content{Configuration: written, Layers: layers}, err
}

// write makes a blob.
func (s *Store) write(meter func(int64), fill func(io.Writer) error) (blob, error) {
	b, err := s.newBlob(meter)
	if err != nil {
		return blob{}, err
	}
	if err := fill(b); err != nil {
		b.abandon()
		return blob{}, err
	}
	return s.finish(b)
}

func (s *Store) ensureLayer(ctx context.Context, c *Catalogue, l Layer, progress Progress) (blob, error) {
	key, err := s.layerKey(c, l)
	if err != nil {
		return blob{}, err
	}
	var b blob
	if s.recall("layers", key, &b) && s.has(b) {
		return b, nil
	}
	unlock, err := s.lock(ctx, key)
	if err != nil {
		return blob{}, err
	}
	defer unlock()
	if s.recall("layers", key, &b) && s.has(b) {
		return b, nil
	}
	started := time.Now()
	if l.Debian != "" {
		b, err = s.write(nil, func(w io.Writer) error { return s.writeDebian(ctx, l.Debian, c.Debian[l.Debian], w, progress) })
	} else {
		var files tree
		if files, err = s.collect(ctx, c, l, progress); err != nil {
			return blob{}, err
		}
		b, err = s.write(func(done int64) { progress.say("packing", done, 0) }, files.write)
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
				return nil, fmt.Errorf("making the image %s: %w", reference, err)
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

// FromProgram builds an image of one static Linux program, such as a lab's operator. The program becomes /manager, and
// runs as user 65532.
func (s *Store) FromProgram(ctx context.Context, reference, program string) (Built, error) {
	made, err := s.fromProgram(ctx, reference, program)
	if err != nil {
		return Built{}, err
	}
	return made, s.name(reference, made.content)
}

// Lend builds an image like FromProgram, but its name lasts only until giveBack is called, or the process ends: no
// other process needs the images of the reference's repository. Lend also removes names in the repository that others
// left and that are no longer in use.
func (s *Store) Lend(ctx context.Context, reference, program string) (_ Built, giveBack func() error, err error) {
	made, err := s.fromProgram(ctx, reference, program)
	if err != nil {
		return Built{}, nil, err
	}
	giveBack, err = named.Hold(s.Dir, image(reference, made.content))
	if err != nil {
		return Built{}, nil, err
	}
	repository, _, _ := strings.Cut(reference, ":")
	if err := named.RemoveUnused(s.Dir, repository); err != nil {
		return Built{}, nil, errors.Join(err, giveBack())
	}
	return made, giveBack, nil
}

func (s *Store) fromProgram(ctx context.Context, reference, program string) (Built, error) {
	if err := checkReference(reference); err != nil {
		return Built{}, err
	}
	c, err := Load()
	if err != nil {
		return Built{}, err
	}
	if err := checkProgram(program); err != nil {
		return Built{}, fmt.Errorf("making the image %s of %s: %w", reference, program, err)
	}
	digest, err := gobuild.Digest(program)
	if err != nil {
		return Built{}, fmt.Errorf("making the image %s: %w", reference, err)
	}
	operator := Image{Entrypoint: []string{"/manager"}, User: "65532:65532", WorkingDirectory: "/"}
	key, err := keyOf("program", []string{digest, runtime.GOARCH})
	if err != nil {
		return Built{}, err
	}
	base, err := s.ensureLayer(ctx, c, c.Layers["base"], nil)
	if err != nil {
		return Built{}, err
	}
	var own blob
	if !s.recall("layers", key, &own) || !s.has(own) {
		if own, err = s.write(nil, tree{"manager": {mode: 0o755, source: program}}.write); err != nil {
			return Built{}, fmt.Errorf("making the image %s: %w", reference, err)
		}
		if err := s.record("layers", key, own); err != nil {
			return Built{}, fmt.Errorf("writing into the image store: %w", err)
		}
	}
	s.touch("layers", key)
	made, err := s.describe(operator, []blob{base, own})
	if err != nil {
		return Built{}, fmt.Errorf("making the image %s: %w", reference, err)
	}
	return made.built(reference), nil
}

var errNotStatic = errors.New("it is linked with libraries that the image does not have: build it with CGO_ENABLED=0")
