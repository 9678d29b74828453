// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFolder(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	put := func(file, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(outside, "secret.go"), "package secret")
	for _, file := range []string{
		"main.go", "a/b/c.go", "a/README.md", ".git/x.go", "vendor/x.go", "web/node_modules/x.go",
	} {
		put(filepath.Join(dir, filepath.FromSlash(file)), "package "+file)
	}
	for link, to := range map[string]string{
		"link.go": filepath.Join(outside, "secret.go"), "folder": outside, "inside.go": "main.go",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Folder("ada", dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a/b/c.go", "main.go"}, slices.Sorted(maps.Keys(d.Files))); diff != "" ||
		d.Name != "ada" {
		t.Errorf("%s has other files: %s", d.Name, diff)
	}
	if got := string(d.Files["a/b/c.go"]); got != "package a/b/c.go" {
		t.Errorf("file content = %q", got)
	}
}

func TestFolderIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.go", "b.go", "c.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("/"), maxBytes/2+1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Folder("ada", dir)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, content := range d.Files {
		size += len(content)
	}
	if size != maxBytes {
		t.Errorf("Folder() read %d bytes, want at most %d", size, maxBytes)
	}
	if _, err := Folder("ada", filepath.Join(dir, "none")); err == nil ||
		!strings.Contains(err.Error(), "reading the code of ada") {
		t.Errorf("Folder() of a missing folder: error = %v", err)
	}
}
