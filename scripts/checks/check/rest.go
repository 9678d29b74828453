// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/operatorlog"
	"lva.io/operators/scripts/grading/protocol"
)

const (
	// restWindow is how long an operator must be at rest to count as such. An operator that reads or writes twice a second
	// is not at rest. idleWindow is enough if only later requests are counted. restLimit is how long the operator may take
	// to come to rest.
	restWindow = 600 * time.Millisecond
	idleWindow = 100 * time.Millisecond
	restLimit  = 3 * maximalWindow
	// restRuns is how often the threads of an operator at rest may run in restWindow, and restCPU is for how long. An
	// operator that only watches runs four or five times. One that is called again after a millisecond runs hundreds of
	// times, or 60 times on a very busy machine.
	restRuns = 40
	restCPU  = restWindow / 4
	// restTail is how long an operator may still be working: a window in which it works is then abandoned at once. After
	// that, each window is waited for to its end, so that an operator that sends a request twice a second does not count
	// as at rest because one request is late.
	restTail = time.Second
	// restLook is the interval at which the operator's CPU usage is read in the meantime.
	restLook = 50 * time.Millisecond
	// slowWindows multiplies the longest silence of the operator at work to get the time that it must be at rest, and
	// slowRest is the upper limit for that time: between two writes of a slow operator nothing happens, and yet it is not
	// at rest.
	slowWindows = 3
	slowRest    = 3 * time.Second
)

// AtRest fails the check unless the operator comes to rest. When the state is as wanted, the operator must read and
// write nothing for a while, and must not keep reading its cache.
func (c *Check) AtRest(ctx context.Context, t *testing.T) {
	t.Helper()
	c.atRest(ctx, t, restWindow)
}

// Idle is AtRest for a short moment. After it, the operator's earlier work is done, so that all later activity has a
// new reason.
func (c *Check) Idle(ctx context.Context, t *testing.T) {
	t.Helper()
	c.atRest(ctx, t, idleWindow)
}

func (c *Check) atRest(ctx context.Context, t *testing.T, window time.Duration) {
	t.Helper()
	const expected = "once all is right the operator is at rest: it sends no requests, " +
		"and Reconcile is not called again without a reason"
	log, err := c.Faults.Log(ctx)
	c.OK(t, "reading the log of requests", err)
	slowness := c.slowness(c.history(log))
	window = max(window, min(slowWindows*slowness, slowRest).Round(10*time.Millisecond))
	share := window.Seconds() / restWindow.Seconds()
	mostRuns, mostCPU := int(restRuns*share), restCPU.Seconds()*share
	tail := time.Now().Add(restTail)
	giveUp := time.Now().Add(max(restLimit, min(slowFactor*slowness, slowLimit)))
	for {
		seen := c.Audit.Last(c.OperatorRequests())
		mark, began := c.Audit.Now(), time.Now()
		before, err := c.Operator.usage(ctx)
		c.OK(t, "measuring the operator", err)
		busy := func(after protocol.Usage) bool {
			return before.Known && after.Known &&
				window >= restWindow && (after.Runs-before.Runs > mostRuns || after.CPU-before.CPU > mostCPU)
		}
		whole := true
		if began.Before(tail) {
			whole = c.awaitSilence(ctx, t, window, seen, busy)
		} else {
			c.Pause(ctx, t, window)
		}
		after, err := c.Operator.usage(ctx)
		c.OK(t, "measuring the operator", err)
		requests := c.Audit.Since(mark, c.OperatorRequests())
		last, err := c.Faults.lastAction(ctx) // of other services, too
		c.OK(t, "reading the log of requests", err)
		silent := len(requests) == 0 && last.Before(began)
		runs, cpu := after.Runs-before.Runs, after.CPU-before.CPU
		switch {
		case whole && silent && !busy(after):
			return
		case time.Now().Before(giveUp):
		case len(requests) > 0:
			c.Fail(t, expected, fmt.Sprintf("nothing changes, and it keeps sending requests: %d within %s",
				len(requests), window), lastLines(requests)...)
		case !silent:
			log, err := c.Faults.Log(ctx)
			c.OK(t, "reading the log of requests", err)
			log = slices.DeleteFunc(log, func(e faults.Entry) bool { return e.Number == 0 || e.Time.Before(began) })
			c.Fail(t, expected, fmt.Sprintf("nothing changes, and it keeps sending requests: %d within %s", len(log), window),
				lastLines(log)...)
		default:
			c.Fail(t, expected, fmt.Sprintf("nothing changes, and it is busy without sending a request: "+
				"within %s its threads ran %d times, for %s in all",
				window, runs, time.Duration(cpu*float64(time.Second)).Round(time.Millisecond)),
				fmt.Sprintf("an operator that only watches runs fewer than %d times: "+
					"is Reconcile called again after a moment, with RequeueAfter or Requeue?", mostRuns))
		}
	}
}

