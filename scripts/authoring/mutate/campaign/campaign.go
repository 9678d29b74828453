// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package campaign grades the automatic mutants of labs, and reports which of them have full marks. It chooses the
// mutants, keeps the results of each lab in a ledger, so that an interrupted campaign can be resumed, and records the
// figures in the documentation. Package mutate makes the mutants, and package certify grades them.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/authoring/certify"
	"lva.io/operators/scripts/authoring/mutate"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/submission"
)

// mutationDir, below out, holds the ledgers of the labs' mutants.
const mutationDir = "mutation"

// Options configure a campaign.
type Options struct {
	*checkout.Checkout
	// Sample is how many mutants are graded, of all labs together, drawn with Seed. Default: all.
	Sample int
	Seed   uint32
	// Only limits the campaign to the mutants with these IDs, even if they are known to be equivalent. Default: all.
	Only []string
	// Again grades only mutants that survived the last campaign, and those that it did not grade.
	Again bool
	// List lists the mutants, and Record writes the figures of earlier campaigns into the documentation. Neither grades.
	List, Record bool
	// Torture also tortures the mutants that have full marks.
	Torture bool
	// Blind is the file of a blind set, which is graded instead of automatic mutants. It is for one lab.
	Blind string
	// Parallel is how many mutants are graded in parallel.
	Parallel int
	// Out gets a line for each mutant, and the figures.
	Out io.Writer
}

// subject is a lab whose solution is mutated.
type subject struct {
	lab       *manifest.Lab
	mutants   []mutate.Mutant
	survivors map[string]mutate.Survivor
	ledger    *mutate.Ledger
	// blind is the blind set that the user named, if any.
	blind *mutate.BlindSet
}

// Run runs a campaign on the named labs, or on all labs. It returns cli.ErrReported if a mutant has full marks, or is
// undecided, without a recorded reason.
func Run(ctx context.Context, o Options, refs []string) error {
	if o.Blind != "" && len(refs) != 1 {
		return errors.New("a blind set is for one lab: name it, as in `lab mutate 8 --blind set.yaml`")
	}
	subjects, err := o.subjects(ctx, refs)
	if err != nil {
		return err
	}
	if o.List || o.Record {
		for _, s := range subjects {
			if err := o.listOrRecord(s); err != nil {
				return err
			}
		}
		return nil
	}
	chosen, err := o.choose(subjects)
	if err != nil {
		return err
	}
	survived := 0
	for _, s := range subjects {
		mutants := slices.DeleteFunc(slices.Clone(chosen), func(one mutate.Mutant) bool { return one.Solution != s.lab.Name })
		if len(mutants) == 0 {
			continue
		}
		n, err := o.grade(ctx, s, mutants)
		if ctx.Err() != nil {
			command := append([]string{"lab mutate"}, refs...)
			if o.Blind != "" {
				command = append(command, "--blind", o.Blind)
			}
			return fmt.Errorf("interrupted: `%s --again` continues", strings.Join(command, " "))
		}
		if err != nil {
			return err
		}
		survived += n
	}
	if survived > 0 {
		fmt.Fprintf(o.Out, "%d of the mutants have full marks or are undecided. Find them by a better check, "+
			"or say why they have full marks in %s.\n",
			survived, mutate.SurvivorsFile)
		return cli.ErrReported
	}
	return nil
}

// listOrRecord lists the mutants of a lab, or records their figures.
func (o *Options) listOrRecord(s *subject) error {
	if o.List {
		for i := range s.mutants {
			fmt.Fprintln(o.Out, s.mutants[i].String())
		}
	}
	switch {
	case o.Record && s.blind != nil:
		figures := s.blind.Figures(s.ledger)
		fmt.Fprintf(o.Out, "%s: %s\n", s.lab.Name, figures)
		return mutate.RecordBlind(o.Root, s.lab.Name, figures)
	case o.Record:
		fmt.Fprintf(o.Out, "%s: %s\n", s.lab.Name, s.ledger.Figures())
		return mutate.RecordFigures(o.Root, s.lab.Name, s.ledger.Figures())
	}
	return nil
}

