// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package checkout

import (
	"path/filepath"
	"testing"
)

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
