// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTarRoundTrip(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(from, "a", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "a", "file"), []byte("vanilla"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(from, "a", "link")); err != nil {
		t.Fatal(err)
	}
	// As kubectl cp calls it, from a container and into one.
	var archive bytes.Buffer
	if err := runTar([]string{"cf", "-", filepath.Join(from, "a")}, nil, &archive); err != nil {
		t.Fatal(err)
	}
	if err := runTar([]string{
		"--no-same-permissions", "--no-same-owner", "-xmf", "-", "-C", to,
	}, &archive, io.Discard); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(to, from, "a")
	if content, err := os.ReadFile(filepath.Join(dir, "link")); err != nil || string(content) != "vanilla" {
		t.Errorf("content of the linked file = %q, %v", content, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "file")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("file = %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "empty")); err != nil || !info.IsDir() {
		t.Errorf("folder = %v, %v", info, err)
	}
}

func TestTarNeverLeavesItsFolder(t *testing.T) {
	outer := t.TempDir()
	folder := filepath.Join(outer, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outer, filepath.Join(folder, "out")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../escaped", "out/escaped"} {
		var archive bytes.Buffer
		writer := tar.NewWriter(&archive)
		if err := writer.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if err := runTar([]string{"-xmf", "-", "-C", folder}, &archive, io.Discard); err == nil {
			t.Errorf("no error for %s", name)
		}
		if _, err := os.Stat(filepath.Join(outer, "escaped")); err == nil {
			t.Errorf("%s wrote outside of the folder", name)
		}
	}
	for _, args := range [][]string{nil, {"cf", "-"}, {"xf", "-", "x"}, {"tf", "-"}, {"cf", "x.tar", "x"}} {
		if err := runTar(args, strings.NewReader(""), io.Discard); err == nil || err.Error() != tarUsage {
			t.Errorf("tar %v: %v", args, err)
		}
	}
}
