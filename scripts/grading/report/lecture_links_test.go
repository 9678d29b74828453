// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

// lectureLinks returns a page's links to other pages, by their texts.
func lectureLinks(t *testing.T, dir string) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(dir, report.HTMLFile))
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]string{}
	for _, element := range elements(t, page) {
		if href := attribute(element, "href"); element.Data == "a" && !strings.HasPrefix(href, "#") {
			links[text(element)] = href
		}
	}
	return links
}

func TestPageLinksToLectures(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "a 100% checkout")
	lectures := filepath.Join(root, "docs", "lectures")
	if err := os.MkdirAll(lectures, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		filepath.Join(lectures, "03-finalizers.md"), filepath.Join(root, "secret.md"),
		filepath.Join(root, "docs", "page.html"),
	} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const shown = "docs/lectures/03-finalizers.md#the-finalizer-comes-first"
	r := finalizerFailed()
	for _, dir := range []string{"out/03-finalizer", "out/03-finalizer/verdict", "out/submissions/operator/03-finalizer"} {
		dir = filepath.Join(root, filepath.FromSlash(dir))
		if err := formats.Write(dir, r); err != nil {
			t.Fatal(err)
		}
		link, err := url.Parse(lectureLinks(t, dir)[shown])
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.FromSlash(link.Path))
		if want := filepath.Join(lectures, "03-finalizers.md"); link.IsAbs() || file != want ||
			link.Fragment != "the-finalizer-comes-first" {
			t.Errorf("in %s, the link is %q, which points to %s; want %s", dir, link, file, want)
		}
	}

	// If there are no lectures, or if a report names something else, the page has text and no link.
	for _, lecture := range []string{
		"secret.md", "docs/../secret.md", "../secret.md#x", "docs/page.html", "/etc/passwd.md", "docs/none.md",
		"docs/../../../../etc/hosts.md",
		"javascript:pwned=1//.md", "docs/javascript:pwned=1.md", attack,
	} {
		for i := range r.Checks {
			r.Checks[i].Lecture = lecture
		}
		dir := filepath.Join(root, "out", "hostile")
		if err := formats.Write(dir, r); err != nil {
			t.Fatal(err)
		}
		if links := lectureLinks(t, dir); len(links) > 0 {
			t.Errorf("a check with lecture %q has the links %q", lecture, links)
		}
	}
	elsewhere := t.TempDir()
	if err := formats.Write(elsewhere, finalizerFailed()); err != nil {
		t.Fatal(err)
	}
	if links := lectureLinks(t, elsewhere); len(links) > 0 {
		t.Errorf("a report outside the checkout has the links %q", links)
	}
}
