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

// compiled returns the content of a file in a form in which its package compiles. If a change only leaves imports or
// variables unused, which no programmer would do, compiled adds a use of them. It returns nil for any other content
// that does not compile.
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
		uses := map[int]string{} // by offset
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

// check type-checks a package in which a file replaces the file of the same name. compiles is true if the only errors
// are unused imports and variables.
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

// use returns the insertions, by offset, that use the unused imports and variables.
func use(set *token.FileSet, file *ast.File, unused []token.Pos) map[int]string {
	uses := map[int]string{}
	variable := func(n ast.Expr, pos token.Pos, form string) {
		if name, ok := n.(*ast.Ident); ok && slices.Contains(unused, name.Pos()) {
			uses[set.Position(pos).Offset] += fmt.Sprintf(form, name.Name)
		}
	}
	// Variables that the head of a statement declares are used at the beginning of its body.
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
				// An insertion can't replace a name. Instead it imports the package once more, and comments out this import.
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
