// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

// change describes which changes of a mutant a test can see.
type change struct {
	// edits are the edits that are applied: those of the mutant, without edits of tests.
	edits []mutant.Edit
	// folders are the folders of packages whose code changes, slash-separated from the module's root.
	folders []string
	// unseen is the reason why no test can see the change. It is empty if a test can see it.
	unseen string
}

// changeOf finds out how a mutant changes the solution in a folder. programs are the folders of packages main. Markers
// are comments. An API server of envtest lets its administrator do everything, and it has the committed CRDs. So
// neither roles nor manifests affect a test.
func changeOf(m *mutant.Mutant, dir string, programs []string) (change, error) {
	c := change{unseen: m.Untestable}
	type file struct{ before, after []byte }
	files := map[string]file{}
	for _, edit := range m.Edits {
		if strings.HasSuffix(edit.File, "_test.go") {
			continue
		}
		c.edits = append(c.edits, edit)
		changed, ok := files[edit.File]
		if !ok {
			content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(edit.File)))
			if err != nil {
				return c, fmt.Errorf("the mutant %s: %w", m.Name, err)
			}
			changed = file{content, content}
		}
		after, err := edit.Apply(changed.after)
		if err != nil {
			return c, fmt.Errorf("the mutant %s: %w", m.Name, err)
		}
		changed.after = after
		files[edit.File] = changed
	}
	inProgram := false
	for name, changed := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		folder := path.Dir(name)
		switch {
		case slices.Equal(code(changed.before), code(changed.after)):
		case slices.Contains(programs, folder):
			inProgram = true
		case !slices.Contains(c.folders, folder):
			c.folders = append(c.folders, folder)
		}
	}
	switch {
	case c.unseen != "" || len(c.folders) > 0:
	case inProgram:
		c.unseen = "it changes package main, which tests do not run"
	default:
		c.unseen = "it changes markers or manifests only, which no Go test runs"
	}
	return c, nil
}

// code returns the tokens of a file without its comments.
func code(content []byte) (tokens []string) {
	set := token.NewFileSet()
	var s scanner.Scanner
	s.Init(set.AddFile("", set.Base(), len(content)), content, nil, 0)
	for {
		_, kind, literal := s.Scan()
		if kind == token.EOF {
			return tokens
		}
		tokens = append(tokens, kind.String()+" "+literal)
	}
}

// mutants reads the list of mutants, and finds out which of them a test can see.
func (g *grading) mutants(solution *submission.Submission) (changes []change, err error) {
	list, err := mutant.Load(g.Solution)
	if err != nil {
		return nil, err
	}
	programs := []string{path.Clean(solution.Main)}
	for i := range list.Mutants {
		m := &list.Mutants[i]
		c, err := changeOf(m, g.Solution, programs)
		if err != nil {
			return nil, err
		}
		if len(g.Only) > 0 && !slices.Contains(g.Only, m.Name) {
			continue
		}
		tested := report.TestedMutant{Number: i + 1, Name: m.Name, Misconception: m.Misconception, Fate: report.MutantUntried}
		if c.unseen != "" {
			tested.Fate, tested.By = report.MutantUnseen, c.unseen
		}
		g.report.Mutants, changes = append(g.report.Mutants, tested), append(changes, c)
	}
	for _, name := range g.Only {
		if !slices.ContainsFunc(list.Mutants, func(m mutant.Mutant) bool { return m.Name == name }) {
			return nil, fmt.Errorf("there is no mutant %s in %s", name, filepath.Join(filepath.Base(g.Solution), mutant.File))
		}
	}
	return changes, nil
}

// reached finds out which packages of the module each test program contains.
func (g *grading) reached(ctx context.Context) (map[string][]string, error) {
	reach := map[string][]string{}
	for _, t := range g.tested {
		imported, err := g.builder(g.base).TestDependencies(ctx, t.folder)
		if err != nil {
			return nil, err
		}
		for _, name := range imported {
			if folder, own := strings.CutPrefix(name, g.base.Module+"/"); own {
				reach[t.folder] = append(reach[t.folder], folder)
			}
		}
	}
	return reach, nil
}

