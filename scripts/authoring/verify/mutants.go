// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"path/filepath"

	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/checkout/manifest"
)

var mutants = Check{
	Name:     "mutants",
	Sentence: "mutants still apply to their solutions and name checks that exist",
	Find: func(_ context.Context, r *Repository) ([]Finding, error) {
		labs, err := r.solutions()
		if err != nil {
			return nil, err
		}
		list, err := manifest.Load(r.Root)
		if err != nil {
			return nil, err
		}
		var findings []Finding
		for _, lab := range labs {
			more, err := r.findMutants(lab, list)
			if err != nil {
				return findings, err
			}
			findings = append(findings, more...)
		}
		return findings, nil
	},
}

func (r *Repository) findMutants(lab string, list *manifest.Manifest) ([]Finding, error) {
	name := path.Join("solutions", lab, mutant.File)
	if content, err := r.read(name); err != nil || content == nil {
		return nil, err
	}
	var findings []Finding
	found := func(format string, args ...any) {
		findings = append(findings, Finding{Location: name, Message: fmt.Sprintf(format, args...), ByHand: true})
	}
	wrong, err := mutant.Load(filepath.Join(r.Root, "solutions", lab))
	if err != nil {
		found("%v", err)
		return findings, nil
	}
	fails := func(subject string, fails map[string]string) {
		for id := range fails {
			if known, err := list.Lab(lab); err != nil {
				found("%v", err)
			} else if _, err := known.Check(id); err != nil {
				found("%s: %v", subject, err)
			}
		}
	}
	fails("the skeleton", wrong.Skeleton.Fails)
	for _, m := range wrong.Mutants {
		fails("the mutant "+m.Name, m.Fails)
		if err := r.applyMutant(lab, m.Edits); err != nil {
			found("the mutant %s does not apply: %v", m.Name, err)
		}
	}
	return findings, nil
}

// applyMutant applies the edits to copies of the solution's files. It returns an error for an edit that does not change
// the solution.
func (r *Repository) applyMutant(lab string, edits []mutant.Edit) error {
	edited := map[string][]byte{}
	for i, edit := range edits {
		content, ok := edited[edit.File]
		if !ok {
			var err error
			if content, err = r.read(path.Join("solutions", lab, edit.File)); err != nil {
				return err
			}
			if content == nil {
				return fmt.Errorf("edit %d: there is no file %s", i+1, edit.File)
			}
		}
		after, err := edit.Apply(content)
		if err != nil {
			return fmt.Errorf("edit %d: %w", i+1, err)
		}
		same, err := sameSolution(edit.File, content, after)
		if err != nil {
			return err
		}
		if same {
			return fmt.Errorf("edit %d: it changes only a comment for the lab in %s", i+1, edit.File)
		}
		edited[edit.File] = after
	}
	return nil
}

// sameSolution reports whether two versions of a file are the same apart from the lab's own lines.
func sameSolution(name string, a, b []byte) (bool, error) {
	before, err := skeleton.Parse(name, a)
	if err != nil {
		return false, err
	}
	after, err := skeleton.Parse(name, b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(before.Solution(), after.Solution()), nil
}
