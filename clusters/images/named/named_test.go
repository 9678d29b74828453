// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package named

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0a", 32)
	for reference, want := range map[string]string{
		"web":                                 "docker.io/library/web:latest",
		"web:v1":                              "docker.io/library/web:v1",
		"operator-labs/probe:v1":              "docker.io/operator-labs/probe:v1",
		"registry.k8s.io/pause":               "registry.k8s.io/pause:latest",
		"localhost/web":                       "localhost/web:latest",
		"localhost:5000/web:v2":               "localhost:5000/web:v2",
		"controller:latest":                   "docker.io/library/controller:latest",
		"registry.k8s.io/pause:1@" + digest:   "registry.k8s.io/pause@" + digest,
		"registry.k8s.io/a__b/c-d.e:X_1.2-rc": "registry.k8s.io/a__b/c-d.e:X_1.2-rc",
	} {
		got, err := Complete(reference)
		if err != nil || got != want {
			t.Errorf("Complete(%q) = %q, %v; want %q", reference, got, err, want)
		}
	}
	for _, reference := range []string{
		"", "Web", "web:", "web@sha256:12", "a//b", "-web", "web:v1 ", "../../etc", "http://x/y",
	} {
		if got, err := Complete(reference); err == nil {
			t.Errorf("Complete(%q) = %q, want an error", reference, got)
		}
	}
}

func TestLastImageOfANameWins(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	if _, err := Read(store, "web"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Read() of a missing image: error = %v", err)
	}
	for _, digest := range []string{"sha256:" + strings.Repeat("1", 64), "sha256:" + strings.Repeat("2", 64)} {
		if err := Write(store, Image{Reference: "web", Configuration: Blob{Digest: digest}}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"web:latest", "docker.io/library/web", digest} {
			if image, err := Read(store, name); err != nil || image.Configuration.Digest != digest {
				t.Errorf("Read(%s) = %+v, %v, want %s", name, image, err, digest)
			}
		}
	}
	if images, err := List(store); err != nil || len(images) != 1 ||
		images[0].Reference != "docker.io/library/web:latest" {
		t.Errorf("List() = %+v, %v", images, err)
	}
	files, err := filepath.Glob(filepath.Join(store, folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files = %v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(store, "web"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Read() of a damaged store: error = %v", err)
	}
}

// The checkout, and so the store, may be in a folder whose name is a pattern to other programs.
func TestStoreInAFolderWithBrackets(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "[course] *")
	for _, reference := range []string{"lab/graded:a", "lab/other:b"} {
		if err := Write(store, Image{Reference: reference}); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveUnused(store, "lab/graded"); err != nil {
		t.Fatal(err)
	}
	if images, err := List(store); err != nil || len(images) != 1 || images[0].Reference != "docker.io/lab/other:b" {
		t.Errorf("List() = %+v, %v; want only the other image", images, err)
	}
}

// A file that is still being written has no name yet. The same is true if its writer was killed.
func TestListOmitsUnfinishedNames(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = Write(store, Image{Reference: "web", Layers: make([]Blob, 3000)})
			if err == nil { // listing nothing is quick, so List often runs while a file is written
				err = os.RemoveAll(filepath.Join(store, folder))
			}
		}
		written <- err
	}()
	for {
		if images, err := List(store); err != nil || len(images) > 1 {
			t.Fatalf("List() returned %d images, %v", len(images), err)
		}
		select {
		case err := <-written:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}
