// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"lva.io/operators/scripts/checkout/manifest"
)

// CheckLinks follows the links of all pages that stay in the repository. Each must point to a file or folder, and each
// #anchor to a heading, or to a declaration or region of a file with code. The error lists all dead links, each as a
// *Problem.
func CheckLinks(root string) error {
	pages, err := Pages(root)
	if err != nil {
		return err
	}
	anchors := map[string][]string{} // by page, so that each is read once
	var problems []error
	for _, page := range pages {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		if err != nil {
			return err
		}
		for _, link := range linksOf(content) {
			message, err := follow(root, page, link.target, anchors)
			if err != nil {
				return err
			}
			if message != "" {
				problems = append(problems, &Problem{Page: page, Line: link.line, Message: message})
			}
		}
	}
	return errors.Join(problems...)
}

type link struct {
	target string
	line   int
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()

// linksOf finds the links and pictures of a page.
func linksOf(page []byte) []link {
	var links []link
	document := markdown.Parse(text.NewReader(page))
	// The walk's only source of errors is the function given to it, which returns none.
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Link:
			links = append(links, link{string(n.Destination), lineOf(page, n)})
		case *ast.Image:
			links = append(links, link{string(n.Destination), lineOf(page, n)})
		}
		return ast.WalkContinue, nil
	})
	return links
}

// lineOf returns the line of a link's text. If the link has no text, it returns the line of the paragraph. The parser
// keeps no position for the link itself.
func lineOf(page []byte, node ast.Node) int {
	start := -1
	_ = ast.Walk(node, func(child ast.Node, entering bool) (ast.WalkStatus, error) {
		if words, ok := child.(*ast.Text); ok && entering && start < 0 {
			start = words.Segment.Start
		}
		return ast.WalkContinue, nil
	})
	for n := node; start < 0 && n != nil; n = n.Parent() {
		if n.Type() == ast.TypeBlock && n.Lines() != nil && n.Lines().Len() > 0 {
			start = n.Lines().At(0).Start
		}
	}
	return strings.Count(string(page[:max(start, 0)]), "\n") + 1
}

var lineAnchor = regexp.MustCompile(`^L\d+`)

// follow returns a description of what is wrong with a link, or an empty string.
func follow(root, page, target string, anchors map[string][]string) (string, error) {
	parsed, err := url.Parse(target)
	if err != nil {
		return fmt.Sprintf("%s is not a link: %v", target, err), nil
	}
	if parsed.Scheme != "" || parsed.Host != "" {
		return "", nil
	}
	if strings.HasPrefix(parsed.Path, "/") {
		return fmt.Sprintf("%s begins with a slash, which resolves differently on each site: "+
			"write the path from this page's folder", target), nil
	}
	to := page
	if parsed.Path != "" {
		to = path.Join(path.Dir(page), parsed.Path)
	}
	if !filepath.IsLocal(filepath.FromSlash(to)) {
		return fmt.Sprintf("%s points outside the repository", target), nil
	}
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(to)))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("%s is a dead link: there is no %s", target, to), nil
	case err != nil:
		return "", fmt.Errorf("following %s of %s: %w", target, page, err)
	case parsed.Fragment == "":
		return "", nil
	case info.IsDir():
		return fmt.Sprintf("%s has an anchor, and %s is a folder", target, to), nil
	case lineAnchor.MatchString(parsed.Fragment):
		return fmt.Sprintf("%s names a line, which moves: name a declaration or a region of %s", target, to), nil
	case path.Ext(to) != ".md":
		if _, err := show(root, to, parsed.Fragment); err != nil {
			return fmt.Sprintf("%s is a dead link: %v", target, err), nil
		}
		return "", nil
	}
	if _, known := anchors[to]; !known {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(to)))
		if err != nil {
			return "", err
		}
		anchors[to] = manifest.Anchors(content)
	}
	if !slices.Contains(anchors[to], parsed.Fragment) {
		return fmt.Sprintf("%s is a dead link: %s has no heading #%s; its headings are #%s", target, to, parsed.Fragment,
			strings.Join(anchors[to], ", #")), nil
	}
	return "", nil
}
