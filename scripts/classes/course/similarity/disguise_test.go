// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/ast/astutil"
)

// disguises are changes that a student may make to a copy without understanding it. Each changes the parsed files of a
// document.
var disguises = []struct {
	name string
	// claimed disguises must not hide a copy. For the others, the page states their effect.
	claimed bool
	change  func(*copied)
}{
	{"rename", true, (*copied).rename},
	{"comments and format", true, (*copied).comment},
	{"move and split", true, (*copied).scatter},
	{"inline constants", true, (*copied).inline},
	{"name constants", true, (*copied).extract},
	{"swap statements", true, (*copied).swap},
	{"split if", true, (*copied).splitIf},
	{"all of these", true, func(c *copied) {
		c.splitIf()
		c.inline()
		c.swap()
		c.rename()
		c.scatter()
		c.comment()
	}},
	{"log lines", false, (*copied).chatter},
	{"all of these and log lines", false, func(c *copied) {
		c.splitIf()
		c.chatter()
		c.inline()
		c.swap()
		c.rename()
		c.scatter()
		c.comment()
	}},
}

// copied is a copy that is being disguised.
type copied struct {
	draw  *rand.Rand
	set   *token.FileSet
	files map[string]*ast.File
	own   names
	// remarks enables additional comments in the printed code.
	remarks bool
}

// disguise changes a copy of a document, drawn from a seed. It leaves out generated files.
func disguise(tb testing.TB, d Document, seed uint64, change func(*copied)) Document {
	tb.Helper()
	c := &copied{draw: rand.New(rand.NewPCG(seed, 1)), set: token.NewFileSet(), files: map[string]*ast.File{}}
	var parsed []*file
	for _, name := range slices.Sorted(maps.Keys(d.Files)) {
		content := d.Files[name]
		if path.Ext(name) != ".go" || isGenerated(content) {
			continue
		}
		f, err := parser.ParseFile(c.set, name, content, parser.SkipObjectResolution)
		if err != nil {
			tb.Fatal(err)
		}
		f.Comments = nil
		astutil.Apply(f, func(at *astutil.Cursor) bool {
			switch n := at.Node().(type) {
			case *ast.CommentGroup:
				at.Delete()
			case *ast.FuncDecl:
				n.Doc = nil
			case *ast.GenDecl:
				n.Doc = nil
			}
			return true
		}, nil)
		c.files[name] = f
		parsed = append(parsed, &file{path: name, ast: f})
	}
	c.own = ownNames(parsed)
	change(c)
	out := Document{Name: "copy of " + d.Name, Files: map[string][]byte{}}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		f := c.files[name]
		var b bytes.Buffer
		config := printer.Config{Mode: printer.TabIndent, Tabwidth: 1 + c.draw.IntN(8)}
		if err := config.Fprint(&b, c.set, f); err != nil {
			tb.Fatal(err)
		}
		content := b.Bytes()
		if c.remarks {
			content = c.remark(content)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, content, 0); err != nil {
			tb.Fatalf("the disguise %s does not parse: %v\n%s", name, err, content)
		}
		out.Files[name] = content
	}
	return out
}

// rename gives every name of the submission a new one, except methods and fields that other code may use.
func (c *copied) rename() {
	rename := map[string]string{}
	add := func(name string) {
		if name != "_" && name != "main" && name != "init" && types.Universe.Lookup(name) == nil && rename[name] == "" {
			rename[name] = fmt.Sprintf("%c%s%d", "qzxk"[c.draw.IntN(4)], strings.Repeat("u", c.draw.IntN(3)), len(rename))
			if ast.IsExported(name) {
				rename[name] = strings.ToUpper(rename[name][:1]) + rename[name][1:]
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.own.top)) {
		if !ast.IsExported(name) || !c.own.members[name] {
			add(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.own.members)) {
		if !ast.IsExported(name) {
			add(name)
		}
	}
	for _, f := range c.sorted() {
		for _, decl := range f.Decls {
			for _, name := range slices.Sorted(maps.Keys(localNames(decl))) {
				add(name)
			}
		}
	}
	for _, f := range c.sorted() {
		imports := map[string]string{}
		for _, spec := range f.Imports {
			importPath := strings.Trim(spec.Path.Value, `"`)
			if spec.Name == nil {
				imports[path.Base(importPath)] = importPath
			} else {
				imports[spec.Name.Name] = importPath
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.File:
				for _, decl := range n.Decls {
					ast.Inspect(decl, func(n ast.Node) bool { return c.renamed(n, rename, imports) })
				}
				return false
			}
			return true
		})
	}
}

func (c *copied) renamed(n ast.Node, rename, imports map[string]string) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.SelectorExpr:
		if x, is := n.X.(*ast.Ident); is && imports[x.Name] != "" {
			if c.own.isOwn(imports[x.Name]) && rename[n.Sel.Name] != "" {
				n.Sel.Name = rename[n.Sel.Name]
			}
			return false
		}
		if to := rename[n.Sel.Name]; to != "" && c.own.members[n.Sel.Name] {
			n.Sel = &ast.Ident{NamePos: n.Sel.NamePos, Name: to}
		}
		ast.Inspect(n.X, func(n ast.Node) bool { return c.renamed(n, rename, imports) })
		return false
	case *ast.KeyValueExpr:
		// A field of another module, or one that other code reads.
		if key, is := n.Key.(*ast.Ident); is && ast.IsExported(key.Name) {
			ast.Inspect(n.Value, func(n ast.Node) bool { return c.renamed(n, rename, imports) })
			return false
		}
	case *ast.Ident:
		if to := rename[n.Name]; to != "" && imports[n.Name] == "" {
			n.Name = to
		}
	}
	return true
}

