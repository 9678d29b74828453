// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/astutil"
)

// inline replaces constants with their values.
func (c *copied) inline() {
	values := map[string]*ast.BasicLit{}
	for _, f := range c.sorted() {
		ast.Inspect(f, func(n ast.Node) bool {
			if g, is := n.(*ast.GenDecl); is && g.Tok == token.CONST {
				for _, spec := range g.Specs {
					s := spec.(*ast.ValueSpec)
					if len(s.Names) == 1 && len(s.Values) == 1 {
						if value, is := s.Values[0].(*ast.BasicLit); is && !ast.IsExported(s.Names[0].Name) {
							values[s.Names[0].Name] = value
						}
					}
				}
			}
			return true
		})
	}
	for _, f := range c.sorted() {
		astutil.Apply(f, func(at *astutil.Cursor) bool {
			switch n := at.Node().(type) {
			case *ast.GenDecl:
				if n.Tok != token.CONST {
					return true
				}
				var kept []ast.Spec
				for _, spec := range n.Specs {
					if s := spec.(*ast.ValueSpec); len(s.Names) != 1 || values[s.Names[0].Name] == nil {
						kept = append(kept, spec)
					}
				}
				if n.Specs = kept; len(kept) == 0 {
					if at.Index() >= 0 {
						at.Delete()
					}
				}
				return false
			case *ast.DeclStmt:
				if g := n.Decl.(*ast.GenDecl); g.Tok == token.CONST && len(g.Specs) == 1 {
					if s := g.Specs[0].(*ast.ValueSpec); len(s.Names) == 1 && values[s.Names[0].Name] != nil && at.Index() >= 0 {
						at.Delete()
						return false
					}
				}
			case *ast.Ident:
				value := values[n.Name]
				if value == nil {
					return true
				}
				if at.Name() == "Sel" || at.Name() == "Names" || at.Name() == "Name" {
					return true
				}
				if _, isExpr := at.Parent().(ast.Expr); isExpr || at.Name() == "Rhs" || at.Name() == "Values" ||
					at.Name() == "Results" {
					at.Replace(&ast.BasicLit{ValuePos: n.NamePos, Kind: value.Kind, Value: value.Value})
				}
			}
			return true
		}, nil)
	}
}

// extract introduces constants for literals in arguments.
func (c *copied) extract() {
	for _, f := range c.sorted() {
		g := &ast.GenDecl{Tok: token.CONST, Lparen: 1, Rparen: 1}
		astutil.Apply(f, func(at *astutil.Cursor) bool {
			value, is := at.Node().(*ast.BasicLit)
			if _, call := at.Parent().(*ast.CallExpr); is && call && at.Name() == "Args" {
				name := fmt.Sprintf("constant%d%d", len(g.Specs), c.draw.IntN(1e6))
				at.Replace(&ast.Ident{NamePos: value.ValuePos, Name: name})
				g.Specs = append(g.Specs, &ast.ValueSpec{
					Names:  []*ast.Ident{ast.NewIdent(name)},
					Values: []ast.Expr{&ast.BasicLit{Kind: value.Kind, Value: value.Value}},
				})
			}
			return true
		}, nil)
		if len(g.Specs) > 0 {
			f.Decls = append(f.Decls, g)
		}
	}
}

// swap exchanges adjacent statements that have no name in common.
func (c *copied) swap() {
	for _, list := range c.blocks() {
		for round := range 4 {
			for i := round % 2; i+1 < len(*list); i++ {
				if a, b := (*list)[i], (*list)[i+1]; c.draw.IntN(3) > 0 && independent(a, b) {
					(*list)[i], (*list)[i+1] = b, a
				}
			}
		}
	}
}

func (c *copied) blocks() (lists []*[]ast.Stmt) {
	for _, f := range c.sorted() {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				lists = append(lists, &n.List)
			case *ast.CaseClause:
				lists = append(lists, &n.Body)
			}
			return true
		})
	}
	return lists
}

// independent reports whether two statements are assignments, calls or cases without a common variable name.
func independent(a, b ast.Stmt) bool {
	if _, is := a.(*ast.CaseClause); is {
		a, isA := a.(*ast.CaseClause)
		b, isB := b.(*ast.CaseClause)
		return isA && isB && a.List != nil && b.List != nil
	}
	seen := map[string]bool{}
	for i, s := range []ast.Stmt{a, b} {
		switch s.(type) {
		case *ast.AssignStmt, *ast.ExprStmt, *ast.IfStmt, *ast.DeclStmt, *ast.IncDecStmt:
		default:
			return false
		}
		common := false
		ast.Inspect(s, func(n ast.Node) bool {
			if sel, is := n.(*ast.SelectorExpr); is {
				ast.Inspect(sel.X, func(n ast.Node) bool {
					if name, is := n.(*ast.Ident); is {
						common = common || i == 1 && seen[name.Name] && !ast.IsExported(name.Name)
						seen[name.Name] = true
					}
					return true
				})
				return false
			}
			if name, is := n.(*ast.Ident); is && types.Universe.Lookup(name.Name) == nil && name.Name != "ctx" {
				common = common || i == 1 && seen[name.Name]
				seen[name.Name] = true
			}
			return true
		})
		if common {
			return false
		}
	}
	return true
}

// chatter adds a log line after every third statement.
func (c *copied) chatter() {
	for _, list := range c.blocks() {
		var out []ast.Stmt
		for _, s := range *list {
			out = append(out, s)
			switch s.(type) {
			case *ast.AssignStmt, *ast.ExprStmt, *ast.IfStmt:
			default:
				continue
			}
			if c.draw.IntN(3) == 0 {
				out = append(out, &ast.ExprStmt{X: &ast.CallExpr{
					Fun:  &ast.SelectorExpr{X: ast.NewIdent("logger"), Sel: ast.NewIdent("Info")},
					Args: []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: `"reached"`}},
				}})
			}
		}
		*list = out
	}
}

// splitIf moves the init statement of an if before it.
func (c *copied) splitIf() {
	for _, list := range c.blocks() {
		var out []ast.Stmt
		for _, s := range *list {
			if i, is := s.(*ast.IfStmt); is && i.Init != nil {
				out = append(out, i.Init)
				i.Init = nil
			}
			out = append(out, s)
		}
		*list = out
	}
}
