// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package archive

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/removal"
)

// Content is the content of a layer.
type Content struct {
	Name string
	// Programs are the programs of the layer. They must be fresh.
	Programs []gobuild.Target
	// ModuleCache and BuildCache are caches of the go command that contain what students' first builds need, and nothing
	// else. Default: none.
	ModuleCache, BuildCache string
}

// Save writes an archive of the checkout at root, and returns the archive's manifest and the manifest's SHA-256. The
// same contents give the same file. progress is called with each layer that is being compressed.
func Save(ctx context.Context, root, name string, contents []Content, installed gobuild.Installation,
	progress func(layer string),
) (m *Manifest, sum string, err error) {
	work, err := os.MkdirTemp(filepath.Dir(name), removal.Temporary("."+filepath.Base(name)+"."))
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, removal.All(work)) }()
	m = &Manifest{Format: format, Go: installed.Version}
	for _, content := range contents {
		progress(content.Name)
		layer, err := content.write(ctx, root, filepath.Join(work, content.Name), installed.Version)
		if err != nil {
			return nil, "", fmt.Errorf("writing the layer %s: %w", content.Name, err)
		}
		m.System = content.Programs[0].System()
		m.Layers = append(m.Layers, layer)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, "", err
	}
	if err := errors.Join(m.check(), join(filepath.Join(work, "archive"), text, m.Layers, work)); err != nil {
		return nil, "", fmt.Errorf("writing the archive: %w", err)
	}
	digest := sha256.Sum256(text)
	return m, hex.EncodeToString(digest[:]), os.Rename(filepath.Join(work, "archive"), name)
}

// join writes the archive of a manifest and layers, whose files are in a folder.
func join(name string, manifest []byte, layers []Layer, dir string) (err error) {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	archive := tar.NewWriter(out)
	parts := []part{{name: manifestName, text: string(manifest)}}
	for _, layer := range layers {
		parts = append(parts, part{name: layer.Name + ".tar.zst", file: filepath.Join(dir, layer.Name)})
	}
	for _, p := range parts {
		if err := p.write(archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

// part is a file of an archive or of a layer: another file, or a text.
type part struct{ name, file, text string }

func (p part) size() (int64, error) {
	if p.file == "" {
		return int64(len(p.text)), nil
	}
	info, err := os.Stat(p.file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// write writes the part into an archive. All entries are plain: their headers have one block, so that offsets follow
// from sizes.
func (p part) write(archive *tar.Writer) error {
	size, err := p.size()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: p.name, Size: size, Mode: 0o644, Format: tar.FormatUSTAR,
	}); err != nil {
		return err
	}
	if p.file == "" {
		_, err = io.WriteString(archive, p.text)
		return err
	}
	file, err := os.Open(p.file)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(archive, file)
	return err
}

// windowOf returns the window of a layer. A larger window than the layer needs costs memory.
func windowOf(size int64) int {
	return min(max(zstd.MinWindowSize, 1<<bits.Len64(uint64(size))), window)
}

// write writes a layer into a file.
func (c Content) write(ctx context.Context, root, name, version string) (layer Layer, err error) {
	layer = Layer{Name: c.Name, Programs: map[string]gobuild.Origin{}}
	var parts []part
	for _, t := range c.Programs {
		origin, err := t.Origin(version)
		if err != nil {
			return layer, err
		}
		file := fileOf(root, t)
		layer.Programs[file] = origin
		parts = append(parts, part{name: programFolder + "/" + file, file: t.Output})
	}
	modules, err := c.modules()
	if err != nil {
		return layer, err
	}
	builds, err := c.builds()
	if err != nil {
		return layer, err
	}
	parts = slices.Concat(parts, modules, builds)
	for _, p := range parts {
		size, err := p.size()
		if err != nil {
			return layer, err
		}
		layer.Unpacked += size
	}
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return layer, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	// With one goroutine, the same contents are compressed to the same bytes.
	compressed, err := zstd.NewWriter(io.MultiWriter(out, sum),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(windowOf(layer.Unpacked)),
		zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return layer, err
	}
	archive := tar.NewWriter(compressed)
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return layer, context.Cause(ctx)
		}
		if err := p.write(archive); err != nil {
			return layer, err
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return layer, err
	}
	layer.SHA256 = hex.EncodeToString(sum.Sum(nil))
	info, err := out.Stat()
	if err != nil {
		return layer, err
	}
	layer.Size = info.Size()
	return layer, nil
}

// modules returns the files of the module cache from which the go command creates everything else there.
func (c Content) modules() ([]part, error) {
	if c.ModuleCache == "" {
		return nil, nil
	}
	return listFiles(filepath.Join(c.ModuleCache, "cache", "download"), moduleFolder, moduleFile.MatchString)
}

// builds returns the entries of the build cache. Each gets the same time, because the time of an entry has no effect on
// the result.
func (c Content) builds() ([]part, error) {
	if c.BuildCache == "" {
		return nil, nil
	}
	parts, err := listFiles(c.BuildCache, buildFolder, buildFile.MatchString)
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		if !strings.HasSuffix(p.name, "-a") {
			continue
		}
		content, err := os.ReadFile(p.file)
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(string(content)) // version, action, output, size, time
		if len(fields) != 5 {
			return nil, fmt.Errorf("%s is not an entry of a build cache that this version supports", p.name)
		}
		parts[i].file, parts[i].text = "", fmt.Sprintf("%s %s %s %20s %20d\n", fields[0], fields[1], fields[2], fields[3], 1)
	}
	return parts, nil
}

// listFiles lists files of a folder and those below it by name, each with the name that it has in a layer.
func listFiles(dir, as string, wanted func(name string) bool) (parts []part, err error) {
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if name = filepath.ToSlash(name); wanted(name) {
			parts = append(parts, part{name: as + "/" + name, file: file})
		}
		return nil
	})
	return parts, err
}