// sorted returns the files in the order of their names, so that the same seed draws the same.
func (c *copied) sorted() (files []*ast.File) {
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		files = append(files, c.files[name])
	}
	return files
}

func (c *copied) comment() { c.remarks = true }

// remark adds comments and empty lines after lines on which a statement has just ended.
func (c *copied) remark(content []byte) []byte {
	var out strings.Builder
	raw := false
	for line := range strings.Lines(string(content)) {
		out.WriteString(line)
		raw = raw != (strings.Count(line, "`")%2 == 1)
		if text := strings.TrimSpace(line); raw ||
			!strings.HasSuffix(text, "{") && !strings.HasSuffix(text, "}") && !strings.HasSuffix(text, ")") {
			continue
		}
		switch c.draw.IntN(4) {
		case 0:
			fmt.Fprintf(&out, "// My own thought number %d.\n", c.draw.IntN(1000))
		case 1:
			out.WriteString("\n\n")
		}
	}
	return []byte(out.String())
}

// scatter puts the declarations of each package into another order and into other files.
func (c *copied) scatter() {
	packages := map[string][]*ast.File{}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		f := c.files[name]
		key := path.Dir(name) + " " + f.Name.Name + fmt.Sprint(strings.HasSuffix(name, "_test.go"))
		packages[key] = append(packages[key], f)
	}
	files := map[string]*ast.File{}
	for _, key := range slices.Sorted(maps.Keys(packages)) {
		parts := packages[key]
		var decls []ast.Decl
		imports := map[string]ast.Spec{}
		for _, f := range parts {
			for _, decl := range f.Decls {
				if g, is := decl.(*ast.GenDecl); is && g.Tok == token.IMPORT {
					for _, spec := range g.Specs {
						s := spec.(*ast.ImportSpec)
						name := s.Path.Value
						if s.Name != nil {
							name += " " + s.Name.Name
						}
						imports[name] = spec
					}
					continue
				}
				decls = append(decls, decl)
			}
		}
		c.draw.Shuffle(len(decls), func(i, j int) { decls[i], decls[j] = decls[j], decls[i] })
		const pieces = 3
		for i := range pieces {
			g := &ast.GenDecl{Tok: token.IMPORT, Lparen: 1, Rparen: 1}
			for _, name := range slices.Sorted(maps.Keys(imports)) {
				g.Specs = append(g.Specs, imports[name])
			}
			f := &ast.File{Name: parts[0].Name, Decls: []ast.Decl{g}}
			f.Decls = append(f.Decls, decls[i*len(decls)/pieces:(i+1)*len(decls)/pieces]...)
			dir, rest, _ := strings.Cut(key, " ")
			suffix := ".go"
			if strings.HasSuffix(rest, "true") {
				suffix = "_test.go"
			}
			files[path.Join(dir, fmt.Sprintf("%s%d%s",
				strings.TrimSuffix(strings.TrimSuffix(rest, "true"), "false"), i, suffix))] = f
		}
	}
	c.files = files
}

// TestDisguisesChangeSource: each disguise changes a real program, and after all of them a comparison of the raw tokens
// finds little.
func TestDisguisesChangeSource(t *testing.T) {
	t.Parallel()
	original := folderDocument(t, "solution", "solutions/02-reconciler")
	plain := disguise(t, original, 1, func(*copied) {})
	for _, d := range disguises {
		changed := disguise(t, original, 1, d.change)
		if maps.EqualFunc(plain.Files, changed.Files, bytes.Equal) {
			t.Errorf("%s changes nothing", d.name)
		}
		if again := disguise(t, original, 1, d.change); !maps.EqualFunc(changed.Files, again.Files, bytes.Equal) {
			t.Errorf("%s is not deterministic for the same seed", d.name)
		}
		if like := asWritten(plain, changed); d.name == "all of these" && like > 0.25 {
			t.Errorf("%s leaves %.2f of the source unchanged", d.name, like)
		}
	}
	if like := asWritten(plain, plain); like != 1 {
		t.Errorf("the test is wrong: asWritten() of the same program = %.2f, want 1", like)
	}
}

// asWritten returns the share of a's rows of tokens, without any normal form, that b also has.
func asWritten(a, b Document) float64 {
	set := func(d Document) map[uint64]bool {
		all := map[uint64]bool{}
		for name, content := range d.Files {
			f := &file{path: name, content: content}
			f.scan()
			tokens := make([]uint64, len(f.tokens))
			for i, tok := range f.tokens {
				end := len(content)
				if i+1 < len(f.tokens) {
					end = f.tokens[i+1].at - 1
				}
				text, _, _ := strings.Cut(string(content[tok.at-1:end]), "//")
				tokens[i] = wordHash(strings.TrimSpace(text))
			}
			for _, h := range rows(tokens) {
				all[h] = true
			}
		}
		return all
	}
	ofA, ofB, both := set(a), set(b), 0
	for h := range ofA {
		if ofB[h] {
			both++
		}
	}
	return float64(both) / float64(len(ofA))
}