// tryAll tries the mutants, several at once.
func (g *grading) tryAll(ctx context.Context, changes []change) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deadline := time.Now().Add(g.Within)
	var todo []int
	for i, m := range g.report.Mutants {
		if m.Fate == report.MutantUntried {
			todo = append(todo, i)
		}
	}
	var group sync.WaitGroup
	var mutex sync.Mutex
	var problems []error
	done, late := 0, false
	slots := make(chan struct{}, g.Parallel)
	for _, i := range todo {
		slots <- struct{}{}
		mutex.Lock()
		failed := len(problems) > 0
		decided := g.Decide && g.decided(len(todo))
		mutex.Unlock()
		if ctx.Err() != nil || failed || decided {
			<-slots
			break
		}
		m := &g.report.Mutants[i]
		if time.Now().After(deadline) {
			late, m.By = true, "the time was up"
			<-slots
			continue
		}
		mutex.Lock()
		g.Progress("mutants", done, len(todo))
		mutex.Unlock()
		group.Go(func() {
			defer func() { <-slots }()
			started := time.Now()
			fate, by, err := g.try(ctx, m.Number, changes[i])
			mutex.Lock()
			defer mutex.Unlock()
			done++
			g.Progress("mutants", done, len(todo))
			if err != nil {
				problems = append(problems, err)
				return
			}
			m.Fate, m.By, m.Seconds = fate, by, time.Since(started).Seconds()
		})
	}
	group.Wait()
	if err := errors.Join(problems...); err != nil || !late {
		return err
	}
	return errLate
}

// decided reports whether the remaining mutants can no longer change whether enough of the mutants are found.
func (g *grading) decided(total int) bool {
	found, missed := g.report.Count(report.MutantFound), g.report.Count(report.MutantMissed)
	return 100*found >= g.report.Want*total || 100*(total-missed) < g.report.Want*total
}

// try runs the tests that reach a mutant. The tests that were fastest on the solution run first, until one fails.
func (g *grading) try(ctx context.Context, number int, c change) (fate report.MutantFate, by string, err error) {
	var tests []testedPackage
	for _, t := range g.tested {
		if slices.ContainsFunc(c.folders, func(folder string) bool { return slices.Contains(g.reach[t.folder], folder) }) {
			tests = append(tests, t)
		}
	}
	if len(tests) == 0 {
		return report.MutantMissed, "no test runs the code that it changes", nil
	}
	slices.SortStableFunc(tests, func(a, b testedPackage) int { return cmp.Compare(g.took[a.folder], g.took[b.folder]) })
	trial := g.newTrial()
	defer func() { err = errors.Join(err, os.RemoveAll(string(trial))) }()
	module := trial.module()
	if err := trial.copyFrom(g.base.Dir); err != nil {
		return "", "", err
	}
	if err := (&mutant.Mutant{Name: strconv.Itoa(number), Edits: c.edits}).Apply(module); err != nil {
		return "", "", err
	}
	programs, err := g.compile(ctx, &submission.Submission{Dir: module}, tests, trial, false)
	if problem, ok := errors.AsType[*submission.Problem](err); ok {
		return report.MutantUntried, strings.ReplaceAll("the tests do not compile with it: "+problem.Error(), "\n", "; "), nil
	}
	if err != nil {
		return "", "", err
	}
	if err := removeSources(module); err != nil {
		return "", "", err
	}
	for i, t := range tests {
		p := program{
			path: programs[i], module: module, dir: filepath.Join(module, filepath.FromSlash(t.runs)),
			limit: min(rightLimit, max(atLeast, slower*g.took[t.folder])), toFirst: true,
		}
		v, err := g.runWalled(ctx, p)
		if err == nil && v.noAPIServer {
			v, err = g.runWalled(ctx, p)
		}
		switch {
		case err != nil:
			return "", "", err
		case !v.Passed && v.noAPIServer:
			return report.MutantUntried, "no API server started, twice", nil
		case !v.Passed:
			return report.MutantFound, v.by, nil
		}
	}
	return report.MutantMissed, "", nil
}
