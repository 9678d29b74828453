// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// names are the names that a document declares.
type names struct {
	// top are names declared at the top level of any package, and members are names of methods and fields.
	top, members map[string]bool
	// folders are the folders of its packages.
	folders map[string]bool
}

func ownNames(files []*file) names {
	own := names{top: map[string]bool{}, members: map[string]bool{}, folders: map[string]bool{}}
	for _, f := range files {
		if dir := path.Dir(f.path); dir != "." {
			own.folders[dir] = true
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					own.top[d.Name.Name] = true
				} else {
					own.members[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						own.top[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range s.Names {
							own.top[name.Name] = true
						}
					}
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				addNames(own.members, n.Fields)
			case *ast.InterfaceType:
				addNames(own.members, n.Methods)
			}
			return true
		})
	}
	return own
}

func addNames(to map[string]bool, fields *ast.FieldList) {
	if fields == nil {
		return
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			to[name.Name] = true
		}
	}
}

// isOwn reports whether an import is one of the document's packages.
func (n names) isOwn(importPath string) bool {
	for dir := range n.folders {
		if strings.HasSuffix(importPath, "/"+dir) {
			return true
		}
	}
	return false
}

// externalNames returns the names that documents select but do not declare: fields and methods of other modules.
func externalNames(docs []Document) map[string]bool {
	external := map[string]bool{}
	for _, d := range docs {
		files := parse(d)
		own := ownNames(files)
		for _, f := range files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if s, is := n.(*ast.SelectorExpr); is && !own.top[s.Sel.Name] && !own.members[s.Sel.Name] {
					external[s.Sel.Name] = true
				}
				return true
			})
		}
	}
	return external
}

// name gives identifiers their normal form. Identifiers that it does not reach, in code that does not parse, become the
// token for anything.
func (f *file) name(own names, external map[string]bool) {
	for i := range f.tokens {
		if f.tokens[i].kind == token.IDENT {
			f.tokens[i].hash = anything
		}
	}
	imports := map[string]string{}
	for _, spec := range f.ast.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if spec.Name != nil {
			imports[spec.Name.Name] = importPath
			continue
		}
		// Most packages are named after the last part of their path, or after the part before it if the last one is a
		// version.
		name := path.Base(importPath)
		imports[name] = importPath
		if version.MatchString(name) {
			imports[path.Base(path.Dir(importPath))] = importPath
		}
	}
	for _, decl := range f.ast.Decls {
		n := namer{file: f, own: own, external: external, imports: imports, local: localNames(decl)}
		ast.Inspect(decl, n.visit)
	}
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// namer decides on the identifiers of one declaration.
type namer struct {
	file     *file
	own      names
	external map[string]bool
	imports  map[string]string
	// local holds the names that are declared within the declaration.
	local map[string]bool
}

func (n namer) visit(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.SelectorExpr:
		if x, is := node.X.(*ast.Ident); is && !n.local[x.Name] && n.imports[x.Name] != "" {
			n.selected(x, node.Sel, n.imports[x.Name])
			return false
		}
		n.file.put(node.Sel.Pos(), n.member(node.Sel.Name))
		ast.Inspect(node.X, n.visit)
		return false
	case *ast.CompositeLit:
		if node.Type != nil {
			ast.Inspect(node.Type, n.visit)
		}
		for _, element := range node.Elts {
			if pair, is := element.(*ast.KeyValueExpr); is {
				if key, is := pair.Key.(*ast.Ident); is && !n.local[key.Name] {
					n.file.put(key.Pos(), n.member(key.Name))
				} else {
					ast.Inspect(pair.Key, n.visit)
				}
				ast.Inspect(pair.Value, n.visit)
			} else {
				ast.Inspect(element, n.visit)
			}
		}
		return false
	case *ast.Ident:
		if !n.local[node.Name] && !n.own.top[node.Name] && types.Universe.Lookup(node.Name) != nil {
			n.file.put(node.Pos(), wordHash(node.Name))
		}
	}
	return true
}

// selected handles a name of a package. A name of one of the submission's own packages could as well be declared where
// it is used.
func (n namer) selected(qualifier, name *ast.Ident, importPath string) {
	if n.own.top[name.Name] && n.own.isOwn(importPath) {
		n.file.put(qualifier.Pos(), 0)
		if i := n.file.index(name.Pos()); i > 0 && i <= len(n.file.tokens) && n.file.tokens[i-1].kind == token.PERIOD {
			n.file.tokens[i-1].hash = 0
		}
		return
	}
	n.file.put(name.Pos(), wordHash(importPath, ".", name.Name))
}

// member returns the token of a field or a method. If the submission declares a member of that name, it is the token
// for anything, unless the name is known to belong to another module.
func (n namer) member(name string) uint64 {
	if !n.external[name] && (n.own.members[name] || n.own.top[name]) {
		return anything
	}
	return wordHash(".", name)
}

// localNames returns the parameters, variables, types and labels that are declared within a function.
func localNames(decl ast.Decl) map[string]bool {
	local := map[string]bool{}
	f, is := decl.(*ast.FuncDecl)
	if !is {
		return local
	}
	addNames(local, f.Recv)
	define := func(e ast.Expr) {
		if name, is := e.(*ast.Ident); is {
			local[name.Name] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			addNames(local, n.TypeParams)
			addNames(local, n.Params)
			addNames(local, n.Results)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					define(e)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				define(n.Key)
				define(n.Value)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.TypeSpec:
			local[n.Name.Name] = true
		case *ast.LabeledStmt:
			local[n.Label.Name] = true
		}
		return true
	})
	return local
}
