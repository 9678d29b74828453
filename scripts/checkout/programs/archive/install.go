// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/dirhash"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/removal"
)

// Folders of a layer. Programs are those of .cache. Modules and builds are for the caches of the go command: what a
// student's first build would download and compile.
const (
	programFolder = "programs"
	moduleFolder  = "modules"
	buildFolder   = "builds"
)

// window is how far back a compressed layer refers, in bytes. Programs of the same modules have much in common, and are
// large.
const window = 128 << 20

// Wanted returns the layers that have a missing program of the checkout at root that fits the checkout.
func (a *Archive) Wanted(root string, missing []gobuild.Target, installed gobuild.Installation) []Layer {
	var all []Layer
	for _, layer := range a.Layers {
		if slices.ContainsFunc(missing, func(t gobuild.Target) bool { return layer.has(root, t, installed) }) {
			all = append(all, layer)
		}
	}
	return all
}

// Names reports whether the archive has one of the programs, regardless of the sources from which it was built.
func (a *Archive) Names(root string, targets []gobuild.Target) bool {
	return slices.ContainsFunc(a.Layers, func(layer Layer) bool {
		return slices.ContainsFunc(targets, func(t gobuild.Target) bool {
			_, found := layer.Programs[fileOf(root, t)]
			return found
		})
	})
}

// has reports whether the layer has a program, and it fits.
func (l Layer) has(root string, t gobuild.Target, installed gobuild.Installation) bool {
	origin, found := l.Programs[fileOf(root, t)]
	return found && t.Fits(origin, installed.Version)
}

// fileOf returns the file of a program below .cache, slash-separated.
func fileOf(root string, t gobuild.Target) string {
	name, err := filepath.Rel(filepath.Join(root, ".cache"), t.Output)
	if err != nil {
		return ""
	}
	return filepath.ToSlash(name)
}

// Install fetches a layer, and installs those of its programs that fit and are not yet fresh, and the rest of the
// layer. targets are all programs of the checkout at root. progress is called with the number of bytes that were
// fetched.
func (a *Archive) Install(
	ctx context.Context, root string, layer Layer, targets []gobuild.Target,
	installed gobuild.Installation, progress func(done, total int64),
) (err error) {
	dir := filepath.Join(root, ".cache", "arriving")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := filelock.Wait(ctx, dir+".lock")
	if err != nil {
		return fmt.Errorf("waiting for another command that installs programs: %w", err)
	}
	defer unlock()
	missing := slices.DeleteFunc(slices.Clone(targets), func(t gobuild.Target) bool {
		return !layer.has(root, t, installed) || t.Fresh()
	})
	if len(missing) == 0 {
		return nil // the other command has installed them
	}
	removal.Abandoned(dir, "")
	name, err := a.fetch(ctx, layer, dir, progress)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, removal.Temporary(""))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removal.All(work)) }()
	if err := unpack(ctx, name, work, layer.Unpacked); err != nil {
		// It has the right SHA-256, so it is no use to fetch it again.
		return fmt.Errorf("unpacking the layer %s: %w", layer.Name, err)
	}
	for _, t := range missing {
		file := fileOf(root, t)
		if err := t.Adopt(ctx, layer.Programs[file],
			filepath.Join(work, programFolder, filepath.FromSlash(file))); err != nil {
			return err
		}
	}
	if err := installModules(filepath.Join(work, moduleFolder),
		filepath.Join(installed.ModuleCache, "cache", "download")); err != nil {
		return fmt.Errorf("installing modules: %w", err)
	}
	if err := installBuilds(filepath.Join(work, buildFolder), installed.BuildCache); err != nil {
		return fmt.Errorf("installing compiled packages: %w", err)
	}
	return os.Remove(name)
}

// unpack unpacks a layer into a folder.
func unpack(ctx context.Context, name, dir string, limit int64) error {
	compressed, err := os.Open(name)
	if err != nil {
		return err
	}
	defer compressed.Close()
	content, err := zstd.NewReader(compressed, zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return err
	}
	defer content.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left := limit
	for entries := tar.NewReader(content); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if left -= header.Size; header.Typeflag != tar.TypeReg || left < 0 {
			return fmt.Errorf("it has an entry %q that is no file, or more than %d MB", header.Name, limit>>20)
		}
		if err := root.MkdirAll(path.Dir(header.Name), 0o700); err != nil {
			return err
		}
		file, err := root.OpenFile(header.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, entries)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
}

// A module cache has these files of a module, besides those that the go command creates from them.
// (go.dev/ref/mod#module-cache)
var moduleFile = regexp.MustCompile(`^[A-Za-z0-9!._~+/-]+/@v/[A-Za-z0-9!._~+-]+\.(info|mod|zip)$`)

// installModules moves the modules that a module cache lacks into it. The go command compares a module with go.sum by
// the hash beside its archive, which is computed here.
func installModules(from, to string) error {
	return moveFiles(from, to, moduleFile, func(name, file string) error {
		if path.Ext(name) != ".zip" {
			return nil
		}
		hash, err := dirhash.HashZip(file, dirhash.Hash1)
		if err != nil {
			return err
		}
		return renameio.WriteFile(filepath.Join(to, filepath.FromSlash(name)+"hash"), []byte(hash), 0o644)
	})
}

// A build cache has an entry for each action (a), and one for its output (d). (cmd/go/internal/cache)
var buildFile = regexp.MustCompile(`^([0-9a-f]{2})/([0-9a-f]{64})-([ad])$`)

// installBuilds moves the compiled packages that a build cache lacks into it.
func installBuilds(from, to string) error {
	return moveFiles(from, to, buildFile, func(name, file string) error {
		parts := buildFile.FindStringSubmatch(name)
		if !strings.HasPrefix(parts[2], parts[1]) {
			return errNoEntry
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(content); parts[3] == "d" && hex.EncodeToString(sum[:]) != parts[2] ||
			parts[3] == "a" && !bytes.HasPrefix(content, []byte("v1 "+parts[2]+" ")) {
			return errNoEntry
		}
		return nil
	})
}

var errNoEntry = errors.New("it is not an entry of a build cache")

// moveFiles moves the files of a folder that another folder lacks, after a check of each. A missing folder has no
// files.
func moveFiles(from, to string, pattern *regexp.Regexp, check func(name, file string) error) error {
	return filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if errors.Is(err, fs.ErrNotExist) && file == from {
				return nil
			}
			return err
		}
		name, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !pattern.MatchString(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("it has a file %s, which no cache of Go has", name)
		}
		target := filepath.Join(to, filepath.FromSlash(name))
		if _, err := os.Stat(target); err == nil {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := check(name, file); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return gobuild.Move(file, target)
	})
}

// The results of Compare.
const (
	Same    = "the same"
	Differs = "another program"
	Missing = "not in the archive"
	Other   = "made from other sources, or by another Go"
)

// Compare builds a program of the checkout at root into a file, and reports whether the archive has the same program.
func (a *Archive) Compare(
	ctx context.Context, root string, t gobuild.Target, installed gobuild.Installation, file string,
) (string, error) {
	name := fileOf(root, t)
	for _, layer := range a.Layers {
		origin, found := layer.Programs[name]
		if !found {
			continue
		}
		if !t.Fits(origin, installed.Version) {
			return Other, nil
		}
		t.Output = file
		if err := t.Ensure(ctx, nil); err != nil {
			return "", err
		}
		built, err := gobuild.Digest(file)
		if err := errors.Join(err, os.Remove(file), os.Remove(file+".stamp")); err != nil {
			return "", err
		}
		if built != origin.Program {
			return Differs, nil
		}
		return Same, nil
	}
	return Missing, nil
}
