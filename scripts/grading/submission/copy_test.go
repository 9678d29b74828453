// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/submission/samples"
)

func TestCopyCopiesOnlyRegularFiles(t *testing.T) {
	t.Parallel()
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
		"-- config/crd/crd.yaml --\nkind: X\n-- internal/a/testdata/b.txt --\nb\n"+
		"-- .git/config --\nsecret\n-- _old/c.go --\npackage c\n"+
		"-- tools/go.mod --\nmodule tools\n-- tools/t.go --\npackage tools\n"+
		"-- big.bin --\n"+strings.Repeat("x", fileLimit+1)+"\n")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600), os.Symlink(outside, filepath.Join(dir, "leads-out.yaml")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "folder-outside")),
		os.Symlink("crd.yaml", filepath.Join(dir, "config", "crd", "link.yaml")),
	); err != nil {
		t.Fatal(err)
	}
	opened, err := Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := opened.Copy(to); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(to, path)
			got = append(got, filepath.ToSlash(name))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"cmd/main.go", "config/crd/crd.yaml", "config/crd/link.yaml", "go.mod", "internal/a/testdata/b.txt"}
	if !slices.Equal(got, want) {
		t.Errorf("copied were %q, want %q", got, want)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "cmd", "out.go")); err != nil {
		t.Fatal(err)
	}
	var wrong *FileError
	if err := opened.Copy(filepath.Join(t.TempDir(), "again")); !errors.As(err, &wrong) || wrong.Path != "cmd/out.go" {
		t.Errorf("Copy() of a source that is a link out of the folder: error = %v", err)
	}
}

func TestCopyIsLimited(t *testing.T) {
	t.Parallel()
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program)
	for i := range copyFiles {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("folder-%d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	opened, err := Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	var much *limited.TooMuchError
	if err := opened.Copy(filepath.Join(t.TempDir(), "copy")); !errors.As(err, &much) {
		t.Errorf("Copy() of %d folders: error = %v, want a TooMuchError", copyFiles, err)
	}
}
