// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"go/build"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lva.io/operators/scripts/grading/report"
)

// tagsFlag matches the flag that passes build tags to the go command: -tags production,netgo
var tagsFlag = regexp.MustCompile(`\s-{1,2}tags[= ]["']?([\w.]+(?:,[\w.]+)*)`)

// excluded returns the files that the project's own build compiles and grading does not: those that need cgo, and those
// that need build tags which its Makefile or Dockerfile sets. Undefined names may be declared in these files.
func (s *Submission) excluded() (files []report.Diagnostic) {
	standard, tagged := s.buildContext(), s.buildContext()
	tagged.BuildTags = s.buildTags()
	withCgo := tagged
	withCgo.CgoEnabled = true
	for _, folder := range s.sources.folders() {
		compiled := func(context build.Context) []string {
			// The compiler reports errors of a package.
			pkg, _ := context.ImportDir(filepath.Join(s.Dir, filepath.FromSlash(folder)), 0)
			return slices.Concat(pkg.GoFiles, pkg.CgoFiles)
		}
		graded, withTags := compiled(standard), compiled(tagged)
		for _, name := range compiled(withCgo) {
			file := report.Diagnostic{File: path.Join(folder, name)}
			switch {
			case slices.Contains(graded, name):
				continue
			case slices.Contains(withTags, name):
				file.Message = "this file is left out, because grading sets no build tags: remove its //go:build line"
			default:
				file.Message = "this file is left out, because grading builds without cgo: " +
					"do without it, or add a file with //go:build !cgo"
			}
			files = append(files, file)
		}
	}
	return files
}

// buildTags returns the build tags that the project's own build sets.
func (s *Submission) buildTags() (tags []string) {
	for _, pattern := range slices.Concat(optionFiles, []string{"Dockerfile", "Containerfile"}) {
		files, err := s.glob(pattern)
		if err != nil {
			continue
		}
		for _, file := range files {
			content, err := s.ReadFile(file)
			if err != nil {
				continue
			}
			for _, flag := range tagsFlag.FindAllSubmatch(content, -1) {
				tags = append(tags, strings.Split(string(flag[1]), ",")...)
			}
		}
	}
	return tags
}
