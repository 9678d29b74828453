// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// checkInside returns a *Problem if the go command would compile files outside of the submission's folder: those of a
// local module in a replace directive, or those behind a link. They are not part of what was submitted, and on the
// grader's machine they may be the solution's, or another student's.
func (s *Submission) checkInside() error {
	content, err := s.ReadFile("go.mod")
	if err != nil {
		return err
	}
	mod, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return &Problem{Reason: fmt.Sprintf("its go.mod can't be read: %v", err)}
	}
	for _, replace := range mod.Replace {
		if replace.New.Version == "" && !filepath.IsLocal(filepath.FromSlash(replace.New.Path)) {
			return &Problem{Reason: fmt.Sprintf("its go.mod replaces %s by %s, which is outside of the submission's folder: "+
				"move that folder into the submission, or require a published version", replace.Old.Path, replace.New.Path)}
		}
	}
	return s.walk(".", func(root *os.Root, name string, entry fs.DirEntry) error {
		if entry.Type() != fs.ModeSymlink {
			return nil
		}
		if _, err := root.Stat(filepath.FromSlash(name)); err == nil {
			return nil
		}
		// Links to programs are allowed: kubebuilder's Makefile creates some in bin.
		target, err := os.Stat(filepath.Join(s.Dir, filepath.FromSlash(name)))
		if err == nil && (target.IsDir() || IsSource(entry.Name())) {
			return &Problem{Reason: fmt.Sprintf("%s is a link to a place outside of the submission's folder: "+
				"replace it by a copy", name)}
		}
		return nil
	})
}
