// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"fmt"
	"go/build"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/grading/submission"
)

// refuseEmbeddedSources returns a *submission.Problem if a package of a module, or a test, embeds a Go file. A test
// that compares the solution's sources with those that it knows would find each mutant.
func refuseEmbeddedSources(module string) error {
	return filepath.WalkDir(module, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		all := build.Default
		all.UseAllFiles = true
		// The compiler reports the error better. The package has the patterns of the files that can be read.
		pkg, _ := all.ImportDir(dir, 0)
		for _, positions := range []map[string][]token.Position{
			pkg.EmbedPatternPos, pkg.TestEmbedPatternPos, pkg.XTestEmbedPatternPos,
		} {
			for _, pattern := range slices.Sorted(maps.Keys(positions)) {
				if source := embeddedSource(dir, pattern); source != "" {
					at := positions[pattern][0]
					return &submission.Problem{Reason: fmt.Sprintf("%s:%d embeds %s with //go:embed %s, "+
						"but tests may not embed Go files, because they must judge what the code does, not how it is written: "+
						"remove the line, or embed only files with other endings",
						filepath.Base(at.Filename), at.Line, source, pattern)}
				}
			}
		}
		return nil
	})
}

// embeddedSource returns a Go file that a pattern of //go:embed matches in a package's folder. It is empty if there is
// none. A pattern that matches a folder embeds all files below it. (https://pkg.go.dev/embed)
func embeddedSource(dir, pattern string) (source string) {
	// The compiler reports a pattern that is wrong, which matches nothing.
	matches, _ := fs.Glob(os.DirFS(dir), strings.TrimPrefix(pattern, "all:"))
	for _, match := range matches {
		_ = filepath.WalkDir(filepath.Join(dir, filepath.FromSlash(match)),
			func(file string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() && filepath.Ext(file) == ".go" {
					source = filepath.Base(file)
					return fs.SkipAll
				}
				return nil
			})
	}
	return source
}
