// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/authoring/skeleton"
)

// Mutant is a solution with one change.
type Mutant struct {
	// ID identifies the mutant for as long as its function keeps the changed code. It is derived from the solution's name,
	// the function, the operator, and the code before and after the change.
	ID string
	// Solution is the name of the solution's folder.
	Solution string
	// File is slash-separated, from the solution's folder. Line is where the change begins.
	File string
	Line int
	// In is the function, the type's field or the variable that is changed, such as "IcecreamReconciler.Reconcile". It is
	// empty if the change is outside of all of them.
	In string
	// Operator is the kind of the change.
	Operator Operator
	// Before and After are the original and the new code, on one line each. An empty After means that the code was
	// removed.
	Before, After string

	offset            int    // in the file, where the change begins
	original, content []byte // of the file, without and with the change

	edits []mutant.Edit // of a blind set, instead of the content
}

// Change describes the mutant without its line number, which changes too often to be recorded.
func (m *Mutant) Change() string {
	if m.edits != nil {
		return fmt.Sprintf("%s: %s", m.Operator, m.After)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", m.File, m.In)) +
		fmt.Sprintf(", %s: %s → %s", m.Operator, m.Before, cmp.Or(m.After, "(nothing)"))
}

// String describes the mutant as one entry of a list.
func (m *Mutant) String() string {
	if m.edits != nil {
		return m.ID + ": " + m.Change()
	}
	return fmt.Sprintf("%s line %d: %s", m.ID, m.Line, m.Change())
}

// Apply changes the copy of the solution in a folder.
func (m *Mutant) Apply(dir string) error {
	if m.edits != nil {
		return (&mutant.Mutant{Name: m.ID, Edits: m.edits}).Apply(dir)
	}
	file := filepath.Join(dir, filepath.FromSlash(m.File))
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("applying the mutant %s: %w", m.ID, err)
	}
	if !bytes.Equal(content, m.original) {
		return fmt.Errorf("applying the mutant %s: %s has changed since it was made", m.ID, m.File)
	}
	if err := os.WriteFile(file, m.content, 0o644); err != nil {
		return fmt.Errorf("applying the mutant %s: %w", m.ID, err)
	}
	return nil
}

// Generate generates all mutants of the solution in a folder, in the order of files and lines. It changes the files in
// which a student has a task, and those that a student writes in a lab that begins nearly empty. It makes only changes
// after which the package still compiles. The same solution always has the same mutants.
func Generate(ctx context.Context, solution string) ([]Mutant, error) {
	keep, err := skeleton.Kept(solution)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: solution, Fset: set, Env: gobuild.Environment(), BuildFlags: gobuild.Flags,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedExportFile | packages.NeedModule,
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("loading the solution %s: %w", solution, err)
	}
	var all []Mutant
	var wrong []error
	for _, pkg := range loaded {
		for _, problem := range pkg.Errors {
			wrong = append(wrong, problem)
		}
		mutants, err := generate(solution, set, pkg, keep)
		if err != nil {
			return nil, err
		}
		all = append(all, mutants...)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("loading the solution %s: %w", solution, errors.Join(wrong...))
	}
	slices.SortStableFunc(all, func(a, b Mutant) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.offset, b.offset), bytes.Compare(a.content, b.content))
	})
	return name(filepath.Base(solution), all), nil
}

// name gives each mutant its ID. If two operators make the same change, it keeps one mutant.
func name(solution string, all []Mutant) (named []Mutant) {
	seen := map[string]bool{}
	count := map[string]int{}
	for _, m := range all {
		if seen[m.File+string(m.content)] {
			continue
		}
		seen[m.File+string(m.content)] = true
		m.Solution = solution
		identity := strings.Join([]string{solution, m.File, m.In, string(m.Operator), m.Before, m.After}, "\x00")
		count[identity]++
		digest := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", identity, count[identity]))
		m.ID = hex.EncodeToString(digest[:4])
		named = append(named, m)
	}
	return named
}

// Sample chooses some of the mutants. The same seed chooses the same mutants for as long as they exist. If it samples a
// part of the mutants, it prefers the same ones as in a sample of all.
func Sample(all []Mutant, size int, seed uint32) []Mutant {
	rank := func(m Mutant) string {
		digest := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, m.ID))
		return string(digest[:])
	}
	chosen := slices.SortedFunc(slices.Values(all), func(a, b Mutant) int { return cmp.Compare(rank(a), rank(b)) })
	return chosen[:min(size, len(chosen))]
}

// generate returns the mutants of a package. keep reports whether a lab that begins nearly empty has a file. It is nil
// for other labs.
func generate(
	solution string, set *token.FileSet, pkg *packages.Package, keep func(name string) bool,
) ([]Mutant, error) {
	var all []Mutant
	for _, file := range pkg.Syntax {
		path := set.File(file.Pos()).Name()
		relative, err := filepath.Rel(solution, path)
		if err != nil {
			return nil, err
		}
		relative = filepath.ToSlash(relative)
		if strings.HasSuffix(relative, "_test.go") || ast.IsGenerated(file) {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the solution: %w", err)
		}
		given := !mark.Match(content)
		if keep != nil {
			given = keep(relative)
		}
		if given {
			continue
		}
		s := &source{
			set: set, file: set.File(file.Pos()), syntax: file, info: pkg.TypesInfo,
			content: content, name: relative, texts: map[ast.Node]bool{},
			// Scaffolded code outside of regions is not the author's work.
			regions: strings.HasPrefix(relative, "cmd/"),
		}
		s.declarations()
		s.syntaxTree()
		s.markers()
		for _, m := range s.mutants {
			if !m.Operator.ofMarkers() {
				m.content = compiled(set, pkg, path, m.content)
			}
			if m.content != nil {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// importer returns the packages that were loaded.
type importer map[string]*packages.Package

func (i importer) Import(path string) (*types.Package, error) {
	if pkg := i[path]; pkg != nil && pkg.Types != nil {
		return pkg.Types, nil
	}
	return nil, fmt.Errorf("the package %s was not loaded", path)
}
