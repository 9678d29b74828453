// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// deadline and patience limit how long checks wait. deadline is for a busy machine. patience ends the wait for an
// operator that has become idle, so that a wrong submission gets its verdict soon.
const (
	deadline = 20 * time.Second
	patience = 3 * time.Second
)

// A quiet window is how long an operator must be silent to count as done. The window grows with the lag that the lab's
// checks see, because silence means less on a busy machine.
const (
	minimalWindow = 50 * time.Millisecond
	maximalWindow = 2 * time.Second
	lagFactor     = 10
)

type checkKey struct{}

// Failure describes why a check, or a try of one, failed, in the words of Fail.
type Failure struct {
	Expected, Observed string
	Evidence           []string
	// FailedOpen has the meaning of protocol.Event.FailedOpen.
	FailedOpen bool
}

// Check is a running check.
type Check struct {
	*Suite
	ID string

	began audit.Mark
	// started is when the check began, and used is the operator's CPU usage until then.
	started time.Time
	used    protocol.Usage
	// startedSteps and doneSteps count the steps. A step that skips itself is not done.
	startedSteps, doneSteps int
	failure                 *Failure
	aborted                 bool // the check itself could not do its work: there is no verdict
	// skipped is why the check could not run here, and prevented is why there can be no grade. Both are empty otherwise.
	skipped, prevented string
	// notStarted is true if the submission has not started the step that the check is about.
	notStarted   bool
	measurements []report.Measurement
	// schedule holds the faults during the check. It is nil if there are none. armedAt is the ID of the last log entry
	// before the faults were armed, and armed is the end of the audit log at that time.
	schedule *faults.Schedule
	armedAt  int
	armed    audit.Mark
	// sent is how many of its own writes the check has sent since then.
	sent int
}

// Assess makes a step of a feature from a function that receives the running check.
func Assess(step func(context.Context, *testing.T, *Check)) types.StepFunc {
	return func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		t.Helper()
		check := ctx.Value(checkKey{}).(*Check)
		if check.failure != nil || check.skipped != "" {
			// The framework continues with the next step after a failed one.
			t.Skip("an earlier step failed")
		}
		check.startedSteps++
		step(ctx, t, check)
		check.doneSteps++
		return ctx
	}
}

// Teardown makes the last step of a feature. It also runs when the check failed, and restores what later checks need.
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

// BeganAt starts the evidence of the check at a mark, so that it includes requests that an earlier check has caused for
// this one.
func (c *Check) BeganAt(mark audit.Mark) { c.began = mark }

// Fail ends the check. expected and observed are sentences for the student. Evidence defaults to the operator's last
// requests since the check began. Requests about the objects that the sentences name take precedence.
func (c *Check) Fail(t *testing.T, expected, observed string, evidence ...string) {
	t.Helper()
	if len(evidence) == 0 {
		evidence = c.requests(expected, observed)
	}
	evidence = append(c.busy(), evidence...)
	unanswered := c.Audit.Since(c.began, func(e audit.Event) bool {
		return slices.ContainsFunc(e.FailedOpen, func(name string) bool { return slices.Contains(c.webhooks, name) })
	})
	c.failure = &Failure{Expected: expected, Observed: observed, Evidence: evidence, FailedOpen: len(unanswered) > 0}
	t.Fatalf("expected: %s\nobserved: %s\nevidence: %q", expected, observed, evidence)
}

// Skip ends the check without a verdict, because this cluster does not support what it tests. The check gets no points,
// and the report contains the reason.
func (c *Check) Skip(t *testing.T, why string) {
	t.Helper()
	c.skipped = "skipped: " + why
	t.Skip(why)
}

// Prevented ends the run without a grade, because this machine or cluster does not support what the check tests,
// whatever the submission is. why is a sentence without a full stop that explains what to do.
func (c *Check) Prevented(t *testing.T, why string) {
	t.Helper()
	c.prevented = why
	t.Fatal(why)
}

// OK fails the check if a request of the check itself failed that should succeed.
func (c *Check) OK(t *testing.T, doing string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if name := c.deletedByOperator(err); name != "" {
		c.Fail(t, name+" stays", fmt.Sprintf("the operator has deleted %s, so %s is not possible", name, doing))
	}
	c.Fail(t, doing+" works", err.Error())
}