// subjects returns the named labs, or all labs, with their mutants.
func (o *Options) subjects(ctx context.Context, refs []string) ([]*subject, error) {
	labs, err := o.Labs.Named(refs)
	if err != nil {
		return nil, err
	}
	out, err := o.Checkout.Out(mutationDir)
	if err != nil {
		return nil, err
	}
	var subjects []*subject
	for _, lab := range labs {
		solution := o.SolutionDir(lab)
		if err := submission.FetchMissing(ctx, "lab "+lab.Name, &submission.Builder{
			Submission: &submission.Submission{Dir: solution},
		}); err != nil {
			return nil, err
		}
		s := &subject{lab: lab}
		if o.Blind != "" {
			if err := s.readBlind(o.Blind, solution, out); err != nil {
				return nil, err
			}
			return []*subject{s}, nil
		}
		// Without compiled packages, this takes minutes.
		bar := progress.Start(os.Stderr, "make the mutants of lab "+lab.Name)
		if s.mutants, err = mutate.Generate(ctx, solution); err != nil {
			bar.Fail()
			return nil, err
		}
		bar.Done()
		if s.survivors, err = mutate.Survivors(solution, s.mutants); err != nil {
			return nil, err
		}
		if s.ledger, err = mutate.OpenLedger(filepath.Join(out, lab.Name+".json"), s.mutants, s.survivors); err != nil {
			return nil, err
		}
		subjects = append(subjects, s)
	}
	return subjects, nil
}

// readBlind reads the blind set in a file.
func (s *subject) readBlind(file, solution, out string) (err error) {
	if s.blind, err = mutate.ReadBlind(file, solution); err != nil {
		return err
	}
	s.mutants, s.survivors = s.blind.All(solution), s.blind.Known()
	s.ledger, err = mutate.OpenLedger(filepath.Join(out, s.lab.Name+"."+s.blind.Name+".json"), s.mutants, s.survivors)
	return err
}

// choose returns the mutants that are to be graded.
func (o *Options) choose(subjects []*subject) ([]mutate.Mutant, error) {
	var chosen []mutate.Mutant
	for _, s := range subjects {
		from := s.mutants
		if o.Again {
			from = s.ledger.Open()
		}
		for _, mutant := range from {
			if s.survivors[mutant.ID].Verdict != mutate.Equivalent || slices.Contains(o.Only, mutant.ID) {
				chosen = append(chosen, mutant)
			}
		}
	}
	switch {
	case len(o.Only) > 0:
		chosen = slices.DeleteFunc(chosen, func(one mutate.Mutant) bool { return !slices.Contains(o.Only, one.ID) })
		for _, id := range o.Only {
			if !slices.ContainsFunc(chosen, func(one mutate.Mutant) bool { return one.ID == id }) {
				return nil, fmt.Errorf("there is no mutant %s: `lab mutate N --list` lists all mutants", id)
			}
		}
	case o.Sample > 0:
		chosen = mutate.Sample(chosen, o.Sample, o.Seed)
		fmt.Fprintf(o.Out, "a sample of %d, with seed %d\n", len(chosen), o.Seed)
	case o.Again && len(chosen) == 0:
		fmt.Fprintln(o.Out, "the last run left no mutants to grade")
	}
	return chosen, nil
}

// grade grades mutants of one lab, and returns how many have full marks without a recorded reason.
func (o *Options) grade(ctx context.Context, s *subject, mutants []mutate.Mutant) (survived int, err error) {
	prepared, err := certify.Prepare(ctx, certify.Options{Checkout: o.Checkout, Parallel: o.Parallel}, nil, s.lab)
	if err != nil {
		return 0, err
	}
	var undecided []mutate.Trial
	for i := range mutants { // so that --again finds those that this run does not reach
		undecided = append(undecided, mutate.Trial{ID: mutants[i].ID, Mutant: mutants[i].Change(), Fate: mutate.Undecided})
	}
	if err := s.ledger.Record(undecided...); err != nil {
		return 0, err
	}
	var trials []mutate.Trial
	started := time.Now()
	run := certify.Mutation{Options: prepared[0], Mutants: mutants, Survivors: s.survivors, Torture: o.Torture}
	run.Ended = func(trial mutate.Trial) error {
		trials = append(trials, trial)
		left := time.Since(started) / time.Duration(len(trials)) * time.Duration(len(mutants)-len(trials))
		fmt.Fprintf(o.Out, "%d of %d, %s left: %s %s (%.0f s): %s",
			len(trials), len(mutants), left.Round(time.Second), trial.Fate, trial.ID, trial.Seconds, trial.Mutant)
		if trial.Why != "" {
			fmt.Fprintf(o.Out, ": %s", trial.Why)
		}
		fmt.Fprintln(o.Out)
		return s.ledger.Record(trial)
	}
	err = certify.Mutate(ctx, run)
	if s.blind != nil {
		fmt.Fprintf(o.Out, "%s: %s\n", s.lab.Name, s.blind.Figures(s.ledger))
		return 0, err // a blind set is only measured, so gaps are no error
	}
	figures := mutate.Count(trials)
	fmt.Fprintf(o.Out, "%s: %s\n", s.lab.Name, figures)
	return figures.Survived + figures.Undecided, err
}
