// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"lva.io/operators/scripts/checkout/manifest"
)

// repository is the unpacked repository of the shop.
func repository(t *testing.T) (root string, want map[string]string) {
	t.Helper()
	return unpacked(t, "testdata/shop.txtar")
}

// unpacked lays an archive into a temporary folder and returns it with the files below want/.
func unpacked(t *testing.T, archive string) (root string, want map[string]string) {
	t.Helper()
	content, err := os.ReadFile(archive)
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

func TestDiagramOfSection(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "docs/lecture.md", "# One\n\n```mermaid\nflowchart LR\n    A --> B\n```\n\n"+
		"## Two\n\n```sh\n# no heading\n```\n\n"+
		"```mermaid\nflowchart TD\n```\n")
	for page, want := range map[string]string{
		"docs/lecture.md":     "```mermaid\nflowchart LR\n    A --> B\n```\n",
		"docs/lecture.md#two": "```mermaid\nflowchart TD\n```\n",
	} {
		marker := "<!-- diagram: " + page + " -->\n"
		write(t, root, "docs/deck.md", marker+"stale\n<!-- /diagram -->\n")
		got, err := Refresh(root, "docs/deck.md")
		if want = marker + want + "<!-- /diagram -->\n"; err != nil || string(got) != want {
			t.Errorf("Refresh() = %q, %v, want %q", got, err, want)
		}
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
	const stale = "docs/page.md:6: what the marker before it names has changed: run `make fix`"
	if err == nil || err.Error() != stale {
		t.Errorf("Check() before the fix = %v, want %s", err, stale)
	}
	// The page of a lab comes from its solution, and must not be fixed here.
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
		t.Errorf("Check() after the fix = %v", err)
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

const labsYAML = `labs:
- number: 1
  name: 01-shop
  title: The shop
  summary: A shop | a till.
  lecture: docs/lectures/01-shop.md
  teaches: how to sell
  operator: true
  timeLimit: 1m
  groups: [shop.example.com]
  checks:
  - {id: opens, title: The shop opens, points: 60, lecture: docs/lectures/01-shop.md#selling, hints: [one, two]}
  - {id: sells, title: It sells, points: 40, lecture: docs/lectures/01-shop.md#selling, hints: [one, two]}
`

// Tables of labs in a page have the values of labs.yaml, wherever the page is.
func TestTablesOfPages(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	schema, err := os.ReadFile("../../../labs/labs.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "labs/labs.schema.json", string(schema))
	write(t, root, "labs/labs.yaml", labsYAML)
	write(t, root, "docs/lectures/01-shop.md", "# Lecture 1: Selling\n\n## Selling\n")
	write(t, root, "docs/reference/mutation.json",
		`{"01-shop": {"mutants": 34, "found": 18, "torture": 1, "gaps": 2, "survived": 1, "equivalent": 5, "stillborn": 4, "undecided": 3}}`)
	write(t, root, "docs/reference/conformance.json", `[{"test": "[sig-apps] Job runs [Conformance]", "verdict": "passed"},
		{"test": "[sig-apps] Job ends [Conformance]", "verdict": "failed", "why": "It goes on."},
		{"test": "[sig-node] Two nodes [Conformance]", "verdict": "not run", "why": "There is one."}]`)
	const checks = "| check | points | what must be true |\n|---|---|---|\n" +
		"| opens | 60 | The shop opens |\n| sells | 40 | It sells |\n"
	for page, tables := range map[string][2]string{
		"solutions/01-shop/TASK.md": {"checks", checks},
		"labs/01-shop/README.md":    {"checks", checks},
		"README.md": {"labs", "| lab | what you do | lecture |\n|---|---|---|\n" +
			"| [01-shop](labs/01-shop/README.md) | A shop \\| a till | [Selling](docs/lectures/01-shop.md) |\n"},
		"docs/README.md": {"lectures", "| lecture | lab | you will know |\n|---|---|---|\n" +
			"| [1: Selling](lectures/01-shop.md) | [01-shop](../labs/01-shop/README.md) | how to sell |\n"},
		"docs/reference/mutation.md": {"mutants", "| lab | mutants | tried | found | found by the torture alone | " +
			"gaps | equivalent | stillborn | found of those that are wrong | with the torture |\n" +
			"|---|---|---|---|---|---|---|---|---|---|\n| 01-shop | 34 | 31 | 18 | 1 | 3 | 5 | 4 | 81.8 % | 86.4 % |\n"},
		"docs/reference/conformance.md": {"conformance", "| group | tests | passed | failed | not run |\n" +
			"|---|---|---|---|---|\n" +
			"| sig-apps | 2 | 1 | 1 | 0 |\n| sig-node | 1 | 0 | 0 | 1 |\n| **all** | 3 | 1 | 1 | 1 |\n"},
		"docs/reference/reasons.md": {"conformance-reasons", "| test |  | why |\n|---|---|---|\n" +
			"| [sig-apps] Job ends | failed | It goes on. |\n| [sig-node] Two nodes | not run | There is one. |\n"},
	} {
		opening, closing := "before\n<!-- table: "+tables[0]+" -->\n", "<!-- /table -->\nafter\n"
		for _, old := range []string{"", "| check | points |\n|---|---|\n| opens | 10 |\n"} {
			write(t, root, page, opening+old+closing)
			got, err := Refresh(root, page)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(opening+tables[1]+closing, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", page, diff)
			}
		}
	}
	err = Check(root)
	const stale = "solutions/01-shop/TASK.md:3: what the marker before it names has changed: run `make fix`"
	if err == nil || !strings.Contains(err.Error(), stale) {
		t.Errorf("Check() of a page with old points = %v", err)
	}
	write(t, root, "docs/page.md", "<!-- table: checks -->\n<!-- /table -->\n")
	const noLab = "labs/labs.yaml has no lab docs, whose checks this table could list"
	if _, err := Refresh(root, "docs/page.md"); err == nil || !strings.Contains(err.Error(), noLab) {
		t.Errorf("Refresh() of a page outside of a lab with a table of checks: error = %v, want %s", err, noLab)
	}
}

// Most kubectl versions parse a file that begins with { as JSON only.
func TestDocumentsStartingWithBraceAreJSON(t *testing.T) {
	t.Parallel()
	const repository = "../../.."
	pages, err := Pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	braced, found := regexp.MustCompile(`'(\{[^']*apiVersion[^']*\})'`), 0
	for _, page := range pages {
		content, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range braced.FindAllStringSubmatch(string(content), -1) {
			if found++; !json.Valid([]byte(match[1])) {
				t.Errorf("%s has %s, which is not JSON, and kubectl does not read it as YAML", page, match[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page has such a document: is the search wrong?")
	}
}

// A hint repeats what the lectures teach. A student could not find something that appears in the last hint alone.
func TestLecturesTeachMarkersOfHints(t *testing.T) {
	t.Parallel()
	const repository = "../../.."
	list, err := manifest.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	needed := regexp.MustCompile(
		`\+kubebuilder:(validation:\w+|resource:scope|\w+)|\+listType=\w+|\b(WithValidator|WithDefaulter|Complete)\(`,
	)
	taught, found := "", map[string]bool{}
	for _, lab := range list.Labs {
		lecture, err := os.ReadFile(filepath.Join(repository, lab.Lecture))
		if err != nil {
			t.Fatal(err)
		}
		taught += string(lecture)
		for _, check := range lab.Checks {
			for _, name := range needed.FindAllString(strings.Join(check.Hints, "\n"), -1) {
				found[name] = true
				if !strings.Contains(taught, name) {
					t.Errorf("a hint for %s of lab %d names %s, but no lecture up to it does", check.ID, lab.Number, name)
				}
			}
		}
	}
	for _, name := range []string{"+kubebuilder:resource:scope", "WithValidator(", "Complete("} {
		if !found[name] {
			t.Errorf("no hint names %s: is the search wrong?", name)
		}
	}
}

// A reader who opens a lecture in an editor also sees its folded parts.
func TestLectureShowsNoSolution(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	write(t, root, "docs/page.md", "")
	write(t, root, "docs/lectures/01-shop.md", "<!-- code: solutions/01-shop/shop.go#Open -->\n<!-- /code -->\n")
	err := Check(root)
	const want = "docs/lectures/01-shop.md:1: a lecture shows no solution, " +
		"since an editor that it is read in folds nothing: " +
		"link to it, as [the solution](../../solutions/01-shop/shop.go#Open)"
	if err == nil || err.Error() != want {
		t.Errorf("error\n  %v\nwant\n  %s", err, want)
	}
}

func TestCodeMarkerErrors(t *testing.T) {
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
			"outside the repository", "<!-- code: ../shop.go -->\n<!-- /code -->\n",
			"docs/page.md:1: ../shop.go is not a path from the root of the repository",
		},
		{
			"not closed", "<!-- code: solutions/01-shop/Makefile -->\ntext\n",
			"docs/page.md:1: this code is not closed: end it with <!-- /code -->",
		},
		{"not opened", "<!-- /code -->\n", "docs/page.md:1: <!-- /code --> without a <!-- code: file#name --> before it"},
		{
			"misspelt", "<!-- code solutions/01-shop/Makefile -->\n",
			"docs/page.md:1: write <!-- code: file#name --> in a line of its own, " +
				"the file's path from the root of the repository",
		},
		{
			"a table that does not exist", "<!-- table: prices -->\n<!-- /table -->\n",
			"docs/page.md:1: there is no table prices: there are blind-sets, checks, conformance, conformance-reasons, labs, " +
				"lectures, mutants, packages, runs, sizes, wings",
		},
		{
			"a diagram that does not exist", "<!-- diagram: prices -->\n<!-- /diagram -->\n",
			"docs/page.md:1: there is no diagram prices: there are wings",
		},
		{
			"a part of a named diagram", "<!-- diagram: wings#grading -->\n<!-- /diagram -->\n",
			"docs/page.md:1: the diagram wings has no parts: leave out #grading",
		},
		{
			"a page without diagrams", "<!-- diagram: docs/page.md -->\n<!-- /diagram -->\n",
			"docs/page.md:1: there is no diagram in docs/page.md",
		},
		{
			"a diagram below no heading", "# Ice\n<!-- diagram: docs/page.md#cream -->\n<!-- /diagram -->\n",
			"docs/page.md:2: docs/page.md has no heading #cream; it has ice",
		},
		{
			"a diagram of a page that does not exist", "<!-- diagram: docs/cream.md -->\n<!-- /diagram -->\n",
			"docs/page.md:1: there is no file docs/cream.md to show: no such file or directory",
		},
		{
			"a diagram that is closed as a table", "<!-- diagram: wings -->\n<!-- /table -->\n",
			"docs/page.md:2: the diagram of line 1 is not closed before this one: end it with <!-- /diagram -->\n" +
				"docs/page.md:1: this diagram is not closed: end it with <!-- /diagram -->",
		},
		{
			"a part of a table", "<!-- table: wings#grading -->\n<!-- /table -->\n",
			"docs/page.md:1: the table wings has no parts: leave out #grading",
		},
		{"a table without a name", "<!-- table -->\n", "docs/page.md:1: write <!-- table: name --> in a line of its own"},
		{
			"a table that is not closed", "<!-- table: labs -->\n<!-- /code -->\n",
			"docs/page.md:1: there is no list of labs to " +
				"make this table from: there is no labs/labs.yaml in ROOT: run this command in a clone of Operator Labs\n" +
				"docs/page.md:2: the table of line 1 is not closed before this one: end it with <!-- /table -->\n" +
				"docs/page.md:1: this table is not closed: end it with <!-- /table -->",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root, _ := repository(t)
			write(t, root, "docs/page.md", test.page)
			err := Check(root)
			if want := strings.ReplaceAll(test.want, "ROOT", root); err == nil || err.Error() != want {
				t.Errorf("error\n  %v\nwant\n  %s", err, want)
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
		"[fine](docs/guide.md#its-heading) [here](#a-thing-twice-1) ![picture](docs/p.png) "+
		"[folder](docs) <https://example.com/none>\n"+
		"[site](https://example.com/none#x), `[code](none.md)`\n\n```\n[fenced](none.md)\n```\n\n"+
		"| table |\n|---|\n| [gone](gone.md) |\n\n"+
		"words [no heading](docs/guide.md#nowhere)\nand [ref][ref]\n\n[ref]: docs/none.md\n")
	write(t, root, "docs/guide.md", "# Its heading\n\n[up](../README.md) [out](../../x.md) [root](/README.md)\n"+
		"[line](../main.go#L12)\n"+
		"[Sell](../main.go#Sell) [till](../main.go#till) [Buy](../main.go#Buy)\n[all](../docs#all)\n")
	write(t, root, "docs/p.png", "")
	write(t, root, "main.go", "package main\n\n//lab:begin till\nfunc Sell() {}\n\n//lab:end\n")
	err := CheckLinks(root)
	want := []string{
		"README.md:16: gone.md is a dead link: there is no gone.md",
		"README.md:18: docs/guide.md#nowhere is a dead link: docs/guide.md has no heading #nowhere; " +
			"its headings are #its-heading",
		"README.md:19: docs/none.md is a dead link: there is no docs/none.md",
		"docs/guide.md:3: ../../x.md points outside the repository",
		"docs/guide.md:3: /README.md begins with a slash, which resolves differently on each site: " +
			"write the path from this page's folder",
		"docs/guide.md:4: ../main.go#L12 names a line, which moves: name a declaration or a region of main.go",
		"docs/guide.md:5: ../main.go#Buy is a dead link: main.go declares no Buy, nor has it such a region; it has Sell",
		"docs/guide.md:6: ../docs#all has an anchor, and docs is a folder",
	}
	if err == nil {
		t.Fatal("no dead link found")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Without a link, readers find a term only by browsing the glossary.
func TestPageLinksToGlossaryTerms(t *testing.T) {
	t.Parallel()
	const repository, glossary = "../../..", "docs/reference/glossary.md"
	pages, err := Pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	linked, terms := map[string]bool{}, []string(nil)
	for _, page := range pages {
		content, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		if page == glossary { // Links within the glossary help only its readers.
			terms = manifest.Anchors(content)[1:]
			continue
		}
		for _, link := range linksOf(content) {
			if to, term, _ := strings.Cut(link.target, "#"); path.Join(path.Dir(page), to) == glossary {
				linked[term] = true
			}
		}
	}
	if len(terms) == 0 {
		t.Error("the glossary has no terms: is the search wrong?")
	}
	for _, term := range terms {
		if !linked[term] {
			t.Errorf("no page links to %s#%s: link to it where a lecture first uses the term", glossary, term)
		}
	}
}