// deletedByOperator returns the name of the object that our request did not find because the operator has deleted it.
// Otherwise it returns an empty string.
func (c *Check) deletedByOperator(err error) string {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil || c.operatorUser == "" {
		return ""
	}
	name := status.Status().Details.Name
	deletions := c.Audit.Since(c.began, c.OperatorRequests().And(func(e audit.Event) bool {
		return e.Verb == "delete" && e.Name == name && e.Code < 300
	}))
	if len(deletions) == 0 {
		return ""
	}
	return name
}

// Measure adds a measurement to the report. It does not affect the verdict.
func (c *Check) Measure(name string, value float64, unit string) {
	c.measurements = append(c.measurements, report.Measurement{Name: name, Value: value, Unit: unit})
}

// Look examines the cluster. It returns whether the cluster is as expected, and if not, a sentence with the actual
// state.
type Look func() (observed string, ok bool)

// Eventually waits until the cluster is as expected, and looks again whenever changed is closed. The check fails if the
// operator has been idle for a while, because nothing more will happen then: see Wait.
func (c *Check) Eventually(ctx context.Context, t *testing.T, expected string, changed func() <-chan struct{},
	look Look,
) {
	t.Helper()
	c.EventuallyWithin(ctx, t, expected, patience, changed, look)
}

// EventuallyWithin is Eventually for an operator that may be silent for longer, because it waits before it retries.
func (c *Check) EventuallyWithin(
	ctx context.Context, t *testing.T, expected string, patience time.Duration, changed func() <-chan struct{}, look Look,
) {
	t.Helper()
	wait := c.NewWait(patience, max(deadline, 2*patience))
	for {
		again := changed()
		requests := c.Audit.Changed()
		observed, ok := look()
		if ok {
			return
		}
		if why := wait.Over(ctx); why != "" {
			c.Fail(t, expected, fmt.Sprintf("%s (%s)", observed, why))
		}
		select {
		case <-again:
			wait.Changed()
		case <-requests:
		case <-wait.Next():
		case <-ctx.Done():
			c.Fail(t, expected, observed+": "+context.Cause(ctx).Error())
		}
	}
}

// Settle waits until the operator has been silent for a quiet window. It returns false if the operator never stops
// sending requests. After a quiet window the operator has done everything that it is going to do.
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
		// The operator is quiet at the API server, but it may still be calling another service.
		last, err := c.Faults.lastAction(ctx)
		if errors.Is(err, ErrNoOperator) || err == nil && time.Since(last) >= window {
			return true
		}
		c.OK(t, "waiting for the operator to settle", err)
	}
}

// StopQuietly stops the operator, and waits until none of its requests are added to the audit log any longer. All
// requests after a mark that is set then come from the operator that is started next.
func (c *Check) StopQuietly(ctx context.Context, t *testing.T) {
	t.Helper()
	c.OK(t, "stopping the operator", c.Operator.Stop(ctx))
	c.OK(t, "waiting for the last requests of the operator", c.Audit.Quiet(ctx, c.window(), c.ByOperator()))
}

// SettleAbout waits until the operator has sent no matching request for the length of a window, counted from the last
// such request, or for as long as Settle would, if that is longer. It ignores all other requests. It waits for at most
// 3 s. The check must judge later requests.
func (c *Check) SettleAbout(ctx context.Context, t *testing.T, window time.Duration, about audit.Match) {
	t.Helper()
	window = max(window, c.window())
	about = c.OperatorRequests().And(about)
	for limit := time.Now().Add(aboutLimit); time.Now().Before(limit); {
		left := window - time.Since(c.Audit.Last(about))
		if left <= 0 {
			return
		}
		c.Pause(ctx, t, left)
	}
}

// aboutLimit limits how long SettleAbout waits.
const aboutLimit = 3 * time.Second

var errRestless = errors.New("the operator does not stop sending requests")

func (c *Check) window() time.Duration {
	var lag time.Duration
	if c.Lag != nil {
		lag = c.Lag()
	}
	return min(max(minimalWindow, lagFactor*lag), maximalWindow)
}
