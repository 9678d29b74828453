// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package checkout

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAssetsAreTheControlPlane(t *testing.T) {
	t.Parallel()
	here, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time they are there
		dir, err := here.Assets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, args := range map[string][]string{
			"kube-apiserver": {"--version"}, "kubectl": {"version", "--client"}, "etcd": {"--version"},
		} {
			said, err := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...).CombinedOutput()
			if err != nil || !strings.Contains(strings.ToLower(string(said)), "version") && !strings.Contains(string(said), here.ControlPlane.Version) {
				t.Errorf("%s ends with %v and says %q", name, err, said)
			}
		}
	}
}

func TestOnlySubmissionsOfTheCheckoutAreKeptBuilt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := &Checkout{Root: root}
	for _, test := range []struct{ name, dir, want string }{
		{"a lab", filepath.Join(root, "labs", "02-reconciler"), filepath.Join(root, ".cache", "submissions", "labs", "02-reconciler")},
		{"a folder elsewhere", t.TempDir(), ""},
		{"the folder above", filepath.Dir(root), ""},
	} {
		if got := c.BuildCache(test.dir); got != test.want {
			t.Errorf("%s: it is kept in %q instead of %q", test.name, got, test.want)
		}
	}
}
