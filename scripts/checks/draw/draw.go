// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package draw

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Property is a statement that must hold for all cases.
type Property[Case any] struct {
	// Name makes the cases of one property differ from those of others that are drawn from the same seed.
	Name string
	// Count is how many cases are drawn for a seed. Draw returns the case with a number from 0 to Count-1. It derives the
	// cases that must not depend on chance, such as the values at a limit, from the number.
	Count int
	Draw  func(random *rand.Rand, number int) Case
	// Try returns the observation in a case for which the statement does not hold, or an empty text if it holds. An error
	// is internal, and ends the search. Try is called from several goroutines.
	Try func(context.Context, Case) (observed string, err error)
	// Smaller returns cases that are simpler than this one, the simplest first. None of them may have this one among its
	// own, directly or indirectly. Otherwise shrinking would not end.
	Smaller func(Case) []Case
}

// Counterexample is a case for which a property does not hold.
type Counterexample[Case any] struct {
	Case     Case
	Observed string
	// Drawn is the original case, before it was shrunk.
	Drawn Case
}

// These constants limit how long, and how often, smaller cases are tried, because a student waits for the verdict.
const (
	shrinkTime  = 5 * time.Second
	shrinkTries = 2000
)

// Searches is Search for a number of seeds, of which the given one is the first. 0 means one.
func (p Property[Case]) Searches(ctx context.Context, seed uint32, seeds int) (*Counterexample[Case], error) {
	for n := range uint32(max(1, seeds)) { //nolint:gosec // there are far fewer than billions of them
		if found, err := p.Search(ctx, seed+n); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// Search tries all cases of a seed. It returns the first case for which the property does not hold, shrunk, or nil if
// there is none. The same seed always draws the same cases.
func (p Property[Case]) Search(ctx context.Context, seed uint32) (*Counterexample[Case], error) {
	cases := p.cases(seed)
	observed := make([]string, len(cases))
	var found atomic.Bool
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(4 * runtime.GOMAXPROCS(0)) // the server waits for others in the meantime
	// Cases begin in their order, so all cases before a failing one are tried to their end.
	for i := range cases {
		if found.Load() {
			break
		}
		group.Go(func() error {
			message, err := p.Try(groupCtx, cases[i])
			if err != nil || message == "" {
				return err
			}
			observed[i] = message
			found.Store(true)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	first := slices.IndexFunc(observed, func(message string) bool { return message != "" })
	if first < 0 {
		return nil, nil
	}
	return p.shrink(ctx, Counterexample[Case]{Case: cases[first], Observed: observed[first], Drawn: cases[first]})
}

// cases returns the cases of a seed.
func (p Property[Case]) cases(seed uint32) []Case {
	stream := fnv.New64a()
	_, _ = stream.Write([]byte(p.Name))
	random := rand.New(rand.NewPCG(uint64(seed), stream.Sum64())) //nolint:gosec // a seed must make the same cases each time
	cases := make([]Case, p.Count)
	for i := range cases {
		cases[i] = p.Draw(random, i)
	}
	return cases
}

// shrink replaces a counterexample by a smaller one until there is none.
func (p Property[Case]) shrink(ctx context.Context, smallest Counterexample[Case]) (*Counterexample[Case], error) {
	if p.Smaller == nil {
		return &smallest, nil
	}
	end := time.Now().Add(shrinkTime)
	tries := 0
	for again := true; again; {
		again = false
		for _, smaller := range p.Smaller(smallest.Case) {
			if tries++; tries > shrinkTries || time.Now().After(end) {
				return &smallest, nil
			}
			observed, err := p.Try(ctx, smaller)
			if err != nil {
				return nil, err
			}
			if observed != "" {
				smallest.Case, smallest.Observed = smaller, observed
				again = true
				break
			}
		}
	}
	return &smallest, nil
}
