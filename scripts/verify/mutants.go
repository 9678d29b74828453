// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/skeleton"
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

// mutantsFile is the part of a mutants.yaml that can be checked without grading.
type mutantsFile struct {
	Skeleton struct {
		Fails map[string]string `json:"fails"`
	} `json:"skeleton"`
	Mutants []struct {
		Name          string            `json:"name"`
		Misconception string            `json:"misconception"`
		Edits         []mutantEdit      `json:"edits"`
		Fails         map[string]string `json:"fails"`
	} `json:"mutants"`
}

type mutantEdit struct {
	File    string `json:"file"`
	Find    string `json:"find"`
	Replace string `json:"replace"`
}

func (r *Repository) findMutants(lab string, list *manifest.Manifest) ([]Finding, error) {
	name := path.Join("solutions", lab, "mutants.yaml")
	content, err := r.read(name)
	if err != nil || content == nil {
		return nil, err
	}
	var file mutantsFile
	if err := yaml.UnmarshalStrict(content, &file); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	var findings []Finding
	found := func(format string, args ...any) {
		findings = append(findings, Finding{Where: name, Message: fmt.Sprintf(format, args...), ByHand: true})
	}
	fails := func(who string, fails map[string]string) {
		if len(fails) == 0 {
			found("%s fails no check: then it proves nothing", who)
		}
		for id, pattern := range fails {
			if known, err := list.Lab(lab); err != nil {
				found("%v", err)
			} else if _, err := known.Check(id); err != nil {
				found("%s: %v", who, err)
			}
			if _, err := regexp.Compile(pattern); err != nil {
				found("%s: the expression for %s: %v", who, id, err)
			}
		}
	}
	fails("the skeleton", file.Skeleton.Fails)
	seen := map[string]bool{}
	for _, mutant := range file.Mutants {
		who := "the mutant " + mutant.Name
		if seen[mutant.Name] {
			found("%s is there twice", who)
		}
		seen[mutant.Name] = true
		if mutant.Misconception == "" {
			found("%s has no misconception: say in one sentence what somebody gets wrong", who)
		}
		fails(who, mutant.Fails)
		if err := r.applyMutant(lab, mutant.Edits); err != nil {
			found("%s does not apply: %v", who, err)
		}
	}
	return findings, nil
}

// applyMutant applies the edits to copies of the solution's files, and sees that the solution changes.
func (r *Repository) applyMutant(lab string, edits []mutantEdit) error {
	if len(edits) == 0 {
		return fmt.Errorf("it has no edits")
	}
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
		if n := bytes.Count(content, []byte(edit.Find)); edit.Find == "" || n != 1 {
			return fmt.Errorf("edit %d: its text to find is in %s %d times and must be there once; has the solution changed?", i+1, edit.File, n)
		}
		after := bytes.Replace(content, []byte(edit.Find), []byte(edit.Replace), 1)
		same, err := sameSolution(edit.File, content, after)
		if err != nil {
			return err
		}
		if same {
			return fmt.Errorf("edit %d: it changes nothing but a comment for the lab in %s", i+1, edit.File)
		}
		edited[edit.File] = after
	}
	return nil
}

// sameSolution reports whether two versions of a file are the same but for what only the lab gets.
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
