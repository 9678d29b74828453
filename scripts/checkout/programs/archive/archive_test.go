// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/dirhash"

	"lva.io/operators/clusters/gobuild"
	named "lva.io/operators/scripts/checkout/programs/reference"
)

// checkout is a clone with one program, and caches of the go command that have the content of a layer.
type checkout struct {
	root      string
	target    gobuild.Target
	installed gobuild.Installation
}

const greeting = "package main\n\nfunc main() { println(\"hello\") }\n"

func newCheckout(t *testing.T) checkout {
	t.Helper()
	c := checkoutIn(t.TempDir())
	if err := c.writeSources(); err != nil {
		t.Fatal(err)
	}
	return c
}

func checkoutIn(root string) checkout {
	return checkout{
		root: root,
		target: gobuild.Target{
			Package: ".", Module: filepath.Join(root, "module"), Output: filepath.Join(root, ".cache", "bin", "greeting"),
		},
		installed: gobuild.Installation{
			Version: "go1.26.8", ModuleCache: filepath.Join(root, "modules"), BuildCache: filepath.Join(root, "builds"),
		},
	}
}

// writeSources writes the sources.
func (c checkout) writeSources() error {
	return errors.Join(
		os.MkdirAll(c.target.Module, 0o755),
		os.WriteFile(filepath.Join(c.target.Module, "go.mod"), []byte("module example.test/greeting\n\ngo 1.26\n"), 0o644),
		os.WriteFile(filepath.Join(c.target.Module, "main.go"), []byte(greeting), 0o644),
	)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	download = "cache/download/example.test/flavour/@v/"
	action   = "aa00000000000000000000000000000000000000000000000000000000000000"
	compiled = "a compiled package"
)

func entry(time string) string {
	return fmt.Sprintf("v1 %s %x %20d %20s\n", action, sha256.Sum256([]byte(compiled)), len(compiled), time)
}

func output() string {
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(compiled)))
	return name[:2] + "/" + name + "-d"
}

