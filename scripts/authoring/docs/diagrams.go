// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"lva.io/operators/scripts/checkout/manifest"
)

// diagrams are the diagrams that a page can have, by name. Each returns the lines of a Mermaid diagram.
var diagrams = map[string]func(l *layout) ([]string, error){
	"wings": wingDiagram,
}

// makeDiagram returns the lines of a diagram for a page.
func makeDiagram(l *layout, name, section string) ([]string, error) {
	draw, known := diagrams[name]
	switch {
	case path.Ext(name) == ".md":
		draw = func(l *layout) ([]string, error) { return diagramOf(l.root, name, section) }
	case !known:
		return nil, unknown("diagram", name, slices.Collect(maps.Keys(diagrams)))
	case section != "":
		return nil, noParts("diagram", name, section)
	}
	lines, err := draw(l)
	if err != nil {
		return nil, err
	}
	return block("mermaid", lines), nil
}

// diagramOf returns the lines of a page's first Mermaid diagram, or of the first one below a heading, which is given by
// its anchor.
func diagramOf(root, page, section string) ([]string, error) {
	content, err := read(root, page)
	if err != nil {
		return nil, err
	}
	anchors := manifest.Anchors(content)
	if section != "" && !slices.Contains(anchors, section) {
		return nil, fmt.Errorf("%s has no heading #%s%s", page, section, others(anchors))
	}
	var lines []string
	current := "" // the anchor of the last heading
	// The parser is that of Anchors, which has an anchor for each heading. The walk's only source of errors is the
	// function given to it, which returns none.
	document := goldmark.DefaultParser().Parse(text.NewReader(content))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Heading:
			current, anchors = anchors[0], anchors[1:]
		case *ast.FencedCodeBlock:
			if string(n.Language(content)) == "mermaid" && (section == "" || section == current) {
				diagram := strings.TrimRight(string(n.Lines().Value(content)), "\n")
				lines = strings.Split(diagram, "\n")
				return ast.WalkStop, nil
			}
		}
		return ast.WalkContinue, nil
	})
	if lines == nil {
		return nil, fmt.Errorf("there is no diagram in %s", strings.TrimSuffix(page+"#"+section, "#"))
	}
	return lines, nil
}
