// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout/manifest"
)

func TestCheckLinks(t *testing.T) {
	t.Parallel()
	if err := manifest.CheckLinks(repository(t)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		edit func(*testing.T, string)
		want string
	}{
		{"a page that is gone", func(t *testing.T, root string) {
			t.Helper()
			if err := os.Remove(filepath.Join(root, "docs/lectures/02-pan.md")); err != nil {
				t.Fatal(err)
			}
		}, `^labs/labs.yaml:31: labs\[1\].lecture: there is no file docs/lectures/02-pan.md`},
		{"a heading that is gone", func(t *testing.T, root string) {
			t.Helper()
			writeFile(t, root, "docs/lectures/02-pan.md", "# The pan\n\nDon't drop it\n")
		}, `^labs/labs.yaml:52: labs\[1\].checks\[2\].lecture: .* has no heading #dont-drop-it; its headings are #the-pan$`},
		{"a path outside the repository", func(t *testing.T, root string) {
			t.Helper()
			list := readFile(t, filepath.Join(root, manifest.File))
			writeFile(t, root, manifest.File, strings.Replace(list, "docs/lectures/01-batter.md\n", "docs/../../x.md\n", 1))
		}, `^labs/labs.yaml:7: .*points outside the repository`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := repository(t)
			test.edit(t, root)
			wantError(t, manifest.CheckLinks(root), test.want)
		})
	}
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, page, want string }{
		{"words", "# Observed state, desired state", "observed-state-desired-state"},
		{"code", "## The `Reconcile()` method", "the-reconcile-method"},
		{"emphasis and links", "## *Level* **triggered** [is](https://a.b/c) `x_y`", "level-triggered-is-x_y"},
		{"punctuation leaves its spaces", "## What, why & how?", "what-why--how"},
		{"hyphens and underscores", "## kube-apiserver: my_name", "kube-apiserver-my_name"},
		{"other scripts", "## Ärger über 冰淇淋", "ärger-über-冰淇淋"},
		{"escapes and entities", `## a\_b &amp; c\*`, "a_b--c"},
		{"closing marks", "## Close ##", "close"},
		{"setext", "One\n===\n\nTwo\nlines\n---\n", "one two-lines"},
		{"the same again", "# A\n# a\n# A!", "a a-1 a-2"},
		{"code is no heading", "```\n# no\n```\n\n    # no\n\n# yes", "yes"},
		{"in quotes and lists", "> # quoted\n\n- # listed", "quoted listed"},
		{"HTML in a heading", `# <a id="x"></a>Anchor`, "anchor"},
		{"nothing", "no heading", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(manifest.Anchors([]byte(test.page)), " "); got != test.want {
				t.Errorf("Anchors(%q) = %q, want %q", test.page, got, test.want)
			}
		})
	}
}
