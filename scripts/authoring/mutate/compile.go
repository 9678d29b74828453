// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/packages"
)

// compiled is the content of a file with which its package compiles. Where a change only leaves imports or variables
// unused, as no programmer would leave them, they get a use. Any other content that does not compile is nil.
func compiled(set *token.FileSet, pkg *packages.Package, path string, content []byte) []byte {
	for {
		file, err := parser.ParseFile(set, path, content, parser.SkipObjectResolution)
		if err != nil {
			return nil
		}
		unused, compiles := check(set, pkg, file)
		if compiles && len(unused) == 0 {
			return content
		}
		uses := map[int]string{} // by their offsets
		if compiles {
			uses = use(set, file, unused)
		}
		if len(uses) == 0 {
			return nil
		}
		for _, offset := range slices.Backward(slices.Sorted(maps.Keys(uses))) {
			content = slices.Concat(content[:offset], []byte(uses[offset]), content[offset:])
		}
	}
}

// check type-checks a package with a file in the place of the one of the same name. It compiles, but for imports and
// variables that are unused.
func check(set *token.FileSet, pkg *packages.Package, changed *ast.File) (unused []token.Pos, compiles bool) {
	files := slices.Clone(pkg.Syntax)
	for i, file := range files {
		if set.File(file.Pos()).Name() == set.File(changed.Pos()).Name() {
			files[i] = changed
		}
	}
	compiles = true
	config := types.Config{
		Importer: importer(pkg.Imports), GoVersion: "go" + pkg.Module.GoVersion,
		Error: func(err error) {
			var problem types.Error
			if errors.As(err, &problem) && problem.Soft {
				unused = append(unused, problem.Pos)
				return
			}
			compiles = false
		},
	}
	_, _ = config.Check(pkg.PkgPath, set, files, nil) // config.Error has received the error
	return unused, compiles
}

// use returns what to insert so that imports and variables are used.
func use(set *token.FileSet, file *ast.File, unused []token.Pos) map[int]string {
	uses := map[int]string{}
	variable := func(n ast.Expr, at token.Pos, form string) {
		if name, ok := n.(*ast.Ident); ok && slices.Contains(unused, name.Pos()) {
			uses[set.Position(at).Offset] += fmt.Sprintf(form, name.Name)
		}
	}
	// What is declared in the head of a statement is used where its body begins.
	head := func(statement ast.Stmt, body *ast.BlockStmt) {
		if n, ok := statement.(*ast.AssignStmt); ok {
			for _, left := range n.Lhs {
				variable(left, body.Lbrace+1, " _ = %s;")
			}
		}
	}
	block := func(statements []ast.Stmt) {
		for _, statement := range statements {
			switch n := statement.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					variable(left, n.End(), "; _ = %s")
				}
			case *ast.DeclStmt:
				for _, spec := range n.Decl.(*ast.GenDecl).Specs {
					if value, ok := spec.(*ast.ValueSpec); ok {
						for _, name := range value.Names {
							variable(name, n.End(), "; _ = %s")
						}
					}
				}
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			if slices.Contains(unused, n.Pos()) && n.Name == nil {
				uses[set.Position(n.Pos()).Offset] = "_ "
			}
			if n.Name != nil && slices.Contains(unused, n.Pos()) {
				// A name can't be replaced by an insertion: the package is imported once more, and this import commented out.
				uses[set.Position(n.Pos()).Offset] = "_ " + n.Path.Value + " //"
			}
		case *ast.BlockStmt:
			block(n.List)
		case *ast.CaseClause:
			block(n.Body)
		case *ast.IfStmt:
			head(n.Init, n.Body)
		case *ast.ForStmt:
			head(n.Init, n.Body)
		case *ast.RangeStmt:
			variable(n.Key, n.Body.Lbrace+1, " _ = %s;")
			variable(n.Value, n.Body.Lbrace+1, " _ = %s;")
		}
		return true
	})
	return uses
}
