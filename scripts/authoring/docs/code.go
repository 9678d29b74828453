// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/authoring/skeleton"
)

// show returns the lines of a file, given by its path from the root, that a page shows: the whole file or a named part.
func show(root, name, part string) ([]string, error) {
	content, err := read(root, name)
	if err != nil {
		return nil, err
	}
	source, err := skeleton.Parse(name, content)
	if err != nil {
		return nil, err
	}
	if part == "" {
		return tidied(source.SolutionLines(1, source.Len())), nil
	}
	for _, region := range source.Regions {
		if region.Name == part {
			return tidied(source.SolutionLines(region.Begin, region.End)), nil
		}
	}
	if path.Ext(name) != ".go" {
		return nil, fmt.Errorf("%s has no region %s%s", name, part, others(regionNames(source)))
	}
	from, to, err := declaration(name, content, part)
	if err != nil {
		return nil, err
	}
	return tidied(source.SolutionLines(from, to)), nil
}

// read returns the content of a file, given by its path from the root, that a page shows.
func read(root, name string) ([]byte, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, fmt.Errorf("%s is not a path from the root of the repository", name)
	}
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("there is no file %s to show: %w", name, errors.Unwrap(err))
	}
	return content, nil
}

func regionNames(source *skeleton.Source) []string {
	var names []string
	for _, region := range source.Regions {
		names = append(names, region.Name)
	}
	return names
}

// others returns the end of an error about an unknown name: a list of the known names.
func others(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; it has " + strings.Join(names, ", ")
}

// declaration finds the first and last line of a Go declaration with its doc comment.
func declaration(name string, content []byte, wanted string) (from, to int, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil {
		return 0, 0, fmt.Errorf("reading Go: %w", err)
	}
	var names, found []string
	for _, d := range parsed.Decls {
		own, doc := declared(d)
		names = append(names, own...)
		i := slices.IndexFunc(own, func(name string) bool {
			return name == wanted || strings.HasSuffix(name, "."+wanted)
		})
		if i < 0 {
			continue
		}
		found = append(found, own[i])
		from, to = files.Position(d.Pos()).Line, files.Position(d.End()).Line
		if doc != nil {
			from = files.Position(doc.Pos()).Line
		}
	}
	switch len(found) {
	case 0:
		return 0, 0, fmt.Errorf("%s declares no %s, nor has it such a region%s", name, wanted, others(names))
	case 1:
		return from, to, nil
	default:
		return 0, 0, fmt.Errorf("%s declares %s: name one of them", name, strings.Join(found, ", "))
	}
}

// declared returns the names that a declaration declares, methods as Type.Method, and its doc comment.
func declared(declaration ast.Decl) (names []string, doc *ast.CommentGroup) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil && len(d.Recv.List) == 1 {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		return []string{name}, d.Doc
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			}
		}
		return names, d.Doc
	}
	return nil, nil
}

func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// tidied removes empty lines at both ends and the indentation that all lines have.
func tidied(lines []string) []string {
	blank := func(line string) bool { return strings.TrimSpace(line) == "" }
	for len(lines) > 0 && blank(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && blank(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	indentation, first := "", true
	for _, line := range lines {
		if blank(line) {
			continue
		}
		own := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if first {
			indentation, first = own, false
		}
		for !strings.HasPrefix(own, indentation) {
			indentation = indentation[:len(indentation)-1]
		}
	}
	var tidy []string
	for _, line := range lines {
		tidy = append(tidy, strings.TrimRight(strings.TrimPrefix(line, indentation), " \t"))
	}
	return tidy
}

// language returns the language of a code block for this file, for syntax highlighting.
func language(name string) string {
	switch path.Ext(name) {
	case ".go":
		return "go"
	case ".yaml", ".yml":
		return "yaml"
	case ".json":
		return "json"
	case ".md":
		return "markdown"
	case ".mod", ".work":
		return "text"
	}
	switch path.Base(name) {
	case "Makefile":
		return "makefile"
	case "Dockerfile":
		return "dockerfile"
	case "PROJECT":
		return "yaml"
	}
	return "text"
}
