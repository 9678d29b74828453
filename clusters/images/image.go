// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/images/named"
)

// imageKey returns a digest of everything that determines the bytes of an image.
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

// configuration returns the image's configuration, which describes how to run it.
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
	if s.readRecord("images", key, &c) && s.complete(c) {
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
		configuration.History = append(configuration.History,
			v1.History{Created: v1.Time{Time: Epoch}, CreatedBy: "Operator Labs"})
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

// write creates a blob.
func (s *Store) write(meter func(int64), fill func(io.Writer) error) (blob, error) {
	b, err := s.newBlob(meter)
	if err != nil {
		return blob{}, err
	}
	if err := fill(b); err != nil {
		b.discard()
		return blob{}, err
	}
	return s.finish(b)
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

// BuildTemporary builds an image like FromProgram, but its name lasts only until remove is called, or the process ends:
// no other process needs the images of the reference's repository. It also removes names in the repository that others
// left and that are no longer in use.
func (s *Store) BuildTemporary(
	ctx context.Context, reference, program string,
) (_ Built, remove func() error, err error) {
	made, err := s.fromProgram(ctx, reference, program)
	if err != nil {
		return Built{}, nil, err
	}
	remove, err = named.Hold(s.Dir, image(reference, made.content))
	if err != nil {
		return Built{}, nil, err
	}
	repository, _, _ := strings.Cut(reference, ":")
	if err := named.RemoveUnused(s.Dir, repository); err != nil {
		return Built{}, nil, errors.Join(err, remove())
	}
	return made, remove, nil
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
		return Built{}, fmt.Errorf("creating the image %s of %s: %w", reference, program, err)
	}
	digest, err := gobuild.Digest(program)
	if err != nil {
		return Built{}, fmt.Errorf("creating the image %s: %w", reference, err)
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
	if !s.readRecord("layers", key, &own) || !s.has(own) {
		if own, err = s.write(nil, tree{"manager": {mode: 0o755, source: program}}.write); err != nil {
			return Built{}, fmt.Errorf("creating the image %s: %w", reference, err)
		}
		if err := s.record("layers", key, own); err != nil {
			return Built{}, fmt.Errorf("writing into the image store: %w", err)
		}
	}
	s.touch("layers", key)
	made, err := s.describe(operator, []blob{base, own})
	if err != nil {
		return Built{}, fmt.Errorf("creating the image %s: %w", reference, err)
	}
	return made.built(reference), nil
}

var errNotStatic = errors.New("it is linked with libraries that the image does not have: build it with CGO_ENABLED=0")
