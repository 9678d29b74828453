// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// A check waits longer than its patience for an operator that is slow, or that was asked to retry later.
const (
	// slowFactor multiplies the operator's longest silence so far to get how long it may be silent. slowLimit is the upper
	// limit.
	slowFactor = 20
	slowLimit  = 20 * time.Second
	// setbackPatience is how long an operator may be silent after a transient failure: many retry after 5 or 10 s.
	setbackPatience = 12 * time.Second
	// setbackLimit limits the whole wait after transient failures: an operator may meet one after the other.
	setbackLimit = 60 * time.Second
	// notStartedPatience limits the wait of a check whose step the submission has not started.
	notStartedPatience = 3 * time.Second
	// startPatience is how long an operator may take from its start to its first request. The grader waits as long for the
	// first start.
	startPatience = 20 * time.Second
	// lookAgain is the interval at which the operator's history is read while nothing seems to happen.
	lookAgain = 250 * time.Millisecond
)

// Wait decides when a check has waited long enough for the operator. If the operator is idle, the verdict comes soon.
// If it is slow, or a request of it has failed, the check waits longer. It does not wait longer for an operator that
// was quick so far.
type Wait struct {
	check                *Check
	began, changed, next time.Time
	patience, limit      time.Duration
}

// NewWait begins a wait. Patience is how long a quick operator may be silent, and limit is how long an operator that
// keeps sending requests may take.
func (c *Check) NewWait(patience, limit time.Duration) *Wait {
	now := time.Now()
	return &Wait{check: c, began: now, changed: now, patience: patience, limit: limit}
}

// Changed records that the check has seen a change, so that the wait includes its consequences.
func (w *Wait) Changed() { w.changed = time.Now() }

// Over returns why there is nothing more to wait for, in words that follow the observation. Empty: it may still happen.
// The caller calls it again after Next.
func (w *Wait) Over(ctx context.Context) (why string) {
	now := time.Now()
	if w.check.notStarted && now.Sub(w.began) >= notStartedPatience {
		return fmt.Sprintf("after %s, and this step is not begun", notStartedPatience)
	}
	last := latest(w.changed, w.check.Audit.Last(w.check.OperatorRequests()))
	if silent := now.Sub(last); now.Before(w.next) || silent < w.patience && now.Sub(w.began) < w.limit {
		return ""
	}
	w.next = now.Add(lookAgain)
	entries, err := w.check.Faults.Log(ctx)
	if err != nil && !errors.Is(err, ErrNoOperator) {
		return "and the grader does not say what the operator does: " + err.Error()
	}
	history := w.check.history(entries)
	waited := now.Sub(w.began)
	if history.restarting() && waited < setbackLimit || starting(entries) && waited < startPatience {
		return ""
	}
	patience := max(w.patience, min(slowFactor*w.check.slowness(history), slowLimit))
	if action, err := w.check.Faults.lastAction(ctx); err == nil { // including requests that never reached the API server
		last = latest(last, action)
	}
	setback, overcome := history.setback(w.check.started)
	limit := max(w.limit, 3*patience)
	// After a success, the check may not have seen its result yet.
	if now.Sub(setback) < setbackPatience || now.Sub(overcome) < patience {
		limit = max(limit, setbackLimit)
	}
	switch silent := now.Sub(last); {
	case silent >= patience && now.Sub(setback) >= setbackPatience:
		if silent < patience+time.Second {
			silent = patience.Round(time.Second / 10) // without the delay of the machine
		}
		return fmt.Sprintf("and the operator has been silent for %s", silent.Round(time.Second/10))
	case now.Sub(w.began) >= limit:
		return fmt.Sprintf("after %s, while the operator keeps sending requests", limit)
	}
	return ""
}

// Next returns a channel that is closed when it is time to call Over again.
func (w *Wait) Next() <-chan time.Time {
	last := latest(w.changed, w.check.Audit.Last(w.check.OperatorRequests()))
	due := last.Add(w.patience)
	if limit := w.began.Add(w.limit); limit.Before(due) {
		due = limit
	}
	if limit := w.began.Add(notStartedPatience); w.check.notStarted && limit.Before(due) {
		return time.After(time.Until(limit))
	}
	return time.After(time.Until(latest(due, w.next)))
}

// Poll waits until look is satisfied, and calls fail with its observation when the wait is over. It looks at each
// change, at each request of the operator, and at each interval, for state that causes no events. fail ends the check.
func (c *Check) Poll(ctx context.Context, interval time.Duration, wait *Wait,
	changed func() <-chan struct{}, look Look, fail func(observed string),
) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		change, requests := changed(), c.Audit.Changed()
		observed, ok := look()
		if ok {
			return
		}
		if why := wait.Over(ctx); why != "" {
			fail(fmt.Sprintf("%s (%s)", observed, why))
		}
		select {
		case <-change:
		case <-requests:
		case <-ticker.C:
		case <-ctx.Done():
			fail(observed + ": " + context.Cause(ctx).Error())
		}
	}
}

// Pause waits for a time that is part of the test. For example, there is no other sign that the operator has received
// two changes one after the other.
func (c *Check) Pause(ctx context.Context, t *testing.T, duration time.Duration) {
	t.Helper()
	select {
	case <-time.After(duration):
	case <-ctx.Done():
		c.OK(t, "waiting", context.Cause(ctx))
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
