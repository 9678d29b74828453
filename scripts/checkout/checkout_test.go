// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package checkout

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/images/named"
	"lva.io/operators/scripts/checkout/manifest"
)

func TestAssetsHaveTheControlPlane(t *testing.T) {
	t.Parallel()
	c, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time they exist
		dir, err := c.Assets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, args := range map[string][]string{
			"kube-apiserver": {"--version"}, "kubectl": {"version", "--client"}, "etcd": {"--version"},
		} {
			output, err := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...).CombinedOutput()
			if err != nil || !strings.Contains(strings.ToLower(string(output)), "version") &&
				!strings.Contains(string(output), c.ControlPlane.Version) {
				t.Errorf("%s: error = %v, output = %q", name, err, output)
			}
		}
	}
}

func TestBuildCache(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := &Checkout{Root: root}
	for _, test := range []struct{ name, dir, want string }{
		{
			"a lab",
			filepath.Join(root, "labs", "02-reconciler"),
			filepath.Join(root, ".cache", "submissions", "labs", "02-reconciler"),
		},
		{"a folder elsewhere", t.TempDir(), ""},
		{"the folder above", filepath.Dir(root), ""},
	} {
		if got := c.BuildCache(test.dir); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestLabOfFolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := &Checkout{Root: root, Labs: &manifest.Manifest{Labs: []manifest.Lab{{Name: "01-a"}, {Name: "02-b"}}}}
	for _, test := range []struct{ dir, want string }{
		{"labs/02-b", "02-b"}, {"solutions/01-a/", "01-a"}, {"labs/02-b/api", ""}, {"labs", ""}, {"02-b", ""},
	} {
		got := ""
		if lab := c.LabOf(filepath.Join(root, test.dir)); lab != nil {
			got = lab.Name
		}
		if got != test.want {
			t.Errorf("LabOf(%s) = %q, want %q", test.dir, got, test.want)
		}
	}
}

// A store that an older checkout has filled has images with our names. A student may have given the same name to
// another one.
func TestForeignImageOfSameNameIsReplaced(t *testing.T) {
	t.Parallel()
	c, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := images.Load()
	if err != nil {
		t.Fatal(err)
	}
	probe, err := catalogue.Image("operator-labs/probe:v1")
	if err != nil {
		t.Fatal(err)
	}
	store := images.StoreOf(c.Root)
	store.Dir = t.TempDir()
	for _, state := range []string{"nothing else", "its content, too,"} {
		other := named.Image{
			Reference:     probe.Reference,
			Configuration: named.Blob{Digest: "sha256:" + strings.Repeat("0", 64)},
		}
		if err := named.Write(store.Dir, other); err != nil {
			t.Fatal(err)
		}
		if _, err := ensureImages(t.Context(), store, []images.Image{probe}); err != nil {
			t.Fatal(err)
		}
		found, err := named.Read(store.Dir, probe.Reference)
		if err != nil {
			t.Fatal(err)
		}
		made, err := store.Find([]images.Image{probe})
		if err != nil || len(made) != 1 || found.Configuration.Digest != made[0].ID {
			t.Errorf("after the store had %s, the name refers to %s, want %+v, %v", state, found.Configuration.Digest, made, err)
		}
	}
}
