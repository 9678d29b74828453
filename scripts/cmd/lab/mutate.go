// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/authoring/certify"
	"lva.io/operators/scripts/authoring/mutate"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
)

// mutationDir, below out, holds the ledgers of the labs' mutants.
const mutationDir = "mutation"

func mutateCommand() *cobra.Command {
	var m mutation
	command := &cobra.Command{
		Use: "mutate [N…]", GroupID: groupMaintainers,
		Short: "Make wrong solutions automatically, and see which have full marks",
		Long: "mutate makes a mutant of a lab's solution for each small change of its syntax tree and of its markers, " +
			"grades each, and\n" +
			"lists those that have full marks. Such a mutant shows a gap in the checks, or is no mistake. " +
			"The results of the mutants\n" +
			"are kept in out/mutation, " +
			"and what is known of those that have full marks in solutions/NN-name/" + mutate.SurvivorsFile + ".\n" +
			"With --blind it grades the solutions of a file instead, which an author wrote without a look at the checks.",
		Example: "  lab mutate 2\n  lab mutate --sample 10 --seed 7\n  lab mutate 3 --again --torture\n" +
			"  lab mutate 8 --blind set.yaml",
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			m.Checkout = repo
			if m.blind != "" && len(args) != 1 {
				return errors.New("a blind set is for one lab: name it, as in `lab mutate 8 --blind set.yaml`")
			}
			return m.run(command.Context(), args, command.Flags().Changed("seed"))
		},
	}
	flags := command.Flags()
	flags.BoolVar(&m.list, "list", false, "list the mutants without grading them")
	flags.Var((*cli.Count)(&m.sample), "sample", "how many to try, of all labs together (default: all)")
	flags.Uint32Var(&m.seed, "seed", 0, "take the same sample as an earlier run (default: a new one)")
	flags.BoolVar(&m.again, "again", false,
		"resume the last run: grade mutants that survived, and those that were not graded")
	flags.StringSliceVar(&m.only, "only", nil, "try these mutants, by their IDs, even if they are known to be equivalent")
	flags.BoolVar(&m.torture, "torture", false, "torture those that have full marks")
	flags.BoolVar(&m.record, "record", false,
		"write the results of earlier runs to "+mutate.FiguresFile+", without grading")
	flags.StringVar(&m.blind, "blind", "",
		"grade the mutants and right designs of this file, instead of automatic mutants")
	m.Parallel = 2
	flags.Var((*cli.Count)(&m.Parallel), "parallel", "how many to grade in parallel")
	for _, other := range []string{"again", "only"} {
		cli.Exclusive(command, "sample", other)
	}
	cli.Exclusive(command, "again", "only")
	return command
}

