// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/faults"
)

// These constants limit how long the API server refuses: until an operator has tried the same request refusedTries
// times, for refusedCalm after its last try, or for untried if it does not try at all, but never longer than
// refusedLimit.
const (
	refusedTries = 5
	refusedCalm  = 600 * time.Millisecond
	untried      = 300 * time.Millisecond
	refusedLimit = 3 * time.Second
	refusedLook  = 25 * time.Millisecond
)

// RefusedAtFirst makes a change while the API server refuses all requests of a class. However often the change triggers
// the operator, none of its requests succeeds. Only an operator that retries does the remaining work later.
func (c *Check) RefusedAtFirst(ctx context.Context, t *testing.T, kind faults.Kind, class faults.Class, change func()) {
	t.Helper()
	c.Settle(ctx, t)
	c.OK(t, "arming the faults",
		c.Faults.Arm(ctx, faults.Schedule{Faults: []faults.Fault{{Kind: kind, Class: class, Service: faults.API}}}))
	began := time.Now()
	change()
	calm := untried
	for last, tries := began, 0; tries < refusedTries && time.Since(last) < calm && time.Since(began) < refusedLimit; {
		c.Pause(ctx, t, refusedLook)
		log, err := c.Faults.Log(ctx)
		c.OK(t, "reading the log of requests", err)
		refused := slices.DeleteFunc(log, func(e faults.Entry) bool {
			return e.Service != faults.API || !e.Injected || e.Time.Before(began)
		})
		if tries = Tries(refused); tries > 0 {
			last, calm = refused[len(refused)-1].Time, refusedCalm
		}
	}
	c.OK(t, "disarming the faults", c.Faults.Disarm(ctx))
}

// Tries returns the largest number of requests for the same thing. A single call of Reconcile sends many different
// requests, so the total would not be the number of tries.
func Tries(requests []faults.Entry) (most int) {
	counts := map[string]int{}
	for _, request := range requests {
		counts[request.Summary()]++
		most = max(most, counts[request.Summary()])
	}
	return most
}

// Backoff returns the longest pause between attempts, or since the last one, and a description of what was observed.
// There must be at least one attempt.
func Backoff(attempts []faults.Entry) (longest time.Duration, observed string) {
	longest = time.Since(attempts[len(attempts)-1].Time)
	for i := range len(attempts) - 1 {
		longest = max(longest, attempts[i+1].Time.Sub(attempts[i].Time))
	}
	return longest, fmt.Sprintf("%d attempts within %s, and no pause longer than %s", len(attempts),
		time.Since(attempts[0].Time).Round(time.Millisecond), longest.Round(time.Millisecond))
}