// built returns the program of all checkouts, with its stamp. Building it once takes a second or two.
var built = sync.OnceValues(func() (files map[string][]byte, err error) {
	root, err := os.MkdirTemp("", "archive-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	c := checkoutIn(root)
	if err := errors.Join(c.writeSources(), c.target.Ensure(context.Background(), nil)); err != nil {
		return nil, err
	}
	files = map[string][]byte{}
	for _, suffix := range []string{"", ".stamp"} {
		if files[suffix], err = os.ReadFile(c.target.Output + suffix); err != nil {
			return nil, err
		}
	}
	return files, nil
})

// build puts the program into its folder.
func (c checkout) build(t *testing.T) {
	t.Helper()
	files, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for suffix, content := range files {
		write(t, c.target.Output+suffix, string(content))
	}
	if !c.target.Fresh() {
		t.Fatal("the program is not fresh")
	}
}

// save builds the program of a checkout, fills its caches, and saves all of that. time is the time of an entry of the
// build cache.
func (c checkout) save(t *testing.T, time string) (named.Reference, *Manifest) {
	t.Helper()
	c.build(t)
	var module bytes.Buffer
	archive := zip.NewWriter(&module)
	file, err := archive.Create("example.test/flavour@v1.0.0/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(file, "module example.test/flavour\n"); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"v1.0.0.zip": module.String(), "v1.0.0.ziphash": "h1:anything",
		"v1.0.0.mod": "module example.test/flavour\n", "v1.0.0.lock": "", "list": "v1.0.0\n",
	} {
		write(t, filepath.Join(c.installed.ModuleCache, download, name), content)
	}
	write(t, filepath.Join(c.installed.BuildCache, action[:2], action+"-a"), entry(time))
	write(t, filepath.Join(c.installed.BuildCache, output()), compiled)
	write(t, filepath.Join(c.installed.BuildCache, "README"), "not an entry")
	name := filepath.Join(c.root, "archive.tar")
	contents := []Content{
		{
			Name: "first", Programs: []gobuild.Target{c.target},
			ModuleCache: c.installed.ModuleCache, BuildCache: c.installed.BuildCache,
		},
		{Name: "second", Programs: []gobuild.Target{c.target}},
	}
	manifest, sum, err := Save(t.Context(), c.root, name, contents, c.installed, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return named.Reference{Source: name, SHA256: sum}, manifest
}

// install installs the first layer of an archive.
func (c checkout) install(ctx context.Context, reference named.Reference, pace Pace) error {
	opened, err := Open(ctx, reference, pace)
	if err != nil {
		return err
	}
	wanted := opened.Wanted(c.root, []gobuild.Target{c.target}, c.installed)
	if len(wanted) == 0 {
		return errors.New("nothing fits")
	}
	return opened.Install(ctx, c.root, wanted[0], []gobuild.Target{c.target}, c.installed, func(int64, int64) {})
}

// wantInstalled reports an error unless everything was installed, and nothing else exists.
func (c checkout) wantInstalled(t *testing.T) {
	t.Helper()
	if !c.target.Fresh() {
		t.Error("the program is not fresh")
	}
	if got, err := exec.CommandContext(t.Context(), c.target.Output).CombinedOutput(); err != nil ||
		string(got) != "hello\n" {
		t.Errorf("output of the program = %q, %v", got, err)
	}
	archive := filepath.Join(c.installed.ModuleCache, download, "v1.0.0.zip")
	want, err := dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	if hash, err := os.ReadFile(archive + "hash"); err != nil || string(hash) != want {
		t.Errorf("hash of the module = %q, want %q: %v", hash, want, err)
	}
	if content, err := os.ReadFile(filepath.Join(c.installed.BuildCache, output())); err != nil ||
		string(content) != compiled {
		t.Errorf("the build cache has %q: %v", content, err)
	}
	if content, err := os.ReadFile(filepath.Join(c.installed.BuildCache, action[:2], action+"-a")); err != nil ||
		string(content) != entry("1") {
		t.Errorf("the build cache has the entry %q: %v", content, err)
	}
	left, err := filepath.Glob(filepath.Join(c.root, ".cache", "arriving", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestInstallFromFile(t *testing.T) {
	t.Parallel()
	reference, manifest := newCheckout(t).save(t, "1234")
	if manifest.System != (gobuild.Target{}).System() || manifest.Layers[0].Programs["bin/greeting"].Go != "go1.26.8" {
		t.Errorf("manifest = %+v", manifest)
	}
	destination := newCheckout(t)
	if err := destination.install(t.Context(), reference, DefaultPace); err != nil {
		t.Fatal(err)
	}
	destination.wantInstalled(t)
}

func TestArchiveIsReproducible(t *testing.T) {
	t.Parallel()
	one, _ := newCheckout(t).save(t, "1234")
	two, _ := newCheckout(t).save(t, "5678")
	if one.SHA256 != two.SHA256 {
		t.Errorf("SHA-256 of the manifests = %s and %s, want the same", one.SHA256, two.SHA256)
	}
	first, err := os.ReadFile(one.Source)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(two.Source)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the archives differ: %v", err)
	}
}

func TestMismatchedProgramIsNotUsed(t *testing.T) {
	t.Parallel()
	reference, _ := newCheckout(t).save(t, "1234")
	for name, change := range map[string]func(*checkout){
		"other sources": func(p *checkout) {
			write(t, filepath.Join(p.target.Module, "main.go"), greeting+"\n// Changed.\n")
		},
		"another file": func(p *checkout) { write(t, filepath.Join(p.target.Module, "more.go"), "package main\n") },
		"another go.mod": func(p *checkout) {
			write(t, filepath.Join(p.target.Module, "go.mod"), "module example.test/greeting\n\ngo 1.25\n")
		},
		"another Go":             func(p *checkout) { p.installed.Version = "go1.26.9" },
		"other flags":            func(p *checkout) { p.target.Tags = []string{"chocolate"} },
		"another processor":      func(p *checkout) { p.target.Arch = "riscv64" },
		"a program not in it":    func(p *checkout) { p.target.Output += "s" },
		"a folder outside of it": func(p *checkout) { p.target.Output = filepath.Join(t.TempDir(), "greeting") },
	} {
		destination := newCheckout(t)
		change(&destination)
		if err := destination.install(t.Context(), reference, DefaultPace); err == nil || err.Error() != "nothing fits" {
			t.Errorf("with %s: error = %v", name, err)
		}
		if destination.target.Fresh() {
			t.Errorf("the program is fresh with %s", name)
		}
	}
}

// layerOf writes an archive whose layer has these files, and whose origins are those of another archive.
func layerOf(t *testing.T, manifest *Manifest, headers []tar.Header, contents []string) named.Reference {
	t.Helper()
	dir := t.TempDir()
	var layer bytes.Buffer
	compressed, err := zstd.NewWriter(&layer)
	if err != nil {
		t.Fatal(err)
	}
	entries := tar.NewWriter(compressed)
	for i, header := range headers {
		header.Size, header.Mode = int64(len(contents[i])), 0o644
		if err := entries.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(entries, contents[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := entries.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "first"), layer.String())
	sum := sha256.Sum256(layer.Bytes())
	made := Manifest{Format: format, Go: manifest.Go, System: manifest.System, Layers: []Layer{{
		Name: "first", Size: int64(layer.Len()), SHA256: hex.EncodeToString(sum[:]),
		Unpacked: 1 << 20, Programs: manifest.Layers[0].Programs,
	}}}
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	if err := join(filepath.Join(dir, "archive"), text, made.Layers, dir); err != nil {
		t.Fatal(err)
	}
	return named.Reference{Source: filepath.Join(dir, "archive")}
}

func TestLayerWithUnexpectedEntries(t *testing.T) {
	t.Parallel()
	_, manifest := newCheckout(t).save(t, "1234")
	const program = "programs/bin/greeting"
	for _, test := range []struct {
		name    string
		header  tar.Header
		content string
		reason  string
	}{
		{"another program", tar.Header{Name: program}, "#!/bin/sh\necho hacked\n", gobuild.ErrOther.Error()},
		{"a file outside", tar.Header{Name: "../../../escaped"}, "x", "path escapes"},
		{"an absolute one", tar.Header{Name: "/escaped"}, "x", "path escapes"},
		{"a link", tar.Header{Name: "programs/link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, "", "no file"},
		{"too much", tar.Header{Name: "programs/large"}, strings.Repeat("x", 2<<20), "more than 1 MB"},
		{"no program", tar.Header{Name: "programs/other"}, "x", "no such file"},
	} {
		destination := newCheckout(t)
		err := destination.install(t.Context(), layerOf(t, manifest,
			[]tar.Header{test.header}, []string{test.content}), DefaultPace)
		if err == nil || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("with %s: error = %v, want %q", test.name, err, test.reason)
		}
		if destination.target.Fresh() {
			t.Errorf("the program is fresh with %s", test.name)
		}
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(destination.root), "escaped")); len(found) > 0 {
			t.Errorf("with %s, these files exist: %v", test.name, found)
		}
	}
	files, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"modules/../../escaped", "modules/example.test/a/@v/v1.0.0.sh", "builds/aa/README",
		"builds/aa/" + action + "-d", "builds/bb/" + action + "-a",
	} {
		destination := newCheckout(t)
		reference := layerOf(t, manifest, []tar.Header{{Name: program}, {Name: name}}, []string{string(files[""]), "x"})
		opened, err := Open(t.Context(), reference, DefaultPace)
		if err != nil {
			t.Fatal(err)
		}
		opened.Layers[0].Unpacked = 64 << 20
		if err := opened.Install(t.Context(), destination.root, opened.Layers[0], []gobuild.Target{destination.target},
			destination.installed, func(int64, int64) {}); err == nil {
			t.Errorf("a layer with %s was installed", name)
		}
	}
}

func TestInvalidArchive(t *testing.T) {
	t.Parallel()
	reference, _ := newCheckout(t).save(t, "1234")
	content, err := os.ReadFile(reference.Source)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"nothing": {}, "a text": []byte("hello"), "half of a header": content[:300], "half of a manifest": content[:700],
		"zeros":          make([]byte, 2048),
		"another format": bytes.Replace(content, []byte(format), []byte("operator-labs-programs-9"), 1),
	} {
		file := filepath.Join(t.TempDir(), "archive")
		write(t, file, string(content))
		if opened, err := Open(t.Context(), named.Reference{Source: file}, DefaultPace); err == nil {
			t.Errorf("%s was opened as an archive of %d layers", name, len(opened.Layers))
		}
	}
	if _, err := Open(t.Context(), named.Reference{Source: filepath.Join(t.TempDir(), "missing")},
		DefaultPace); err == nil {
		t.Error("no error for a missing file")
	}
}
