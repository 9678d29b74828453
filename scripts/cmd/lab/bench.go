// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
)

func benchCommand() *cobra.Command {
	var times, only string
	command := &cobra.Command{
		Use: "bench", GroupID: groupMaintainers, Short: "Measure the budgets of the design", Args: cli.NoArguments,
		Long: "bench measures the budgets of the design: medians and worst cases, " +
			"with envtest as the peer of the cluster's start.\n" +
			"Record the figures of a quiet machine in docs/benchmarks.md.",
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if err := anyBenchmark(filepath.Join(repo.Root, "scripts", "proving", "bench"), only); err != nil {
				return err
			}
			if _, err := repo.EnsureNode(command.Context()); err != nil {
				return err
			}
			return goTest(command.Context(), repo, "scripts",
				"-run=^$", "-bench="+only, "-benchtime="+times, "-timeout=60m", "./proving/bench")
		},
	}
	command.Flags().StringVar(&times, "times", "10x", "how often each is measured: a count, as 10x")
	command.Flags().StringVar(&only, "only", ".", "a regular expression for the benchmarks to run")
	return command
}

// anyBenchmark returns an error unless a benchmark of a folder matches the expression of --only. go test would run
// none, and succeed.
func anyBenchmark(folder, only string) error {
	// The part after a slash selects sub-benchmarks.
	wanted, _, _ := strings.Cut(only, "/")
	expression, err := regexp.Compile(wanted)
	if err != nil {
		return fmt.Errorf("--only %s is not a regular expression: %w", only, err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
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
