// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package browser

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"lva.io/operators/scripts/authoring/docs"
	"lva.io/operators/scripts/checkout/manifest"
)

// document has the links of a page of the site, and the anchors that others can link to.
type document struct {
	links, loads []string
	ids          map[string]bool
}

func readDocument(t *testing.T, file string) document {
	t.Helper()
	content, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	root, err := html.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	found := document{ids: map[string]bool{}}
	for node := range root.Descendants() {
		for _, attribute := range node.Attr {
			switch {
			case attribute.Key == "id":
				found.ids[attribute.Val] = true
			case attribute.Key == "href" && node.Data == "a":
				found.links = append(found.links, attribute.Val)
			case node.Type == html.ElementNode && (attribute.Key == "src" || attribute.Key == "href" && node.Data == "link"):
				found.loads = append(found.loads, attribute.Val)
			}
		}
	}
	return found
}

// Every link of an HTML page points either to an existing page and anchor of the site, or to another host. All files
// that a page loads are in the site.
func TestSiteHasNoDeadLinks(t *testing.T) {
	t.Parallel()
	site := os.DirFS(builtSite(t))
	documents := map[string]document{}
	err := fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) == ".html" && name != "404.html" {
			documents[name] = readDocument(t, filepath.Join(siteFolder, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, document := range documents {
		for _, load := range document.loads {
			if strings.HasPrefix(load, "data:") {
				continue
			}
			if _, err := fs.Stat(site, path.Join(path.Dir(name), load)); err != nil ||
				strings.Contains(load, ":") || strings.HasPrefix(load, "/") {
				t.Errorf("%s loads %s, which is not in the site", name, load)
			}
		}
		for _, link := range document.links {
			target, err := url.Parse(link)
			switch {
			case err != nil:
				t.Errorf("%s links to %s: %v", name, link, err)
				continue
			case target.Scheme != "":
				continue
			case strings.HasPrefix(target.Path, "/"):
				t.Errorf("%s links to %s, which is wrong if the site is below a path", name, link)
				continue
			}
			to := name
			if target.Path != "" {
				to = path.Join(path.Dir(name), target.Path)
				if strings.HasSuffix(target.Path, "/") {
					to = path.Join(to, "index.html")
				}
			}
			linked, ok := documents[to]
			if !ok {
				t.Errorf("%s links to %s, but there is no %s", name, link, to)
			} else if target.Fragment != "" && !linked.ids[target.Fragment] {
				t.Errorf("%s links to %s, but %s has no such heading", name, link, to)
			}
			checked++
		}
	}
	if checked < 5000 {
		t.Errorf("the site has %d links, want those of the lists of pages and of the texts", checked)
	}
}

// Reports and the pages on GitHub link to headings by the anchors that GitHub generates. The site must have the same
// anchors.
func TestSiteHasAnchorsOfGitHub(t *testing.T) {
	t.Parallel()
	site := builtSite(t)
	pages, err := docs.Pages("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if strings.HasPrefix(page, "solutions/") ||
			strings.HasPrefix(page, "docs/slides/") || strings.HasPrefix(page, "docs/site/") {
			continue
		}
		content, err := os.ReadFile(filepath.Join("../../..", page))
		if err != nil {
			t.Fatal(err)
		}
		file := strings.TrimSuffix(page, ".md") + ".html"
		if dir := path.Dir(page); path.Base(page) == "README.md" && dir != "." {
			file = path.Join(dir, "index.html")
		}
		anchors, ids := manifest.Anchors(content), readDocument(t, filepath.Join(site, file)).ids
		missing := slices.DeleteFunc(anchors, func(anchor string) bool { return ids[anchor] })
		if len(missing) > 0 {
			t.Errorf("%s has no #%s", file, strings.Join(missing, ", #"))
		}
	}
}