// awaitSilence waits for a window in which the operator is not busy and sends no request after the last one that was
// seen. It returns false as soon as the operator sends a request or has been busy. Then another window begins, without
// waiting for the rest of this one.
func (c *Check) awaitSilence(
	ctx context.Context, t *testing.T, window time.Duration, seen time.Time, busy func(protocol.Usage) bool,
) (whole bool) {
	t.Helper()
	end, look := time.NewTimer(window), time.NewTicker(restLook)
	defer end.Stop()
	defer look.Stop()
	for {
		changed := c.Audit.Changed()
		if !c.Audit.Last(c.OperatorRequests()).Equal(seen) {
			return false
		}
		select {
		case <-changed:
		case <-look.C:
			now, err := c.Operator.usage(ctx)
			c.OK(t, "measuring the operator", err)
			if busy(now) {
				return false
			}
		case <-end.C:
			return true
		case <-ctx.Done():
			c.OK(t, "waiting", context.Cause(ctx))
		}
	}
}

// busy returns evidence that the operator worked without a pause while the check ran. An endless loop sends no request,
// and nothing else shows it.
func (c *Check) busy() []string {
	const least = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), least)
	defer cancel()
	took := time.Since(c.started)
	now, err := c.Operator.usage(ctx)
	if err != nil || !now.Known || !c.used.Known || took < least {
		return nil
	}
	worked := time.Duration((now.CPU - c.used.CPU) * float64(time.Second))
	if worked < took/2 {
		return nil
	}
	return []string{fmt.Sprintf("the operator worked for %s of the %s that this check took: "+
		"is there a loop without an end?",
		worked.Round(100*time.Millisecond), took.Round(100*time.Millisecond))}
}

// Logged returns how much the operator has logged, in bytes. It is a mark for NoErrors and ErrorsHaveCauses.
func (c *Check) Logged(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	size, err := c.Operator.Logged(ctx)
	c.OK(t, "reading the operator's log", err)
	return size
}

// conflict is part of the message of each 409 of an update (k8s.io/apimachinery/pkg/api/errors.NewConflict).
const conflict = "Operation cannot be fulfilled on "

// fewConflicts is how many conflicts an operator may have for one object while its cache is stale. With the work
// queue's delays, they take a third of a second.
const fewConflicts = 6

// excused reports whether an error that was returned count times is a conflict that occurred only a few times.
func excused(text string, count int) bool {
	return count <= fewConflicts && strings.Contains(text, conflict)
}

// NoErrors fails the check if Reconcile keeps returning an error for objects that are as wanted, since the operator had
// logged the given number of bytes (see Logged). Any operator may return one error: the work queue retries, and the
// retry succeeds. A few conflicts do not count: a stale cache causes them, and on a busy machine the cache is far
// behind.
func (c *Check) NoErrors(ctx context.Context, t *testing.T, since int64, objects ...string) {
	t.Helper()
	errors, err := c.Operator.Errors(ctx, since)
	c.OK(t, "reading the operator's log", err)
	for _, e := range errors {
		count, text, counted := 0, e.Text, slices.Clone(objects)
		for _, object := range objects {
			if returned, ok := e.Objects[object]; ok && !excused(returned.Text, returned.Count) {
				count += returned.Count
				text = returned.Text
			}
		}
		if len(e.Objects) == 0 && e.Count > unnamedErrors && !excused(e.Text, e.Count) {
			count = e.Count
		} else {
			counted = slices.DeleteFunc(counted, func(object string) bool { return e.Objects[object].Count == 0 })
		}
		if count > 1 {
			c.Fail(t, fmt.Sprintf("Reconcile returns no error for %s, "+
				"of which nothing has to be changed", english.WordSeries(objects, "and")),
				fmt.Sprintf("it returned the same error %d times, for %s: %s", count, english.WordSeries(counted, "and"), text),
				"an error is a request to be called again: the work queue does that for ever, later and later")
		}
	}
}

// ErrorsHaveCauses fails the check if Reconcile has returned an error for each of several objects since the operator
// had logged the given number of bytes, and none of its requests was refused since the mark. An operator may return an
// error without a cause to be called again, but not each time.
func (c *Check) ErrorsHaveCauses(ctx context.Context, t *testing.T, since int64, mark audit.Mark, objects ...string) {
	t.Helper()
	if len(c.Audit.Since(mark, c.OperatorRequests().And(func(e audit.Event) bool { return e.Code >= 400 }))) > 0 {
		return
	}
	errors, err := c.Operator.Errors(ctx, since)
	c.OK(t, "reading the operator's log", err)
	text := ""
	for _, object := range objects {
		i := slices.IndexFunc(errors, func(e operatorlog.Error) bool { return e.Objects[object].Count > 0 })
		if i < 0 {
			return
		}
		text = errors[i].Objects[object].Text
	}
	c.Fail(t, "Reconcile returns an error only if something went wrong",
		fmt.Sprintf("the API server refused nothing, and it returned an error for each of %s: %s",
			english.WordSeries(objects, "and"), text),
		"an error is a request to be called again, and people are woken up by it: "+
			"which of your ifs returns one when there is none?")
}

// unnamedErrors is how many errors without a known object may belong to another object.
const unnamedErrors = 4
