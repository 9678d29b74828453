// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"lva.io/operators/clusters/filelock"
)

// A store's folder holds
//
//	blobs/sha256/DIGEST  layers (tar archives, uncompressed because they load faster) and configurations of images
//	layers/KEY           which blob is the layer that was built from the inputs of KEY
//	images/KEY           the same for images
//	charts/NAME-KEY.tgz  charts
//	programs/NAME        built programs, with what gobuild keeps beside them
//	work/                unfinished files, and locks
//
// A file gets its name when it is complete. So every file that has a name is valid, and a kill at any time loses only
// the file that was being written.

// generation is part of every key. It is incremented when the same inputs begin to produce other bytes.
const generation = "2"

// keyOf returns a digest of the inputs from which something is built.
func keyOf(kind string, from any) (string, error) {
	content, err := json.Marshal(from)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "%s %s %d\n", kind, generation, len(content))
	digest.Write(content)
	return hex.EncodeToString(digest.Sum(nil)), nil
}

func (s *Store) blob(digest string) string {
	return filepath.Join(s.Dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
}

// lock waits until it holds the exclusive lock of a name. The lock ends with its holder.
func (s *Store) lock(ctx context.Context, name string) (func(), error) {
	folder := filepath.Join(s.Dir, "work")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of the images: %w", err)
	}
	unlock, err := filelock.Wait(ctx, filepath.Join(folder, name+".lock"))
	if err != nil {
		return nil, fmt.Errorf("waiting for another command that builds the same image: %w", err)
	}
	return unlock, nil
}

// blobWriter writes a blob whose digest is not known yet.
type blobWriter struct {
	file   *os.File
	digest hash.Hash
	size   int64
	meter  func(int64)
}

var temporaries atomic.Int64

// create creates a file of this process in the store's work folder.
func (s *Store) create() (*os.File, error) {
	name := filepath.Join(s.Dir, "work", fmt.Sprintf("%d-%d", os.Getpid(), temporaries.Add(1)))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("writing into the image store: %w", err)
	}
	return file, nil
}

func (s *Store) newBlob(meter func(int64)) (*blobWriter, error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, "blobs", "sha256"), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of the images: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, "work"), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of the images: %w", err)
	}
	file, err := s.create()
	if err != nil {
		return nil, err
	}
	return &blobWriter{file: file, digest: sha256.New(), meter: meter}, nil
}

func (b *blobWriter) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	b.digest.Write(p[:n])
	b.size += int64(n)
	if b.meter != nil {
		b.meter(b.size)
	}
	return n, err
}

func (b *blobWriter) discard() {
	b.file.Close()
	_ = os.Remove(b.file.Name())
}

// finish gives the blob its name.
func (s *Store) finish(b *blobWriter) (blob, error) {
	digest := "sha256:" + hex.EncodeToString(b.digest.Sum(nil))
	err := errors.Join(b.file.Sync(), b.file.Close())
	if err == nil {
		err = os.Rename(b.file.Name(), s.blob(digest))
	}
	if err != nil {
		_ = os.Remove(b.file.Name())
		return blob{}, fmt.Errorf("writing into the image store: %w", err)
	}
	return blob{Digest: digest, Size: b.size}, nil
}

// blob is a file of the store.
type blob struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// has reports whether the store has a blob. The content is checked when it is read, in copyTo, because reading
// gigabytes twice would take longer than everything else.
func (s *Store) has(b blob) bool {
	info, err := os.Stat(s.blob(b.Digest))
	return err == nil && info.Size() == b.Size
}

// record writes a small file atomically.
func (s *Store) record(folder, key string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.writeFile(folder, key, append(content, '\n'))
}

// writeFile writes a file atomically: it exists completely, or not at all.
func (s *Store) writeFile(folder, name string, content []byte) error {
	for _, needed := range []string{folder, "work"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, needed), 0o755); err != nil {
			return err
		}
	}
	file, err := s.create()
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(s.Dir, folder, name))
}

// readRecord reads a record. It reports false if there is none, or if it can't be read.
func (s *Store) readRecord(folder, key string, value any) bool {
	content, err := os.ReadFile(filepath.Join(s.Dir, folder, key))
	return err == nil && json.Unmarshal(content, value) == nil
}

// copyTo writes a blob. It removes a blob whose content does not match its name, so that the blob is built again the
// next time.
func (s *Store) copyTo(w io.Writer, b blob) error {
	file, err := os.Open(s.blob(b.Digest))
	if err != nil {
		return fmt.Errorf("reading from the image store: %w", err)
	}
	defer file.Close()
	content := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, content), file); err != nil {
		return err
	}
	if found := "sha256:" + hex.EncodeToString(content.Sum(nil)); found != b.Digest {
		return errors.Join(
			fmt.Errorf("a layer of an image was damaged on disk (%s) and has been removed: run the command again", b.Digest),
			os.Remove(file.Name()))
	}
	return nil
}
