// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/authoring/mutant"
)

// change is what a mutant changes of the solution that a test can see.
type change struct {
	// edits are those that are applied: the mutant's, but for those of tests.
	edits []mutant.Edit
	// folders are those of packages whose code changes, slash-separated from the module's root.
	folders []string
	// unseen says why no test can see it; empty: one can.
	unseen string
}

// changeOf finds out what a mutant changes of the solution in a folder. programs are the folders of packages main.
// Markers are comments, and an API server of envtest lets its administrator do everything and has the CRDs that are
// committed: neither roles nor manifests decide what a test sees.
func changeOf(m *mutant.Mutant, dir string, programs []string) (change, error) {
	c := change{unseen: m.Untestable}
	type file struct{ before, after []byte }
	files := map[string]file{}
	for _, edit := range m.Edits {
		if strings.HasSuffix(edit.File, "_test.go") {
			continue
		}
		c.edits = append(c.edits, edit)
		changed, ok := files[edit.File]
		if !ok {
			content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(edit.File)))
			if err != nil {
				return c, fmt.Errorf("the mutant %s: %w", m.Name, err)
			}
			changed = file{content, content}
		}
		after, err := edit.Apply(changed.after)
		if err != nil {
			return c, fmt.Errorf("the mutant %s: %w", m.Name, err)
		}
		changed.after = after
		files[edit.File] = changed
	}
	inProgram := false
	for name, changed := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		folder := path.Dir(name)
		switch {
		case slices.Equal(code(changed.before), code(changed.after)):
		case slices.Contains(programs, folder):
			inProgram = true
		case !slices.Contains(c.folders, folder):
			c.folders = append(c.folders, folder)
		}
	}
	switch {
	case c.unseen != "" || len(c.folders) > 0:
	case inProgram:
		c.unseen = "it changes package main, which tests do not run"
	default:
		c.unseen = "it changes markers or manifests only, which no Go test runs"
	}
	return c, nil
}

// code are the tokens of a file without its comments.
func code(content []byte) (tokens []string) {
	set := token.NewFileSet()
	var s scanner.Scanner
	s.Init(set.AddFile("", set.Base(), len(content)), content, nil, 0)
	for {
		_, kind, literal := s.Scan()
		if kind == token.EOF {
			return tokens
		}
		tokens = append(tokens, kind.String()+" "+literal)
	}
}
