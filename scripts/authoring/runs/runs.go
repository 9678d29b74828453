// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

// Folder is the folder of the recordings, relative to the root of the repository. It has the List of mistakes, a folder
// for each lab with a report for each of Names, and the Index.
const (
	Folder = "docs/runs"
	List   = "mistakes.yaml"
	Index  = "README.md"
)

// These are the recordings of a lab.
const (
	Skeleton = "skeleton"
	Mistake  = "mistake"
	Solution = "solution"
)

// Names are the recordings of each lab, in the order in which they are shown.
var Names = []string{Skeleton, Mistake, Solution}

// maxTimeline is how many moments of a run are kept, so that its page loads fast and the repository stays small.
const maxTimeline = 600

// Run is a recording.
type Run struct {
	Lab  *manifest.Lab
	Name string // one of Names
	// Mutant is the mutant that was graded. It is nil for the others.
	Mutant *mutant.Mutant
	// Expected is the expected grade.
	Expected mutant.Expectation
}

// File returns the path of the recording, relative to the root of the repository.
func (r *Run) File() string { return path.Join(Folder, r.Lab.Name, r.Name+".json") }

// Shown returns one sentence about the graded submission.
func (r *Run) Shown() string {
	switch r.Name {
	case Skeleton:
		return "the lab as you get it"
	case Solution:
		return "the solution"
	}
	return strings.TrimSuffix(r.Mutant.Misconception, ".")
}

// Required returns the recordings that a lab must have. mistakes.yaml names its mistake.
func Required(root string, lab *manifest.Lab) ([]Run, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(Folder), List))
	if err != nil {
		return nil, fmt.Errorf("reading which mistakes are recorded: %w", err)
	}
	mistakes := map[string]string{}
	if err := yaml.UnmarshalStrict(data, &mistakes); err != nil {
		return nil, fmt.Errorf("reading %s/%s: %w", Folder, List, err)
	}
	list, err := mutant.Load(filepath.Join(root, "solutions", lab.Name))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.Mutants, func(m mutant.Mutant) bool { return m.Name == mistakes[lab.Name] })
	if i < 0 {
		return nil, fmt.Errorf("%s/%s names the mistake %q for %s, which is no mutant of its solution: "+
			"name one of solutions/%s/%s",
			Folder, List, mistakes[lab.Name], lab.Name, lab.Name, mutant.File)
	}
	return []Run{
		{Lab: lab, Name: Skeleton, Expected: list.Skeleton},
		{Lab: lab, Name: Mistake, Mutant: &list.Mutants[i], Expected: list.Mutants[i].Expectation},
		{Lab: lab, Name: Solution},
	}, nil
}

// LayOut writes the submission to grade into a folder, which must be empty or missing.
func (r *Run) LayOut(ctx context.Context, repo *checkout.Checkout, controllerGen, dir string) error {
	generator := skeleton.Generator{Root: repo.Root, ControllerGen: controllerGen}
	if r.Name == Skeleton {
		return generator.Generate(ctx, r.Lab.Name, dir)
	}
	if err := os.CopyFS(dir, os.DirFS(repo.SolutionDir(r.Lab))); err != nil {
		return fmt.Errorf("copying the solution of %s: %w", r.Lab.Name, err)
	}
	if r.Mutant == nil {
		return nil
	}
	return errors.Join(r.Mutant.Apply(dir), generator.Manifests(ctx, dir))
}

// Keep stores a report as the recording, without the details of the machine that recorded it. It fails if the grade is
// not the expected one.
func (r *Run) Keep(root string, graded *report.Report) error {
	kept := *graded
	kept.Submission.Dir = path.Join("labs", r.Lab.Name)
	if r.Name == Solution {
		kept.Submission.Dir = path.Join("solutions", r.Lab.Name)
	}
	kept.Notices = nil
	kept.Timeline = slices.Clone(kept.Timeline)
	kept.Sanitize()
	kept.Timeline = kept.Timeline[:min(maxTimeline, len(kept.Timeline))]
	if wrong := r.deviations(&kept); len(wrong) > 0 {
		return fmt.Errorf("%s of %s was not graded as %s/%s requires: %s",
			r.Name, r.Lab.Name, r.Lab.Name, mutant.File, strings.Join(wrong, "; "))
	}
	data, err := kept.JSON()
	if err != nil {
		return err
	}
	file := filepath.Join(root, filepath.FromSlash(r.File()))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating the folder of a recording: %w", err)
	}
	return report.WriteFile(file, data)
}

// Recorded reads the recording.
func (r *Run) Recorded(root string) (*report.Report, error) {
	return report.Read(filepath.Join(root, filepath.FromSlash(r.File())))
}

// Problems returns the differences between a recording and the current lab: the recording is missing, it has other
// checks, or other checks failed.
func (r *Run) Problems(root string) []string {
	recorded, err := r.Recorded(root)
	if err != nil {
		return []string{err.Error()}
	}
	return r.deviations(recorded)
}

// deviations returns the differences between a report and the expected grade, and between its checks and the lab's
// current ones.
func (r *Run) deviations(graded *report.Report) []string {
	base := *graded
	// No mutant specifies the results of a submission's own tests.
	base.Checks = slices.DeleteFunc(slices.Clone(graded.Checks), func(c report.Check) bool {
		return c.ID == manifest.OwnTestsID
	})
	wrong := r.Expected.Deviations(&base)
	var have, want, preconditions []string // a report lists preconditions only if they failed
	for _, check := range base.Checks {
		have = append(have, check.ID)
	}
	for _, check := range r.Lab.Checks {
		if want = append(want, check.ID); check.Precondition() {
			preconditions = append(preconditions, check.ID)
		}
	}
	if missing := difference(difference(want, have), preconditions); len(missing) > 0 {
		wrong = append(wrong, "it has no check "+strings.Join(missing, ", "))
	}
	if surplus := difference(have, want); len(surplus) > 0 {
		wrong = append(wrong, "the lab has no check "+strings.Join(surplus, ", "))
	}
	return wrong
}

// difference returns the elements of a that b does not have.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(id string) bool { return slices.Contains(b, id) })
}
