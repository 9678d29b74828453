// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/report"
)

// How long checks wait. deadline is for a busy machine; patience ends the wait for an operator that does nothing any
// more: it has no more to say, so that a wrong submission gets its verdict soon.
const (
	deadline = 20 * time.Second
	patience = 3 * time.Second
)

// Quiet windows: how long an operator must have been silent to count as done. The window grows with the lag that the
// lab's checks see, since on a busy machine silence means less.
const (
	minimalWindow = 75 * time.Millisecond
	maximalWindow = 2 * time.Second
	lagFactor     = 10
)

// evidenceLines is how many requests a failed check shows: the last ones.
const evidenceLines = 8

type checkKey struct{}

type failure struct {
	expected, observed string
	evidence           []string
}

// Check is a check while it runs.
type Check struct {
	*Suite
	ID string

	began audit.Mark
	// begun and done count the steps: one that skips itself is not done.
	begun, done  int
	failure      *failure
	measurements []report.Measurement
	// schedule is what goes wrong during the check, if anything does, and armedAt the ID of the last entry of the log
	// before it did.
	schedule *faults.Schedule
	armedAt  int
}

// Assess makes a step of a feature from a function of the check that runs it.
func Assess(step func(context.Context, *testing.T, *Check)) types.StepFunc {
	return func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		t.Helper()
		check := ctx.Value(checkKey{}).(*Check)
		if check.failure != nil {
			// The framework goes on with the next step after one that failed.
			t.Skip("an earlier step failed")
		}
		check.begun++
		step(ctx, t, check)
		check.done++
		return ctx
	}
}

// Teardown makes the last step of a feature, which runs also when the check failed: it restores what later checks need.
func Teardown(step func(context.Context, *Check) error) types.StepFunc {
	return func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		t.Helper()
		check := ctx.Value(checkKey{}).(*Check)
		if err := step(ctx, check); err != nil {
			t.Errorf("tearing down %s: %v", check.ID, err)
		}
		return ctx
	}
}

// Fail ends the check: expected and observed are sentences for the student. Evidence defaults to the operator's last
// requests since the check began.
func (c *Check) Fail(t *testing.T, expected, observed string, evidence ...string) {
	t.Helper()
	if len(evidence) == 0 {
		evidence = c.requests()
	}
	c.failure = &failure{expected: expected, observed: observed, evidence: evidence}
	t.Fatalf("expected: %s\nobserved: %s\nevidence: %q", expected, observed, evidence)
}

// OK ends the check if a request of our own failed, which should not.
func (c *Check) OK(t *testing.T, doing string, err error) {
	t.Helper()
	if err != nil {
		c.Fail(t, doing+" works", err.Error())
	}
}

func (c *Check) requests() []string {
	if c.operatorUser == "" {
		return nil
	}
	if c.schedule != nil {
		return c.faultLines()
	}
	events := c.Audit.Since(c.began, c.OperatorRequests())
	if len(events) == 0 {
		return []string{"the operator has sent no request since this check began"}
	}
	return lastLines(events)
}

// faultLines tell what went wrong, and the last requests.
func (c *Check) faultLines() []string {
	return append([]string{fmt.Sprintf("what went wrong: %s", c.schedule)}, lastLines(c.befell())...)
}

// lastLines are the last of a list of requests, as evidence.
func lastLines[Request fmt.Stringer](requests []Request) (lines []string) {
	if skipped := len(requests) - evidenceLines; skipped > 0 {
		lines = append(lines, fmt.Sprintf("(earlier requests: %d)", skipped))
		requests = requests[skipped:]
	}
	for _, request := range requests {
		lines = append(lines, request.String())
	}
	return lines
}

// Measure puts a figure into the report. It decides nothing.
func (c *Check) Measure(name string, value float64, unit string) {
	c.measurements = append(c.measurements, report.Measurement{Name: name, Value: value, Unit: unit})
}

// Look is a look at the cluster: whether it is as expected, and if not, what is seen instead, as a sentence.
type Look func() (observed string, ok bool)

// Eventually waits until the cluster is as expected, looking again whenever changed is closed. The check fails when the
// operator has done nothing for a while, since then nothing more will come.
func (c *Check) Eventually(ctx context.Context, t *testing.T, expected string, changed func() <-chan struct{}, look Look) {
	t.Helper()
	c.EventuallyWithin(ctx, t, expected, patience, changed, look)
}

// EventuallyWithin is Eventually for an operator that may be silent for longer: it waits before it tries again.
func (c *Check) EventuallyWithin(
	ctx context.Context, t *testing.T, expected string, patience time.Duration, changed func() <-chan struct{}, look Look,
) {
	t.Helper()
	limit := max(deadline, 2*patience)
	giveUp := time.After(limit)
	lastChange := time.Now()
	for {
		again := changed()
		requests := c.Audit.Changed()
		observed, ok := look()
		if ok {
			return
		}
		left := time.Until(c.lastSign(ctx, lastChange, patience).Add(patience))
		if left <= 0 {
			c.Fail(t, expected, fmt.Sprintf("%s (and the operator has been silent for %s)", observed, patience))
		}
		select {
		case <-again:
			lastChange = time.Now()
		case <-requests:
		case <-time.After(left):
		case <-giveUp:
			c.Fail(t, expected, fmt.Sprintf("%s (after %s, while the operator goes on sending requests)", observed, limit))
		case <-ctx.Done():
			c.Fail(t, expected, observed+": "+context.Cause(ctx).Error())
		}
	}
}

// lastSign is when something last happened: a change that we saw, or a request of the operator. Those that never reached
// the API server are asked for only when all else was long ago.
func (c *Check) lastSign(ctx context.Context, change time.Time, patience time.Duration) time.Time {
	if last := c.Audit.Last(c.OperatorRequests()); last.After(change) {
		change = last
	}
	if time.Since(change) >= patience {
		if last, err := c.Faults.lastAction(ctx); err == nil && last.After(change) {
			return last
		}
	}
	return change
}

// Settle waits until the operator has been silent for a quiet window. It reports false if it never is: it sends requests
// without end. What did not happen until then does not happen.
func (c *Check) Settle(ctx context.Context, t *testing.T) bool {
	t.Helper()
	limited, cancel := context.WithTimeoutCause(ctx, 3*maximalWindow, errRestless)
	defer cancel()
	for {
		window := c.window()
		err := c.Audit.Quiet(limited, window, c.OperatorRequests())
		if errors.Is(err, errRestless) {
			return false
		}
		c.OK(t, "waiting for the operator to settle", err)
		// Quiet at the API server: but is it asking for what it does not get?
		last, err := c.Faults.lastAction(ctx)
		if errors.Is(err, ErrNoOperator) || err == nil && time.Since(last) >= window {
			return true
		}
		c.OK(t, "waiting for the operator to settle", err)
	}
}

var errRestless = errors.New("the operator does not stop sending requests")

func (c *Check) window() time.Duration {
	var lag time.Duration
	if c.Lag != nil {
		lag = c.Lag()
	}
	return min(max(minimalWindow, lagFactor*lag), maximalWindow)
}
