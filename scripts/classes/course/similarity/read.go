// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"path"
	"slices"
)

const (
	// maxBytes is the maximum number of bytes that are read of a document, the smallest files first. A lab has less than
	// 400 kB.
	maxBytes = 4 << 20
	// maxDepth is the depth of nested blocks up to which statements are put in order. Code that people write stays below
	// 10.
	maxDepth = 40
)

// unit is a declaration: the hashes of its tokens in their normal order, and the line of each in its file.
type unit struct {
	file   string
	tokens []uint64
	lines  []int32
}

// isGenerated reports whether a file is marked as generated. What follows its package clause need not parse.
func isGenerated(content []byte) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", content, parser.PackageClauseOnly|parser.ParseComments)
	return err == nil && ast.IsGenerated(file)
}

// read divides a document into its declarations, in their normal form. Files that do not parse are read as far as
// possible. Names in external are kept even where the document declares one of the same spelling.
func read(d Document, external map[string]bool) []unit {
	files := parse(d)
	own := ownNames(files)
	var units []unit
	for _, f := range files {
		f.name(own, external)
		units = append(units, f.units()...)
	}
	return units
}

// file is a parsed file.
type file struct {
	path    string
	content []byte
	set     *token.File
	ast     *ast.File
	broken  bool
	tokens  []tok
}

// tok is a token of a file. A hash of 0 means that the normal form omits the token.
type tok struct {
	at   int
	line int32
	kind token.Token
	hash uint64
}

func parse(d Document) []*file {
	paths := slices.SortedFunc(maps.Keys(d.Files), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(d.Files[a]), len(d.Files[b])), cmp.Compare(a, b))
	})
	var files []*file
	size := 0
	for _, name := range paths {
		content := d.Files[name]
		if path.Ext(name) != ".go" || isGenerated(content) {
			continue
		}
		if size += len(content); size > maxBytes {
			break
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution|parser.AllErrors)
		if parsed == nil {
			continue
		}
		f := &file{path: name, content: content, ast: parsed, broken: err != nil}
		f.scan()
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.path, b.path) })
	return files
}

// scan reads the tokens. Their offsets are those of the parser's file, because both sets hold one file.
func (f *file) scan() {
	set := token.NewFileSet()
	f.set = set.AddFile(f.path, 1, len(f.content))
	var s scanner.Scanner
	s.Init(f.set, f.content, func(token.Position, string) {}, 0)
	for {
		at, kind, _ := s.Scan()
		if kind == token.EOF {
			return
		}
		t := tok{at: int(at), line: int32(f.set.PositionFor(at, false).Line), kind: kind, hash: kindHash(kind)}
		switch {
		case kind == token.SEMICOLON:
			continue // An automatic semicolon or an explicit one.
		case kind.IsLiteral(), kind == token.ILLEGAL:
			t.hash = anything
		case kind == token.DEFINE:
			t.hash = kindHash(token.ASSIGN)
		case kind == token.RPAREN, kind == token.RBRACE, kind == token.RBRACK:
			if n := len(f.tokens); n > 0 && f.tokens[n-1].kind == token.COMMA {
				f.tokens = f.tokens[:n-1] // The last element of a multi-line list has a trailing comma.
			}
		}
		f.tokens = append(f.tokens, t)
	}
}

// anything replaces literals and names that the submission declares.
var anything = wordHash("v")

func kindHash(kind token.Token) uint64 { return mix(uint64(kind) + 1) }

// wordHash is the FNV-1a hash of the parts of a word, mixed.
func wordHash(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, part := range parts {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
	}
	return mix(h) | 1
}

// index returns the index of the first token at or after an offset.
func (f *file) index(at token.Pos) int {
	i, _ := slices.BinarySearchFunc(f.tokens, int(at), func(t tok, at int) int { return cmp.Compare(t.at, at) })
	return i
}

func (f *file) put(at token.Pos, hash uint64) {
	if i := f.index(at); i < len(f.tokens) && f.tokens[i].at == int(at) {
		f.tokens[i].hash = hash
	}
}

