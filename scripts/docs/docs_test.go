// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// repository lays the shop into a temporary folder and returns it with the files below want/.
func repository(t *testing.T) (root string, want map[string]string) {
	t.Helper()
	content, err := os.ReadFile("testdata/shop.txtar")
	if err != nil {
		t.Fatal(err)
	}
	root, want = t.TempDir(), map[string]string{}
	for _, f := range txtar.Parse(content).Files {
		if name, ok := strings.CutPrefix(f.Name, "want/"); ok {
			want[name] = string(f.Data)
			continue
		}
		write(t, root, f.Name, string(f.Data))
	}
	return root, want
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	target := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCodeOfPages(t *testing.T) {
	t.Parallel()
	root, want := repository(t)
	got, err := Refresh(root, "docs/page.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want["docs/page.md"], string(got)); diff != "" {
		t.Errorf("refreshed page (-want +got):\n%s", diff)
	}

	err = Check(root)
	const stale = "docs/page.md:6: the code is not that of the file it names any more: run `make fix`"
	if err == nil || err.Error() != stale {
		t.Errorf("check before the fix: %v, want %s", err, stale)
	}
	// The page of a lab comes from its solution, and is not to be mended here.
	const ofLab = "<!-- code: solutions/01-shop/Makefile -->\n<!-- /code -->\n"
	write(t, root, "labs/01-shop/README.md", ofLab)
	changed, err := Fix(root)
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "labs/01-shop/README.md", "")
	if diff := cmp.Diff([]string{"docs/page.md"}, changed); diff != "" {
		t.Errorf("fixed (-want +got):\n%s", diff)
	}
	if err := Check(root); err != nil {
		t.Errorf("check after the fix: %v", err)
	}

	// A change in the code makes the page stale again.
	source := filepath.Join(root, "solutions/01-shop/shop.go")
	content, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "solutions/01-shop/shop.go", strings.Replace(string(content), "= s.Name", "= s.Name + \"!\"", 1))
	if changes, err := Stale(root); err != nil || len(changes) != 1 {
		t.Errorf("stale pages %v, error %v; want the one page", changes, err)
	}
}

func TestMistakesInCodeMarkers(t *testing.T) {
	t.Parallel()
	const names = "Few, Many, Shop, Shop.Close, Window, Window.Close, Shop.Open"
	tests := []struct {
		name, page, want string
	}{
		{
			"no file", "\n<!-- code: solutions/01-shop/none.go -->\n<!-- /code -->\n",
			"docs/page.md:2: there is no file solutions/01-shop/none.go to show: no such file or directory",
		},
		{
			"no declaration", "<!-- code: solutions/01-shop/shop.go#Sell -->\n<!-- /code -->\n",
			"docs/page.md:1: solutions/01-shop/shop.go declares no Sell, nor has it such a region; it has " + names,
		},
		{
			"several declarations", "<!-- code: solutions/01-shop/shop.go#Close -->\n<!-- /code -->\n",
			"docs/page.md:1: solutions/01-shop/shop.go declares Shop.Close, Window.Close: name one of them",
		},
		{
			"no region", "<!-- code: solutions/01-shop/config/shop.yaml#spec -->\n<!-- /code -->\n",
			"docs/page.md:1: solutions/01-shop/config/shop.yaml has no region spec; it has name",
		},
		{
			"out of the repository", "<!-- code: ../shop.go -->\n<!-- /code -->\n",
			"docs/page.md:1: ../shop.go is not a path from the root of the repository",
		},
		{
			"not closed", "<!-- code: solutions/01-shop/Makefile -->\ntext\n",
			"docs/page.md:1: this code is not closed: end it with <!-- /code -->",
		},
		{"not opened", "<!-- /code -->\n", "docs/page.md:1: <!-- /code --> without a <!-- code: file#name --> before it"},
		{
			"misspelt", "<!-- code solutions/01-shop/Makefile -->\n",
			"docs/page.md:1: write <!-- code: file#name --> in a line of its own, the file's path from the root of the repository",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root, _ := repository(t)
			write(t, root, "docs/page.md", test.page)
			err := Check(root)
			if err == nil || err.Error() != test.want {
				t.Errorf("error\n  %v\nwant\n  %s", err, test.want)
			}
			if changed, err := Fix(root); err == nil || len(changed) > 0 {
				t.Errorf("the fix changed %v, error %v; want the same error and no change", changed, err)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "README.md", "# Top\n\n## A `thing`, twice\n\n## A thing, twice\n\n"+
		"[fine](docs/guide.md#its-heading) [here](#a-thing-twice-1) ![picture](docs/p.png) [folder](docs) <https://example.com/none>\n"+
		"[site](https://example.com/none#x), `[code](none.md)`\n\n```\n[fenced](none.md)\n```\n\n"+
		"| table |\n|---|\n| [gone](gone.md) |\n\n"+
		"words [no heading](docs/guide.md#nowhere)\nand [ref][ref]\n\n[ref]: docs/none.md\n")
	write(t, root, "docs/guide.md", "# Its heading\n\n[up](../README.md) [out](../../x.md) [root](/README.md)\n[line](../main.go#L12)\n")
	write(t, root, "docs/p.png", "")
	write(t, root, "main.go", "")
	err := CheckLinks(root)
	want := []string{
		"README.md:16: gone.md is a dead link: there is no gone.md",
		"README.md:18: docs/guide.md#nowhere is a dead link: docs/guide.md has no heading #nowhere; its headings are #its-heading",
		"README.md:19: docs/none.md is a dead link: there is no docs/none.md",
		"docs/guide.md:3: ../../x.md leads out of the repository",
		"docs/guide.md:3: /README.md begins with a slash, which leads elsewhere on each site: write the path from this page's folder",
		"docs/guide.md:4: ../main.go#L12 names a line, which moves: show the code with <!-- code: main.go#name -->",
	}
	if err == nil {
		t.Fatal("no dead link found")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
