// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifest

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	markdown "github.com/yuin/goldmark/util"
)

// CheckLinks loads the manifest and follows its links: each lecture is a file below the root, and each #anchor a
// heading in it. The error lists all dead links.
func CheckLinks(root string) error {
	manifest, err := Load(root)
	if err != nil {
		return err
	}
	data, err := read(root, File)
	if err != nil {
		return err
	}
	where, err := newPositions(data)
	if err != nil {
		return err
	}
	var found problems
	anchors := map[string][]string{} // by file, so that each is read once
	check := func(at []string, link string) {
		file, anchor, hasAnchor := strings.Cut(link, "#")
		if !filepath.IsLocal(filepath.FromSlash(file)) {
			found.add(where, at, "%s points outside the repository; name a file below its root", file)
			return
		}
		if _, ok := anchors[file]; !ok {
			page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				found.add(where, at, "there is no file %s; write it or fix the link", file)
				return
			case err != nil:
				found.add(where, at, "%v", err)
				return
			}
			anchors[file] = Anchors(page)
		}
		if hasAnchor && !slices.Contains(anchors[file], anchor) {
			found.add(where, at, "%s has no heading #%s; its headings are #%s", file, anchor, strings.Join(anchors[file], ", #"))
		}
	}
	for i, lab := range manifest.Labs {
		check(path("labs", i, "lecture"), lab.Lecture)
		for j, c := range lab.Own() {
			check(path("labs", i, "checks", j, "lecture"), c.Lecture)
		}
		if own := lab.OwnTests(); own != nil {
			check(path("labs", i, "tests", "points"), own.Lecture)
		}
	}
	return found.err()
}

// Anchors returns the anchors of the headings of a Markdown page, in their order, as GitHub generates them: the
// heading's text in lower case, without punctuation, spaces as hyphens, and -1, -2 … if a name was used before. (This
// is the rule of the table of contents filter in GitHub's html-pipeline.)
func Anchors(page []byte) []string {
	var anchors []string
	seen := map[string]int{}
	document := goldmark.DefaultParser().Parse(text.NewReader(page))
	// The walk's only source of errors is the function given to it, which returns none.
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if heading, ok := node.(*ast.Heading); ok && entering {
			name := slug(headingText(heading, page))
			anchor := name
			if n := seen[name]; n > 0 {
				anchor = fmt.Sprintf("%s-%d", name, n)
			}
			seen[name]++
			anchors = append(anchors, anchor)
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return anchors
}

// headingText returns what a reader sees of a heading, without the marks of emphasis, code and links.
func headingText(heading ast.Node, page []byte) string {
	var seen strings.Builder
	_ = ast.Walk(heading, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Text:
			value := node.Segment.Value(page)
			if node.Parent().Kind() == ast.KindCodeSpan {
				seen.Write(value)
			} else {
				seen.WriteString(html.UnescapeString(string(markdown.UnescapePunctuations(value))))
			}
			if node.SoftLineBreak() || node.HardLineBreak() {
				seen.WriteByte(' ')
			}
		case *ast.String:
			seen.Write(node.Value)
		case *ast.AutoLink:
			seen.Write(node.Label(page))
		}
		return ast.WalkContinue, nil
	})
	return seen.String()
}

func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
}
