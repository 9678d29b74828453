// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package bench

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// Match returns an error if the expression of --only matches no benchmark of the checkout at root. Without this check,
// go test would run no benchmark, and succeed.
func Match(root, only string) error {
	// The part after a slash selects sub-benchmarks.
	wanted, _, _ := strings.Cut(only, "/")
	expression, err := regexp.Compile(wanted)
	if err != nil {
		return fmt.Errorf("--only %s is not a regular expression: %w", only, err)
	}
	files, err := filepath.Glob(filepath.Join(root, "scripts", "proving", "bench", "*_test.go"))
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("looking for benchmarks: %w", err)
		}
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(function.Name.Name, "Benchmark") {
				continue
			}
			if expression.MatchString(function.Name.Name) {
				return nil
			}
			names = append(names, function.Name.Name)
		}
	}
	return fmt.Errorf("no benchmark matches --only %s: there are %s", only, strings.Join(names, ", "))
}
