// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// source is a file of the solution, and the mutants that are generated from it.
type source struct {
	set     *token.FileSet
	file    *token.File
	syntax  *ast.File
	info    *types.Info
	content []byte
	name    string
	regions bool              // only solutions of tasks are changed
	texts   map[ast.Node]bool // nodes that only people read

	declared []declared
	mutants  []Mutant
}

// declared is a function, a type or a field, with its comment.
type declared struct {
	from, to int
	name     string
}

func (s *source) offset(p token.Pos) int { return s.file.Offset(p) }

// text returns the code of a node.
func (s *source) text(n ast.Node) string {
	return string(s.content[s.offset(n.Pos()):s.offset(n.End())])
}

// replace adds a mutant in which some code replaces a node. Empty code removes the node.
func (s *source) replace(operator Operator, n ast.Node, text string) {
	s.replaceRange(operator, n.Pos(), n.End(), text)
}

func (s *source) replaceRange(operator Operator, from, to token.Pos, text string) {
	s.replaceOffsets(operator, s.offset(from), s.offset(to), text)
}

func (s *source) replaceOffsets(operator Operator, offset, end int, text string) {
	was := string(s.content[offset:end])
	if was == text || s.regions && s.region(offset) != "begin" {
		return
	}
	before := was
	if !operator.ofMarkers() {
		before = comment.ReplaceAllString(before, "")
	}
	s.mutants = append(s.mutants, Mutant{
		File: s.name, Line: 1 + bytes.Count(s.content[:offset], []byte("\n")),
		In: s.declarationAt(offset), Operator: operator,
		Before: oneLine(before), After: oneLine(text), offset: offset,
		original: s.content, content: slices.Concat(s.content[:offset], []byte(text), s.content[end:]),
	})
}

// declarationAt returns the name of the innermost declaration around an offset.
func (s *source) declarationAt(offset int) (name string) {
	for _, d := range s.declared {
		if d.from <= offset && offset < d.to {
			name = d.name // nested declarations come later
		}
	}
	return name
}

// declarations finds the declarations of the file.
func (s *source) declarations() {
	declare := func(n ast.Node, doc *ast.CommentGroup, name string) {
		from := n.Pos()
		if doc != nil {
			from = doc.Pos()
		}
		s.declared = append(s.declared, declared{s.offset(from), s.offset(n.End()), name})
	}
	for _, declaration := range s.syntax.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			declare(d, d.Doc, functionName(d))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					declare(spec, spec.Doc, spec.Names[0].Name)
				case *ast.TypeSpec:
					declare(d, d.Doc, spec.Name.Name)
					structure, ok := spec.Type.(*ast.StructType)
					for i := 0; ok && i < len(structure.Fields.List); i++ {
						field := structure.Fields.List[i]
						name := s.text(field.Type)
						if len(field.Names) > 0 {
							name = field.Names[0].Name
						}
						declare(field, field.Doc, spec.Name.Name+"."+name)
					}
				}
			}
		}
	}
}

func functionName(function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + function.Name.Name
	}
	return function.Name.Name
}

var (
	space   = regexp.MustCompile(`\s+`)
	comment = regexp.MustCompile(`(?m)(^|\s)//.*$`)
)

// oneLine returns code in a form that people can read in a list.
func oneLine(code string) string {
	const longest = 120
	code = strings.TrimSpace(space.ReplaceAllString(code, " "))
	if letters := []rune(code); len(letters) > longest {
		return string(letters[:longest-1]) + "…"
	}
	return code
}

// mark matches a line around the code that a student has to write.
var mark = regexp.MustCompile(`(?m)^\s*//lab:(begin|else|end)\b`)

// region returns the last marker before an offset. It is "begin" in the solution of a task, "else" in the skeleton's
// replacement, and otherwise "end" or empty.
func (s *source) region(offset int) (region string) {
	for _, found := range mark.FindAllSubmatchIndex(s.content, -1) {
		if found[0] > offset {
			break
		}
		region = string(s.content[found[2]:found[3]])
	}
	return region
}
