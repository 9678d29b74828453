// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// generatedCopies is the prefix of the names of the files into which `make generate` writes the code that copies types.
const generatedCopies = "zz_generated.deepcopy"

// copyNotices finds generated code that is older than its types: a copy of an object shares the fields that such code
// leaves out, so a change of the copy changes the original, which may be in the cache. The compiler reports files that
// can't be parsed.
func (b *Builder) copyNotices() (notices []string) {
	for _, folder := range b.sources.folders() {
		i := slices.IndexFunc(b.sources[folder], isGeneratedCopy)
		if i < 0 {
			continue
		}
		if what := b.uncopied(b.sources[folder]); what != "" {
			notices = append(notices, fmt.Sprintf("%s is older than the types, and leaves out %s, "+
				"which copies then share: run `make generate`", b.sources[folder][i], what))
		}
	}
	return notices
}

func isGeneratedCopy(name string) bool { return strings.HasPrefix(path.Base(name), generatedCopies) }

// uncopied returns the name of a field or a type that the generated code of a folder does not copy, or an empty string
// if it copies all.
func (b *Builder) uncopied(sources []string) string {
	// mentions holds the fields that each generated function names.
	mentions := map[string]map[string]bool{}
	types, handmade := map[string]ast.Expr{}, map[string]bool{}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		switch file := b.parse(name); {
		case file == nil:
		case isGeneratedCopy(name):
			for _, function := range copiers(file) {
				mentions[baseName(function.Recv.List[0].Type)] = selected(function.Body)
			}
		default:
			collect(file, types, handmade)
		}
	}
	known := map[string]bool{}
	for _, name := range sortedKeys(types) {
		structure, ok := types[name].(*ast.StructType)
		if !ok || mentions[name] == nil {
			continue
		}
		for _, field := range structure.Fields.List {
			local := types[baseName(field.Type)]
			_, isStruct := local.(*ast.StructType)
			for _, fieldName := range namesOf(field) {
				switch {
				case sharesMemory(field.Type, types) && !mentions[name][fieldName]:
					return name + "." + fieldName
				case isStruct && needsCopy(baseName(field.Type), types, known) &&
					mentions[baseName(field.Type)] == nil && !handmade[baseName(field.Type)]:
					return baseName(field.Type)
				}
			}
		}
	}
	return ""
}

func (b *Builder) parse(name string) *ast.File {
	content, err := b.ReadFile(name)
	if err != nil {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	return file
}

// copiers returns the methods DeepCopyInto of a file. Without a compiler's checks, a method may have no receiver and no
// body.
func copiers(file *ast.File) (found []*ast.FuncDecl) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Name.Name == "DeepCopyInto" && function.Recv != nil && len(function.Recv.List) == 1 &&
			function.Body != nil {
			found = append(found, function)
		}
	}
	return found
}

// selected returns the names of all fields and methods that a function selects.
func selected(body *ast.BlockStmt) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(body, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			names[selector.Sel.Name] = true
		}
		return true
	})
	return names
}

// collect adds the types of a file to types, and those with a handwritten DeepCopyInto to handmade.
func collect(file *ast.File, types map[string]ast.Expr, handmade map[string]bool) {
	for _, function := range copiers(file) {
		handmade[baseName(function.Recv.List[0].Type)] = true
	}
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok && spec.TypeParams == nil {
				types[spec.Name.Name] = spec.Type
			}
		}
	}
}

// maxNamed is the number of types that may be defined by one another, as in `type Menu Scoops`.
const maxNamed = 20

// sharesMemory reports whether copies of a field share memory unless the field is copied explicitly: a pointer, a slice
// or a map.
func sharesMemory(field ast.Expr, types map[string]ast.Expr) bool {
	for range maxNamed { // named types of named types, which may be a cycle
		name, ok := field.(*ast.Ident)
		if !ok || types[name.Name] == nil {
			break
		}
		field = types[name.Name]
	}
	switch field := field.(type) {
	case *ast.StarExpr, *ast.MapType:
		return true
	case *ast.ArrayType:
		return field.Len == nil
	}
	return false
}

// needsCopy reports whether a struct of the package has a field that copies would share, directly or in a nested
// struct. known holds its results.
func needsCopy(name string, types map[string]ast.Expr, known map[string]bool) bool {
	needs, ok := known[name]
	structure, isStruct := types[name].(*ast.StructType)
	if ok || !isStruct {
		return needs
	}
	known[name] = false // a struct that contains itself does not compile
	known[name] = slices.ContainsFunc(structure.Fields.List, func(field *ast.Field) bool {
		return sharesMemory(field.Type, types) || needsCopy(baseName(field.Type), types, known)
	})
	return known[name]
}

// baseName returns the name of a type of the same package without the types that wrap it: Icecream for []*Icecream.
func baseName(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.ArrayType:
		return baseName(e.Elt)
	case *ast.MapType:
		return baseName(e.Value)
	}
	return ""
}

// namesOf returns the names of a field. The name of an embedded field is that of its type.
func namesOf(field *ast.Field) []string {
	if len(field.Names) == 0 {
		return []string{baseName(field.Type)}
	}
	var names []string
	for _, name := range field.Names {
		names = append(names, name.Name)
	}
	return names
}

func sortedKeys(types map[string]ast.Expr) []string {
	var names []string
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
