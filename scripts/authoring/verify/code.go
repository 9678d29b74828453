// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"

	"golang.org/x/tools/go/packages"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/authoring/docs"
	"lva.io/operators/scripts/checkout/command"
)

// sharedCache makes tools compile with the flags of our builds, so that they reuse what is compiled already.
var sharedCache = "GOFLAGS=-mod=readonly " + strings.Join(gobuild.Flags, " ")

var packageComments = Check{
	Name:     "package-comments",
	Sentence: "every package of scripts and clusters has a comment that states its purpose",
	Find: func(_ context.Context, r *Repository) ([]Finding, error) {
		folders, err := docs.Undocumented(r.Root)
		var findings []Finding
		for _, folder := range folders {
			findings = append(findings, Finding{Location: folder, Message: "no file has a package comment: write a doc.go"})
		}
		return findings, err
	},
}

var lint = Check{
	Name:     "lint",
	Sentence: "golangci-lint finds nothing in any module",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		var findings []Finding
		err := r.eachModuleWithCode(ctx, func(m module) error {
			packages, some := r.linted(m)
			if !some {
				return nil
			}
			err := r.golangci(ctx, m, append([]string{"run", "--allow-parallel-runners", "--color=never"}, packages...)...)
			output, failed := command.Output(err)
			if failed {
				findings = append(findings, Finding{Location: m.dir, Message: "golangci-lint found", Detail: output})
				return nil
			}
			return err
		})
		return findings, err
	},
	Fix: func(ctx context.Context, r *Repository) ([]string, error) {
		names, err := r.files(ctx)
		if err != nil {
			return nil, err
		}
		return r.changing(names, func() error {
			return r.eachModuleWithCode(ctx, func(m module) error {
				if isLab(m.dir) {
					return nil
				}
				err := r.golangci(ctx, m, "run", "--allow-parallel-runners", "--color=never", "--fix")
				// `make verify` reports the findings that it can't fix.
				if _, failed := command.Output(err); failed {
					return nil
				}
				return err
			})
		})
	},
}

// linted returns the packages of a module that the linter checks. No packages stand for all. some is false if there are
// none to check.
func (r *Repository) linted(m module) (packages []string, some bool) {
	if r.since == nil || r.since.Any(func(name string) bool {
		return name == ".golangci.yml" || name == "scripts/checkout/tools/go.mod" || name == m.dir+"/go.mod"
	}) {
		return nil, true
	}
	for _, folder := range r.since.Packages(m.dir) {
		packages = append(packages, "."+strings.TrimPrefix(folder, m.dir))
	}
	return packages, len(packages) > 0
}

func (r *Repository) golangci(ctx context.Context, m module, args ...string) error {
	if r.golangciLint == "" {
		return errors.New("golangci-lint is not built: that is a bug in the program that runs this check")
	}
	_, err := r.Runner.Run(ctx, r.path(m.dir), []string{sharedCache}, r.golangciLint, args...)
	return err
}

// eachModuleWithCode calls do for each module that has Go packages. It leaves out the modules of large programs by
// other authors.
func (r *Repository) eachModuleWithCode(ctx context.Context, do func(module) error) error {
	modules, err := r.modules()
	if err != nil {
		return err
	}
	for i, m := range modules {
		r.Progress("modules", i, len(modules))
		if isProgram(m) {
			continue
		}
		names, err := r.filesIn(ctx, m.dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if path.Ext(name) == ".go" && !isTestdata(name) {
				if err := do(m); err != nil {
					return fmt.Errorf("%s: %w", m.dir, err)
				}
				break
			}
		}
	}
	return nil
}

// otherSystems type-check our code and all its imports for systems that CI does not have. A compiler for another system
// would take ten times as long to report the same errors.
var otherSystems = []Check{
	typesFor("macos", "macOS on arm64", "GOOS=darwin", "GOARCH=arm64"),
	typesFor("linux-arm64", "Linux on arm64", "GOOS=linux", "GOARCH=arm64"),
}

// typesFor returns the type check for a system. In messages it is called system.
func typesFor(name, system string, environment ...string) Check {
	return Check{
		Name: name, Sentence: "the types of the control plane and of all commands are right for " + system,
		Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
			var findings []Finding
			err := r.eachModuleWithCode(ctx, func(m module) error {
				// A student compiles a lab on the machine that grades it, and a student's changes must not fail this check.
				if isLab(m.dir) || strings.HasPrefix(m.dir, "solutions/") {
					return nil
				}
				wrong, err := typeErrors(ctx, r.path(m.dir), environment...)
				if len(wrong) > 0 {
					findings = append(findings, Finding{
						Location: m.dir,
						Message:  fmt.Sprintf("does not compile for %s (%s)", system, strings.Join(environment, " ")),
						Detail:   strings.Join(wrong, "\n"),
					})
				}
				return err
			})
			return findings, err
		},
	}
}

// typeErrors returns the errors of a compiler for another system, in a module's packages and in all that they import.
func typeErrors(ctx context.Context, dir string, system ...string) (wrong []string, err error) {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir, Env: append(gobuild.Environment(), system...), BuildFlags: gobuild.Flags,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedModule,
		ParseFile: func(files *token.FileSet, name string, content []byte) (*ast.File, error) {
			return parser.ParseFile(files, name, content, parser.SkipObjectResolution) // comments are left out to save memory
		},
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("loading the packages of %s: %w", dir, err)
	}
	packages.Visit(loaded, nil, func(pkg *packages.Package) {
		for _, problem := range pkg.Errors {
			wrong = append(wrong, problem.Error())
		}
	})
	return wrong, nil
}
