// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/stopwatch"
)

// Lab certifies the graders of one lab. The error names the submissions that were not graded as expected. A line of Out
// explains each of them.
func Lab(ctx context.Context, options Options) error { return Labs(ctx, []Options{options}, nil) }

// Labs certifies the graders of several labs. With a draw, not all mutants are graded. The Parallel of the first lab is
// how many submissions are graded at once. Only a few submissions of labs whose clusters have a node can be graded at
// once. Such a lab begins when no submission of the one before it is waiting, and labs without a node are graded beside
// all of them. After a lab that is not certified, no other submission begins.
func Labs(ctx context.Context, labs []Options, draw *Draw) (err error) {
	if draw != nil {
		chosen, err := draw.choose(ctx, labs)
		if err != nil {
			return err
		}
		for i := range labs {
			labs[i].choice = chosen[i]
		}
	}
	var waiting []*certification
	for _, options := range labs {
		c, err := newCertification(options)
		if err != nil {
			return err
		}
		if len(c.jobs) > 0 {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	atOnce := max(1, waiting[0].Parallel)
	withNodeFirst(waiting)
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	first := waiting[0]
	if err := first.keepBusy(scope); err != nil {
		return err
	}
	watch := stopwatch.Start()
	if err := gradeAll(ctx, waiting, atOnce); err != nil {
		return err
	}
	fmt.Fprintf(first.Out, "Certified in %s.\n", watch.Elapsed())
	return nil
}

// Uncertified is the error of a lab with submissions that were not graded as expected.
type Uncertified struct {
	Lab    string
	Graded int
	// Names are those submissions. Explained describes how each was graded.
	Names, Explained []string
}

func (u *Uncertified) Error() string {
	return fmt.Sprintf("lab %s is not certified: of %d submissions, these did not get the expected grade: %s",
		u.Lab, u.Graded, strings.Join(u.Names, ", "))
}

// repetitions is how often a failed grading is repeated. flakyMost is how often Repeating forgives failures.
const (
	repetitions = 2
	flakyMost   = 10
)

// Repeating calls Labs for a gate. It grades the submissions that did not get the expected grade again, alone, at most
// twice. If they then get the expected grade, the remaining submissions follow. It calls forgiven with their names and
// labs, and with the earlier deviations. The labs must not be graded under a load or several times, since no results
// are remembered then.
func Repeating(ctx context.Context, labs []Options, draw *Draw, forgiven func(name, explained string) error) error {
	for i := range labs {
		labs[i].Single = true
	}
	for n := 0; ; n++ {
		err := Labs(ctx, labs, draw)
		wrong, only := uncertified(err)
		if err == nil || !only || ctx.Err() != nil || n == flakyMost {
			return err
		}
		for _, u := range wrong {
			i := slices.IndexFunc(labs, func(o Options) bool { return o.Lab.Name == u.Lab })
			if err := labs[i].repeat(ctx, u, forgiven); err != nil {
				return err
			}
		}
	}
}

// repeat grades the submissions that did not get the expected grade again, alone.
func (o Options) repeat(
	ctx context.Context, wrong *Uncertified, forgiven func(name, explained string) error,
) (err error) {
	o.Only, o.Parallel, o.choice = wrong.Names, 1, nil
	fmt.Fprintf(o.Out, "\nGrading these of lab %s again, alone: %s\n", wrong.Lab, strings.Join(wrong.Names, ", "))
	for range repetitions {
		if err = Lab(ctx, o); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	for i, name := range wrong.Names {
		if err := forgiven("lab "+wrong.Lab+" "+name, wrong.Explained[i]); err != nil {
			return err
		}
	}
	return nil
}

// uncertified returns the labs that an error names. only reports that the error contains no other errors.
func uncertified(err error) (labs []*Uncertified, only bool) {
	switch e := err.(type) { //nolint:errorlint // the loop looks at each part of a joined error
	case *Uncertified:
		return []*Uncertified{e}, true
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			more, onlyThese := uncertified(part)
			if !onlyThese {
				return nil, false
			}
			labs = append(labs, more...)
		}
		return labs, true
	}
	return nil, false
}

// job is a grading to be done.
type job struct {
	candidate
	// dir is the name of the job's folder, without the number of the attempt.
	dir string
}

// certification is the certification of one lab.
type certification struct {
	Options
	jobs    []job // that have not begun
	running int
	graded  int

	scope *process.Scope // nil before the first one begins
	began time.Time
	// problems are internal errors. wrong has the names of submissions without the expected grade, and explained has their
	// lines of the output.
	problems         []error
	wrong, explained []string
}

func newCertification(options Options) (*certification, error) {
	candidates, err := options.candidates()
	if err != nil {
		return nil, err
	}
	candidates = options.drawn(candidates)
	c := &certification{Options: options}
	for n := range max(1, options.Repeat, options.Soak) {
		for _, candidate := range candidates {
			if n >= options.times(candidate) {
				continue
			}
			if n >= max(1, options.Repeat) {
				// A solution has full marks in any order of the checks.
				candidate.first = options.Lab.Checks[rand.IntN(len(options.Lab.Checks))].ID
			}
			c.jobs = append(c.jobs, job{candidate, fmt.Sprintf("%s-%d", candidate.name, n)})
		}
	}
	return c, nil
}

// open sets up what all gradings share.
func (c *certification) open() (err error) {
	if c.scope, err = process.NewScope(process.Options{}); err != nil {
		return err
	}
	if err := errors.Join(c.share(c.scope.Dir), c.remember()); err != nil {
		return errors.Join(err, c.scope.Close())
	}
	if c.choice != nil {
		fmt.Fprintf(c.Out, "%s: %s\n", c.Lab.Name, c.choice)
	}
	c.began = time.Now()
	return nil
}

// close removes what the gradings shared. It returns an error unless the lab is certified.
func (c *certification) close(ctx context.Context) error {
	ended := errors.Join(c.pool.Close(), c.scope.Close())
	fmt.Fprintf(c.Out, "%s: %d graded, %.1f s\n", c.Lab.Name, c.graded, time.Since(c.began).Seconds())
	switch {
	case ctx.Err() != nil:
		return ended
	case len(c.problems) > 0:
		return errors.Join(append(c.problems, ended)...)
	case len(c.wrong) > 0:
		if c.graded > len(c.wrong) { // repeated at the end, since many CI systems keep only the end of a long log
			fmt.Fprint(c.Out, "\n", strings.Join(c.explained, ""))
		}
		return errors.Join(&Uncertified{Lab: c.Lab.Name, Graded: c.graded, Names: c.wrong, Explained: c.explained}, ended)
	}
	return ended
}

// graded is the result of a job.
type graded struct {
	certification *certification
	name          string
	line          string // for Out
	failed        bool
	err           error
}

func (c *certification) do(ctx context.Context, j job) graded {
	started := time.Now()
	result, err := c.certify(ctx, j.candidate, filepath.Join(c.scope.Dir, j.dir))
	if err != nil {
		return graded{certification: c, err: err}
	}
	return graded{
		certification: c, name: j.name, line: c.verdict(j.candidate, time.Since(started), result),
		failed: len(result.deviations) > 0,
	}
}

func (c *certification) record(g graded) {
	c.running--
	c.graded++
	fmt.Fprint(c.Out, g.line)
	if g.err != nil {
		c.problems = append(c.problems, g.err)
	}
	if g.failed {
		c.wrong, c.explained = append(c.wrong, g.name), append(c.explained, g.line)
	}
}

// withNodeFirst puts labs whose clusters have a node before the others. Few of their submissions can be graded at once,
// which leaves a processor idle. At the end of the run no other submission would use it.
func withNodeFirst(all []*certification) {
	slices.SortStableFunc(all, func(a, b *certification) int {
		switch {
		case a.withNode() == b.withNode():
			return 0
		case a.withNode():
			return -1
		}
		return 1
	})
}

// next returns the first certification that has a job and may begin it. It returns nil if there is none.
func next(all []*certification) *certification {
	nodes := 0
	for _, c := range all {
		if c.withNode() {
			nodes += c.running
		}
	}
	nodeWaits := false
	for _, c := range all {
		running := c.running
		switch {
		case len(c.jobs) == 0 || c.withNode() && nodeWaits:
			continue
		case c.withNode():
			running, nodeWaits = nodes, true
		}
		if running < c.atOnce() {
			return c
		}
	}
	return nil
}

// gradeAll does all jobs, at most atOnce of them at the same time.
func gradeAll(ctx context.Context, all []*certification, atOnce int) error {
	ended := make(chan graded)
	running := 0
	var problems []error
	for {
		for len(problems) == 0 && ctx.Err() == nil && running < atOnce {
			c := next(all)
			if c == nil {
				break
			}
			if c.scope == nil {
				if err := c.open(); err != nil {
					c.scope, problems = nil, append(problems, err)
					break
				}
			}
			j := c.jobs[0]
			c.jobs = c.jobs[1:]
			c.running++
			running++
			go func() { ended <- c.do(ctx, j) }()
		}
		if running == 0 {
			break
		}
		g := <-ended
		running--
		g.certification.record(g)
		if len(g.certification.jobs) == 0 && g.certification.running == 0 {
			if err := g.certification.close(ctx); err != nil {
				problems = append(problems, err)
			}
			g.certification.scope = nil
		}
	}
	for _, c := range all {
		if c.scope != nil { // it was interrupted
			problems = append(problems, c.close(ctx))
		}
	}
	if ctx.Err() != nil {
		return errors.Join(append(problems, context.Cause(ctx))...)
	}
	return errors.Join(problems...)
}