// mutation is one call of the command.
type mutation struct {
	certify.Options
	sample      int
	seed        uint32
	only        []string
	list, again bool
	torture     bool
	record      bool
	blind       string
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

func (m *mutation) run(ctx context.Context, refs []string, seeded bool) error {
	subjects, err := m.subjects(ctx, refs)
	if err != nil {
		return err
	}
	if m.list || m.record {
		for _, s := range subjects {
			if err := m.listOrRecord(s); err != nil {
				return err
			}
		}
		return nil
	}
	if m.sample > 0 && !seeded {
		m.seed = rand.Uint32()
	}
	chosen, err := m.choose(subjects)
	if err != nil {
		return err
	}
	survived := 0
	for _, s := range subjects {
		mutants := slices.DeleteFunc(slices.Clone(chosen), func(one mutate.Mutant) bool { return one.Solution != s.lab.Name })
		if len(mutants) == 0 {
			continue
		}
		n, err := m.grade(ctx, s, mutants)
		if ctx.Err() != nil {
			command := append([]string{"lab mutate"}, refs...)
			if m.blind != "" {
				command = append(command, "--blind", m.blind)
			}
			return fmt.Errorf("interrupted: `%s --again` continues", strings.Join(command, " "))
		}
		if err != nil {
			return err
		}
		survived += n
	}
	if survived > 0 {
		fmt.Printf("%d of the mutants have full marks or are undecided. Find them by a better check, "+
			"or say why they have full marks in %s.\n",
			survived, mutate.SurvivorsFile)
		return cli.ErrReported
	}
	return nil
}

// listOrRecord lists the mutants of a lab, or records their figures.
func (m *mutation) listOrRecord(s *subject) error {
	if m.list {
		for i := range s.mutants {
			fmt.Println(s.mutants[i].String())
		}
	}
	switch {
	case m.record && s.blind != nil:
		figures := s.blind.Figures(s.ledger)
		fmt.Printf("%s: %s\n", s.lab.Name, figures)
		return mutate.RecordBlind(m.Root, s.lab.Name, figures)
	case m.record:
		fmt.Printf("%s: %s\n", s.lab.Name, s.ledger.Figures())
		return mutate.RecordFigures(m.Root, s.lab.Name, s.ledger.Figures())
	}
	return nil
}

// subjects returns the named labs, or all labs, with their mutants.
func (m *mutation) subjects(ctx context.Context, refs []string) ([]*subject, error) {
	labs, err := m.Labs.Named(refs)
	if err != nil {
		return nil, err
	}
	out, err := m.Checkout.Out(mutationDir)
	if err != nil {
		return nil, err
	}
	var subjects []*subject
	for _, lab := range labs {
		solution := m.SolutionDir(lab)
		if err := fetchModules(ctx, m.Checkout, solution, ""); err != nil {
			return nil, err
		}
		s := &subject{lab: lab}
		if m.blind != "" {
			if err := s.readBlind(m.blind, solution, out); err != nil {
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
func (m *mutation) choose(subjects []*subject) ([]mutate.Mutant, error) {
	var chosen []mutate.Mutant
	for _, s := range subjects {
		from := s.mutants
		if m.again {
			from = s.ledger.Open()
		}
		for _, mutant := range from {
			if s.survivors[mutant.ID].Verdict != mutate.Equivalent || slices.Contains(m.only, mutant.ID) {
				chosen = append(chosen, mutant)
			}
		}
	}
	switch {
	case len(m.only) > 0:
		chosen = slices.DeleteFunc(chosen, func(one mutate.Mutant) bool { return !slices.Contains(m.only, one.ID) })
		for _, id := range m.only {
			if !slices.ContainsFunc(chosen, func(one mutate.Mutant) bool { return one.ID == id }) {
				return nil, fmt.Errorf("there is no mutant %s: `lab mutate N --list` lists all mutants", id)
			}
		}
	case m.sample > 0:
		chosen = mutate.Sample(chosen, m.sample, m.seed)
		fmt.Printf("a sample of %d, with seed %d\n", len(chosen), m.seed)
	case m.again && len(chosen) == 0:
		fmt.Println("the last run left no mutants to grade")
	}
	return chosen, nil
}

// grade grades mutants of one lab, and returns how many have full marks without a recorded reason.
func (m *mutation) grade(ctx context.Context, s *subject, mutants []mutate.Mutant) (survived int, err error) {
	prepared, err := certify.Prepare(ctx, m.Options, nil, s.lab)
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
	run := certify.Mutation{Options: prepared[0], Mutants: mutants, Survivors: s.survivors, Torture: m.torture}
	run.Ended = func(trial mutate.Trial) error {
		trials = append(trials, trial)
		left := time.Since(started) / time.Duration(len(trials)) * time.Duration(len(mutants)-len(trials))
		fmt.Printf("%d of %d, %s left: %s %s (%.0f s): %s",
			len(trials), len(mutants), left.Round(time.Second), trial.Fate, trial.ID, trial.Seconds, trial.Mutant)
		if trial.Why != "" {
			fmt.Printf(": %s", trial.Why)
		}
		fmt.Println()
		return s.ledger.Record(trial)
	}
	err = certify.Mutate(ctx, run)
	if s.blind != nil {
		fmt.Printf("%s: %s\n", s.lab.Name, s.blind.Figures(s.ledger))
		return 0, err // a blind set is only measured, so gaps are no error
	}
	figures := mutate.Count(trials)
	fmt.Printf("%s: %s\n", s.lab.Name, figures)
	return figures.Survived + figures.Undecided, err
}
