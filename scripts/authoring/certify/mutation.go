// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/mutate"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// Mutation configures the grading of automatic mutants of a lab's solution.
type Mutation struct {
	Options
	Mutants []mutate.Mutant
	// Survivors are the mutants that are known to get full marks, by ID, with the reason.
	Survivors map[string]mutate.Survivor
	// Torture also tortures the mutants that get full marks.
	Torture bool
	// Ended is called with the result of each mutant, one at a time. An error ends the run.
	Ended func(mutate.Trial) error
}

// Mutate grades automatic mutants.
func Mutate(ctx context.Context, m Mutation) (err error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	if err := m.share(scope.Dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.pool.Close()) }()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var group sync.WaitGroup
	var mutex sync.Mutex
	slots := make(chan struct{}, max(1, m.Parallel))
	for i := range m.Mutants {
		mutant := &m.Mutants[i]
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		group.Go(func() {
			defer func() { <-slots }()
			trial := m.try(ctx, mutant, filepath.Join(scope.Dir, mutant.ID))
			mutex.Lock()
			defer mutex.Unlock()
			if ctx.Err() != nil {
				return // nothing was decided
			}
			if err := m.Ended(trial); err != nil {
				end(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// try grades one mutant.
func (m *Mutation) try(ctx context.Context, mutant *mutate.Mutant, dir string) mutate.Trial {
	started := time.Now()
	trial := mutate.Trial{ID: mutant.ID, Mutant: mutant.Change()}
	var err error
	trial.Fate, trial.Why, err = m.fate(ctx, mutant, dir)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		trial.Fate, trial.Why = mutate.Undecided, err.Error()
	}
	trial.Seconds = time.Since(started).Seconds()
	return trial
}

func (m *Mutation) fate(
	ctx context.Context, mutant *mutate.Mutant, dir string,
) (fate mutate.Fate, why string, err error) {
	if err := errors.Join(os.CopyFS(dir, os.DirFS(m.SolutionDir(m.Lab))), mutant.Apply(dir)); err != nil {
		return "", "", err
	}
	if !m.sameOrigin(dir) {
		// If no manifests can be generated, those of the solution stay, as they would in a student's folder. The grader must
		// not take them for manifests of the mutant.
		generator := skeleton.Generator{Root: m.Root, ControllerGen: m.ControllerGen}
		if generator.Manifests(ctx, dir) == nil && !m.Lab.Operator && !m.deployed() {
			same, err := sameFiles(filepath.Join(m.SolutionDir(m.Lab), "config"), filepath.Join(dir, "config"))
			if err != nil {
				return "", "", err
			}
			if same {
				return mutate.Fate(mutate.Equivalent), "its manifests are the solution's, and nothing else is graded", nil
			}
		}
	}
	lease := m.pool.Lease()
	defer lease.Return()
	run := m.Run(dir)
	run.Seed, run.Start, run.UntilFailed = mutantSeed, lease.Start, true
	result := grade.Run(ctx, run)
	known, isKnown := m.Survivors[mutant.ID]
	switch result.Outcome {
	case report.Graded:
		if !result.Complete() {
			why = strings.Join(failed(result), ", ")
			if isKnown {
				why += fmt.Sprintf("; %s has %s: remove that entry", mutate.SurvivorsFile, known.Verdict)
			}
			return mutate.Found, why, nil
		}
	case report.NotBuilt, report.NotGenerated:
		return mutate.Stillborn, result.Outcome.Headline(), nil
	case report.NotStarted, report.Crashed, report.Flooded, report.TimedOut:
		return mutate.Found, result.Outcome.Headline(), nil
	default:
		return "", "", errors.New(result.Reason)
	}
	if m.Torture && m.Lab.Operator && !m.deployed() && known.Verdict != mutate.Equivalent {
		run.Scenes, run.UntilFailed = true, false
		trials := grade.Torture(ctx, run, grade.RandomSchedules, func(protocol.Trial) {})
		switch {
		case trials.Failure != nil:
			return mutate.FoundTortured, trials.Failure.Schedule.String(), nil
		case !trials.Survived():
			return "", "", errors.New(trials.Run.Reason)
		case known.Verdict == mutate.Tortured:
			return mutate.Survived, fmt.Sprintf("%s expects that it fails the torture", mutate.SurvivorsFile), nil
		}
	}
	if isKnown {
		return mutate.Fate(known.Verdict), known.Reason, nil
	}
	return mutate.Survived, "", nil
}

// sameFiles reports whether two folders have the same files.
func sameFiles(one, other string) (bool, error) {
	read := func(dir string) (map[string]string, error) {
		files := map[string]string{}
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(name)
			files[strings.TrimPrefix(name, dir)] = string(content)
			return err
		})
		return files, err
	}
	a, errA := read(one)
	b, errB := read(other)
	return maps.Equal(a, b), errors.Join(errA, errB)
}

// failed returns the checks that a submission failed.
func failed(result *report.Report) (ids []string) {
	for _, check := range result.Checks {
		if check.Status == report.Failed {
			ids = append(ids, check.ID)
		}
	}
	return ids
}
