// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"archive/tar"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Archive writes images as one archive for `docker load` and `ctr images import`. It contains a layer that several
// images share only once.
//
// go-containerregistry's tarball.MultiWrite is not used, for three reasons. It takes no context, so that it can't be
// interrupted while it copies gigabytes into a node. It writes the images in a different order each time. It writes
// their list last, so that a reader of a pipe must keep the whole archive.
func (s *Store) Archive(ctx context.Context, w io.Writer, built ...Built) error {
	archive := tar.NewWriter(w)
	err := forArchive(built, func(name string, b blob, text []byte) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		size := b.Size
		if text != nil {
			size = int64(len(text))
		}
		if err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: Epoch,
		}); err != nil {
			return err
		}
		if text != nil {
			_, err := archive.Write(text)
			return err
		}
		return s.copyTo(archive, b)
	})
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		return fmt.Errorf("writing an archive of images: %w", err)
	}
	return nil
}

// forArchive calls file for each file of an archive. The list of images comes first, so that a reader need not search
// for it.
func forArchive(built []Built, file func(name string, b blob, text []byte) error) error {
	type listed struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var list []listed
	for _, b := range built {
		entry := listed{Config: fileOf(b.content.Configuration), RepoTags: []string{b.Reference}}
		for _, layer := range b.content.Layers {
			entry.Layers = append(entry.Layers, fileOf(layer))
		}
		list = append(list, entry)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := file("manifest.json", blob{}, text); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, b := range built {
		for _, part := range append([]blob{b.content.Configuration}, b.content.Layers...) {
			if written[part.Digest] {
				continue
			}
			written[part.Digest] = true
			if err := file(fileOf(part), part, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func fileOf(b blob) string { return "blobs/sha256/" + strings.TrimPrefix(b.Digest, "sha256:") }

// ArchiveSize returns how many bytes Archive will write.
func ArchiveSize(built ...Built) int64 { return archiveSize(built) }

func archiveSize(built []Built) int64 {
	const block = 512
	size := int64(2 * block) // the end
	_ = forArchive(built, func(_ string, b blob, text []byte) error {
		content := b.Size
		if text != nil {
			content = int64(len(text))
		}
		size += block + (content+block-1)/block*block
		return nil
	})
	return size
}

func checkReference(reference string) error {
	_, last, _ := strings.Cut(reference, "/")
	if _, err := name.NewTag(reference); err != nil || !strings.Contains(last, ":") {
		return fmt.Errorf("%q is not the name of an image: it must be of the form name/of/it:tag", reference)
	}
	return nil
}

// checkProgram returns an error for a program that could not run in an image without other files.
func checkProgram(file string) error {
	program, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("it is not a Linux program (build it with GOOS=linux): %w", err)
	}
	defer program.Close()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if want, known := machines[runtime.GOARCH]; known && program.Machine != want {
		return fmt.Errorf("it is a program for another processor: build it with GOARCH=%s", runtime.GOARCH)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return errNotStatic
		}
	}
	return nil
}
