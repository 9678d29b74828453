// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/command"
)

// sharedCache makes tools compile with the flags of our builds, so that they find what is compiled already.
var sharedCache = "GOFLAGS=-mod=readonly " + strings.Join(gobuild.Flags, " ")

var lint = Check{
	Name:     "lint",
	Sentence: "golangci-lint finds nothing in any module",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		var findings []Finding
		err := r.eachModuleWithCode(ctx, func(m module) error {
			err := r.golangci(ctx, m, "run", "--allow-parallel-runners", "--color=never")
			output, failed := command.Output(err)
			if failed {
				findings = append(findings, Finding{Where: m.dir, Message: "golangci-lint found", Detail: output})
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
				// What it can't fix is for `make verify` to show.
				if _, failed := command.Output(err); failed {
					return nil
				}
				return err
			})
		})
	},
}

func (r *Repository) golangci(ctx context.Context, m module, args ...string) error {
	if r.golangciLint == "" {
		return errors.New("golangci-lint is not built: that is a mistake of the program that runs this check")
	}
	_, err := r.Runner.Run(ctx, r.path(m.dir), []string{sharedCache}, r.golangciLint, args...)
	return err
}

// eachModuleWithCode goes through the modules that have Go packages, but for those that are large programs of others.
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
		names, err := r.below(ctx, m.dir)
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

// macOS takes minutes when nothing is compiled for it yet, and is the last: the control plane is large.
var macOS = Check{
	Name:     "macos",
	Sentence: "the control plane and all commands compile for macOS on arm64",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		var findings []Finding
		err := r.eachModuleWithCode(ctx, func(m module) error {
			// Who does a lab on macOS compiles it there. What they do it with must not fail them.
			if isLab(m.dir) || strings.HasPrefix(m.dir, "solutions/") {
				return nil
			}
			_, err := r.Runner.Run(ctx, r.path(m.dir), []string{"GOOS=darwin", "GOARCH=arm64", sharedCache}, "go", "build", "-o", "/dev/null", "./...")
			output, failed := command.Output(err)
			if failed {
				findings = append(findings, Finding{Where: m.dir, Message: "does not compile for macOS (GOOS=darwin GOARCH=arm64)", Detail: output})
				return nil
			}
			return err
		})
		return findings, err
	},
}