// units returns the declarations of the file, without imports and constants, which could as well be written where they
// are used.
func (f *file) units() (units []unit) {
	add := func(indices []int32) {
		if len(indices) == 0 {
			return
		}
		u := unit{file: f.path, tokens: make([]uint64, len(indices)), lines: make([]int32, len(indices))}
		for i, index := range indices {
			u.tokens[i], u.lines[i] = f.tokens[index].hash, f.tokens[index].line
		}
		units = append(units, u)
	}
	end := f.ast.Name.End()
	for _, decl := range f.ast.Decls {
		if f.broken {
			add(f.raw(nil, end, decl.Pos()))
		}
		end = max(end, decl.End())
		general, is := decl.(*ast.GenDecl)
		switch {
		case !is:
			add(f.ordered(decl, 0))
		case general.Tok == token.TYPE || general.Tok == token.VAR:
			for _, spec := range general.Specs {
				add(f.ordered(spec, 0))
			}
		}
	}
	if f.broken {
		add(f.raw(nil, end, token.Pos(len(f.content)+2)))
	}
	return units
}

// raw appends the indices of the tokens between two offsets.
func (f *file) raw(to []int32, from, until token.Pos) []int32 {
	for i := f.index(from); i < len(f.tokens) && f.tokens[i].at < int(until); i++ {
		if f.tokens[i].hash != 0 {
			to = append(to, int32(i))
		}
	}
	return to
}

// ordered returns the indices of a node's tokens, with the statements of each block ordered by their hashes, so that
// the original order does not matter. It does not check whether another order would mean the same, because the result
// only has to be equal for equal statements.
func (f *file) ordered(node ast.Node, depth int) []int32 {
	var out []int32
	at := node.Pos()
	if depth < maxDepth {
		for _, list := range statements(node) {
			if list[0].Pos() < at { // This happens only in code that does not parse.
				continue
			}
			out = f.raw(out, at, list[0].Pos())
			out = append(out, f.sorted(list, depth)...)
			at = list[len(list)-1].End()
		}
	}
	return f.raw(out, at, node.End())
}

// sorted returns the indices of a list of statements. The init statement of an if or a switch could as well precede it.
func (f *file) sorted(list []ast.Stmt, depth int) (out []int32) {
	type statement struct {
		hash    uint64
		indices []int32
	}
	all := make([]statement, 0, len(list))
	add := func(indices []int32) {
		h := uint64(0)
		for _, i := range indices {
			h = h*base + f.tokens[i].hash
		}
		all = append(all, statement{mix(h), indices})
	}
	for _, s := range list {
		first, rest := ast.Stmt(nil), token.NoPos
		switch s := s.(type) {
		case *ast.DeclStmt:
			if g, is := s.Decl.(*ast.GenDecl); is && g.Tok == token.CONST {
				continue
			}
		case *ast.IfStmt:
			if first = s.Init; s.Cond != nil {
				rest = s.Cond.Pos()
			}
		case *ast.SwitchStmt:
			if first = s.Init; s.Tag != nil {
				rest = s.Tag.Pos()
			} else {
				rest = s.Body.Pos()
			}
		}
		indices := f.ordered(s, depth+1)
		if first != nil && rest.IsValid() {
			// The keyword, the init statement and the rest. A function literal in the init statement keeps its position.
			from, to := int32(f.index(first.Pos())), int32(f.index(rest))
			add(slices.DeleteFunc(slices.Clone(indices), func(i int32) bool { return i < from || i >= to }))
			indices = slices.DeleteFunc(indices, func(i int32) bool { return i >= from && i < to })
		}
		add(indices)
	}
	slices.SortStableFunc(all, func(a, b statement) int { return cmp.Compare(a.hash, b.hash) })
	for _, s := range all {
		out = append(out, s.indices...)
	}
	return out
}

// statements returns the outermost lists of statements in a node, in order. None is empty.
func statements(node ast.Node) (lists [][]ast.Stmt) {
	add := func(list []ast.Stmt) {
		if len(list) > 0 {
			lists = append(lists, list)
		}
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			add(n.List)
			return false
		case *ast.CaseClause:
			for _, e := range n.List {
				ast.Inspect(e, visit)
			}
			add(n.Body)
			return false
		case *ast.CommClause:
			if n.Comm != nil {
				ast.Inspect(n.Comm, visit)
			}
			add(n.Body)
			return false
		}
		return true
	}
	ast.Inspect(node, visit)
	return lists
}
