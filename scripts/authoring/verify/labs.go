// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/authoring/clientgen"
	"lva.io/operators/scripts/authoring/docs"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/authoring/transcript"
	"lva.io/operators/scripts/checkout/manifest"
)

var labsList = Check{
	Name:     "labs-list",
	Sentence: "labs/labs.yaml is valid and its links resolve",
	Find: func(_ context.Context, r *Repository) ([]Finding, error) {
		return messages(manifest.CheckLinks(r.Root)), nil
	},
}

var pages = Check{
	Name:     "pages",
	Sentence: "pages have the code, tables and diagrams of the files that they name, and their links resolve",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		changes, err := docs.Stale(r.Root)
		findings := messages(err)
		for _, change := range changes {
			finding, err := r.stale(ctx, change.Page, change.Have, change.Want, "what its markers name has changed")
			if err != nil {
				return nil, err
			}
			findings = append(findings, finding)
		}
		return append(append(findings, messages(docs.CheckLinks(r.Root))...), messages(transcript.Check(r.Root))...), nil
	},
	Fix: func(_ context.Context, r *Repository) ([]string, error) { return docs.Fix(r.Root) },
}

// messages turns each line of an error that lists problems for a person into a finding.
func messages(err error) []Finding {
	if err == nil {
		return nil
	}
	var findings []Finding
	for line := range strings.SplitSeq(err.Error(), "\n") {
		findings = append(findings, Finding{Message: line, ByHand: true})
	}
	return findings
}

var skeletons = Check{
	Name:     "skeletons",
	Sentence: "labs/ is what solutions/ generates",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		labs, err := r.solutions()
		if err != nil {
			return nil, err
		}
		var findings []Finding
		for i, lab := range labs {
			r.Progress("labs", i, len(labs))
			changes, err := r.generator().Compare(ctx, lab)
			if err != nil {
				return findings, err
			}
			for _, change := range changes {
				finding, err := r.stale(ctx, change.File, change.Have, change.Want, "its solution generates a different skeleton")
				if err != nil {
					return findings, err
				}
				findings = append(findings, finding)
			}
		}
		orphans, err := r.orphans(labs)
		return append(findings, orphans...), err
	},
	Fix: func(ctx context.Context, r *Repository) ([]string, error) {
		labs, err := r.solutions()
		if err != nil {
			return nil, err
		}
		var changed []string
		var problems []error
		for i, lab := range labs {
			r.Progress("labs", i, len(labs))
			files, err := r.generator().Update(ctx, lab)
			changed = append(changed, files...)
			problems = append(problems, err)
		}
		return changed, errors.Join(problems...)
	},
}

// orphans finds labs without a solution.
func (r *Repository) orphans(solutions []string) ([]Finding, error) {
	entries, err := os.ReadDir(r.path("labs"))
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains(solutions, entry.Name()) {
			findings = append(findings, Finding{
				Location: path.Join("labs", entry.Name()), ByHand: true,
				Message: "has no solution with a go.mod: write solutions/" + entry.Name() + ", or delete it",
			})
		}
	}
	return findings, nil
}

var generatedFiles = generatedBy("controller-gen", Check{
	Name:     "generated",
	Sentence: "deep copies, CRDs and roles of the solutions follow from their Go code",
}, func(r *Repository) generation {
	return generation{
		wanted: func(string) (bool, error) { return true, nil },
		run:    r.generator().Manifests, generated: skeleton.Generated,
	}
})

// clients are thousands of lines that people do not read. A lab has those of its solution, with its own module's name.
var clients = generatedBy("k8s.io/code-generator", Check{
	Name:     "clients",
	Sentence: "clientsets, listers and informers of the solutions follow from their Go types",
}, func(r *Repository) generation {
	return generation{
		wanted: func(lab string) (bool, error) { return clientgen.Requested(r.path(path.Join("solutions", lab))) },
		run:    r.clients.Generate, generated: clientgen.Generated,
	}
})

// generatedBy completes a check of generated files. Find compares them with the output of the generator, and Fix writes
// them again.
func generatedBy(generator string, check Check, generate func(*Repository) generation) Check {
	check.Find = func(ctx context.Context, r *Repository) ([]Finding, error) {
		var findings []Finding
		err := r.eachStale(ctx, generate(r), func(name string, have, want []byte) error {
			finding, err := r.stale(ctx, name, have, want, generator+" generates something else")
			findings = append(findings, finding)
			return err
		})
		return findings, err
	}
	check.Fix = func(ctx context.Context, r *Repository) ([]string, error) {
		var changed []string
		err := r.eachStale(ctx, generate(r), func(name string, _, want []byte) error {
			changed = append(changed, name)
			if want == nil {
				return os.Remove(r.path(name))
			}
			return r.replace(name, want)
		})
		return changed, err
	}
	return check
}

// generation generates files of a module from others. wanted selects the solutions, run generates the files, and
// generated reports whether a file is one of them.
type generation struct {
	wanted    func(lab string) (bool, error)
	run       func(ctx context.Context, dir string) error
	generated func(name string) bool
}

