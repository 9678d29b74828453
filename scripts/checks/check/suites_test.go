// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/checks/check"
)

const (
	// suiteVariable turns this test binary into the checks of a lab: it names the suite below to run.
	suiteVariable = "CHECK_TEST_SUITE"
	// patience is the patience of package check: how long an operator may do nothing while a check waits for it.
	patience = 3 * time.Second
	operator = "system:serviceaccount:operator-system:controller-manager"
)

// lateRequest is how long after the operator's stop its last request is logged.
const lateRequest = patience / 10

type step = func(context.Context, *testing.T, *check.Check)

// suites are the suites that the tests of this package run in a separate process, as the grader does. They map the ID
// of a check to its steps.
var suites = map[string]check.Features{
	"verdicts": {
		"passes":   feature(passes, passes),
		"fails":    feature(fails, passes),
		"needs-it": feature(passes),
		"and-that": feature(passes),
		"empty":    features.New("nothing is assessed").Feature(),
		"skips":    feature(skips),
		"untried": feature(passes, func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.Skip(t, "there is no node")
		}, fails),
		"half": feature(passes, skips),
		"prevented": feature(passes, func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.Prevented(t, "there is no node")
		}),
		"errs":  feature(func(_ context.Context, t *testing.T, _ *check.Check) { t.Helper(); t.Error("wrong") }),
		"fatal": feature(func(_ context.Context, t *testing.T, _ *check.Check) { t.Helper(); t.FailNow() }),
		"teardown": features.New("x").Assess("x", check.Assess(passes)).
			Teardown(check.Teardown(func(context.Context, *check.Check) error { return errors.New("no") })).Feature(),
		"restores": features.New("x").Assess("x", check.Assess(fails)).
			Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Operator.Start(ctx) })).Feature(),
		"last": feature(passes),
	},
	"panics": {
		"panics": feature(func(context.Context, *testing.T, *check.Check) { panic("a mistake of ours") }),
		"last":   feature(passes),
	},
	"evidence": {
		"silent": feature(fails),
		"earlier": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.BeganAt(0)
			fails(ctx, t, c)
		}),
		"busy": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx)) // the test's grader logs ten requests
			fails(ctx, t, c)
		}),
		"one": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx))
			c.Fail(t, "status.toppingsCount of sundae-2 is 3", "status.toppingsCount of sundae-2 is not set")
		}),
		"missing": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx))
			c.Fail(t, "sundae-1, sundae-3 and sundae-9 stay", "there are sundae-3 and sundae-9 (and that is all)")
		}),
		"unasked": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx))
			c.Fail(t, "sundae-12 and sundae-11 are right", "sundae-11, sundae-12: not yet")
		}),
		"own": feature(func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.Fail(t, "it is right", "it is wrong", "seen by me")
		}),
		"request": feature(func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "creating an icecream", nil)
			c.OK(t, "creating an icecream", errors.New("the API server is gone"))
		}),
	},
	"eventually": {"eventually": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		began := time.Now()
		c.Eventually(ctx, t, "the shop opens", never, func() (string, bool) {
			return "the shop is closed", time.Since(began) > 2*patience
		})
	})},
	"patient": {"patient": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		c.EventuallyWithin(ctx, t, "the shop opens", patience/2, never, func() (string, bool) {
			return "the shop is closed", false
		})
	})},
	"long": {
		"begun": feature(func(context.Context, *testing.T, *check.Check) {}),
		"long": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.EventuallyWithin(ctx, t, "the shop opens", 10*time.Minute, never, func() (string, bool) {
				return "the shop is closed", false
			})
		}),
	},
	"overcome": {"overcome": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		began, wait := time.Now(), c.NewWait(patience/2, patience/2)
		for time.Since(began) < 2*patience { // the wait for an operator that never stops ends after three times its patience
			if why := wait.Over(ctx); why != "" {
				c.Fail(t, "the shop opens", why)
			}
			c.Pause(ctx, t, patience/30)
		}
	})},
	"rest": {"rest": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		c.AtRest(ctx, t)
		logged, err := c.Operator.Logged(ctx)
		c.OK(t, "reading the log", err)
		c.NoErrors(ctx, t, logged, "sundae", "split")
	})},
	"causes": {"causes": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		c.ErrorsHaveCauses(ctx, t, 0, 0, "sundae", "split")
	})},
	"submission": {"submission": feature(asksForFiles)},
	"settle": {"settle": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		if !c.Settle(ctx, t) {
			c.Fail(t, "it settles", "it does not")
		}
	})},
	"quietly": {"quietly": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		began := time.Now()
		c.StopQuietly(ctx, t)
		if took := time.Since(began); took < lateRequest {
			c.Fail(t, "the last request is waited for", fmt.Sprintf("it took %s", took))
		}
	})},
	"operator": {"operator": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		err := errors.Join(c.Operator.Stop(ctx), c.Operator.Start(ctx), c.Operator.Kill(ctx))
		c.Fail(t, "it is stopped, started and killed", fmt.Sprint(err), "none")
	})},
}

func feature(steps ...step) types.Feature {
	builder := features.New("a feature")
	for i, step := range steps {
		builder.Assess(fmt.Sprintf("step %d", i+1), check.Assess(step))
	}
	return builder.Feature()
}

func passes(context.Context, *testing.T, *check.Check) {}

func fails(_ context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	c.Fail(t, "it is right", "it is wrong")
}

func skips(_ context.Context, t *testing.T, _ *check.Check) {
	t.Helper()
	t.Skip("not today")
}

func never() <-chan struct{} { return nil }

// TestSuite is not a test itself. It runs the checks of a lab while a test of this package plays the grader.
func TestSuite(t *testing.T) {
	name := os.Getenv(suiteVariable)
	switch name {
	case "":
		t.Skip("the other tests run it")
	case "agree", "missing", "unlisted":
		check.Run(t, ofLabOne(t, name), check.Options{})
	default:
		if features, ok := suites[name]; ok {
			check.Run(t, features, check.Options{})
			return
		}
		check.Run(t, scenarios[name].features(), scenarios[name].options())
	}
}

// ofLabOne returns checks with the names of lab 01's checks, or nearly.
func ofLabOne(t *testing.T, status string) check.Features {
	t.Helper()
	list, err := manifest.Load("../../..")
	if err != nil {
		t.Fatal(err)
	}
	all := check.Features{}
	for _, listed := range list.Labs[0].Checks {
		all[listed.ID] = feature(passes)
	}
	switch status {
	case "missing":
		delete(all, "columns")
	case "unlisted":
		all["sprinkles"] = feature(passes)
	}
	return all
}