// eachStale generates in a copy, because generators overwrite the files of their input folder.
func (r *Repository) eachStale(ctx context.Context, g generation, do func(name string, have, want []byte) error) error {
	labs, err := r.solutions()
	if err != nil {
		return err
	}
	for i, lab := range labs {
		r.Progress("solutions", i, len(labs))
		dir := path.Join("solutions", lab)
		if wanted, err := g.wanted(lab); err != nil || !wanted {
			if err != nil {
				return err
			}
			continue
		}
		names, err := r.filesIn(ctx, dir)
		if err != nil {
			return err
		}
		scratch, err := os.MkdirTemp(r.Runner.Dir(), lab+"-")
		if err != nil {
			return err
		}
		if err := copyTo(scratch, r.path(dir), names); err != nil {
			return err
		}
		if err := g.run(ctx, scratch); err != nil {
			return fmt.Errorf("generating the files of %s: %w", dir, err)
		}
		generated, err := generatedBelow(scratch, g.generated)
		if err != nil {
			return err
		}
		for _, name := range names {
			if g.generated(name) && !slices.Contains(generated, name) {
				generated = append(generated, name)
			}
		}
		slices.Sort(generated)
		for _, name := range generated {
			have, err := r.read(path.Join(dir, name))
			if err != nil {
				return err
			}
			want, err := (&Repository{Root: scratch}).read(name)
			if err != nil {
				return err
			}
			if (have == nil) == (want == nil) && bytes.Equal(have, want) {
				continue
			}
			if err := do(path.Join(dir, name), have, want); err != nil {
				return err
			}
		}
	}
	return nil
}

func generatedBelow(dir string, generated func(name string) bool) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if relative = filepath.ToSlash(relative); generated(relative) {
			names = append(names, relative)
		}
		return err
	})
	return names, err
}

var sharedFiles = Check{
	Name:     "shared-files",
	Sentence: "a solution has the files of the one it starts from",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		var findings []Finding
		err := r.eachDiverged(ctx, func(name, origin string, have, want []byte) error {
			finding, err := r.stale(ctx, name, have, want,
				"it differs from "+origin+", from which this lab starts; "+
					"if it has to differ, say why in a lab:differs marker in it")
			findings = append(findings, finding)
			return err
		})
		return findings, err
	},
	Fix: func(ctx context.Context, r *Repository) ([]string, error) {
		uncommitted, err := r.Runner.Run(ctx, r.Root, nil, "git", "status", "--porcelain", "-z",
			"--no-renames", "--untracked-files=all", "--", "solutions")
		if err != nil {
			return nil, fmt.Errorf("asking git for uncommitted changes: %w", err)
		}
		var changed []string
		var problems []error
		err = r.eachDiverged(ctx, func(name, origin string, have, want []byte) error {
			// This copy has uncommitted edits. Only their author knows whether they or the original are right.
			if have != nil && strings.Contains("\x00"+uncommitted, " "+name+"\x00") {
				problems = append(problems, fmt.Errorf(
					"%s differs from %s and has changes that are not committed: make the change in %s, "+
						"or say why it differs in a lab:differs marker, or undo it (git checkout -- %s)",
					name, origin, origin, name))
				return nil
			}
			changed = append(changed, name)
			return r.replace(name, want)
		})
		return changed, errors.Join(append(problems, err)...)
	},
}

// eachDiverged calls do for each file of a solution that is missing, or differs from the solution that it starts from.
func (r *Repository) eachDiverged(ctx context.Context, do func(name, origin string, have, want []byte) error) error {
	list, err := manifest.Load(r.Root)
	if err != nil {
		return err
	}
	for _, lab := range list.Labs {
		if lab.StartsFrom == "" {
			continue
		}
		names, err := r.filesIn(ctx, path.Join("solutions", lab.StartsFrom))
		if err != nil {
			return err
		}
		for _, name := range names {
			if ofOneLab(name) {
				continue
			}
			origin, copied := path.Join("solutions", lab.StartsFrom, name), path.Join("solutions", lab.Name, name)
			have, want, err := r.sharedFile(lab, name)
			if err != nil {
				return err
			}
			if want == nil || (have != nil && bytes.Equal(have, want)) {
				continue
			}
			if err := do(copied, origin, have, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofOneLab reports whether a file of a solution is about this lab alone, or is derived from other files.
func ofOneLab(name string) bool {
	return slices.Contains([]string{"TASK.md", "go.mod", "go.sum"}, name) ||
		skeleton.OfSolution(name) || skeleton.Generated(name)
}

// sharedFile returns a file as the lab has it, and as it should be according to the earlier lab. want is nil if the
// lab's own version is right: the lab has a task in it, a marker gives the reason why it differs, or the file is about
// the earlier lab alone.
func (r *Repository) sharedFile(lab manifest.Lab, name string) (have, want []byte, err error) {
	parse := func(lab string) (content []byte, source *skeleton.Source, err error) {
		file := path.Join("solutions", lab, name)
		if content, err = r.read(file); err != nil || content == nil {
			return content, nil, err
		}
		source, err = skeleton.Parse(file, content)
		return content, source, err
	}
	have, own, err := parse(lab.Name)
	if err != nil || (own != nil && own.Own()) {
		return have, nil, err
	}
	_, origin, err := parse(lab.StartsFrom)
	if err != nil {
		return nil, nil, err
	}
	if origin.LabOnly() {
		return have, nil, nil
	}
	want = bytes.ReplaceAll(origin.Solution(), []byte("solutions/"+lab.StartsFrom), []byte("solutions/"+lab.Name))
	if want == nil {
		want = []byte{}
	}
	return have, want, nil
}
