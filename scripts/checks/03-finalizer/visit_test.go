// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/freezer"
)

const (
	// finalizer is the operator's.
	finalizer = "demo.lva.io/finalizer"
	// foreign is another controller's finalizer. Only the check removes it.
	foreign = "tasting.example.com/photo"
)

// How long a check waits for an operator that does nothing: usually; after the freezer was down, since an operator may
// have chosen to try again every few seconds; and in the scenario, where it may just have been killed or asked to wait.
// After two patiences, and at least the deadline, the wait is over for one that never stops.
const (
	patience         = 3 * time.Second
	outagePatience   = 7 * time.Second
	scenarioPatience = 10 * time.Second
	deadline         = 15 * time.Second
)

// glance is how often a check looks at the freezer, which sends no events.
const glance = 25 * time.Millisecond

// visit is a check in the parlour: the words in which the checks of this lab are written.
type visit struct {
	*check.Check
	*parlour
	ctx context.Context
	t   *testing.T
	// began is when the check did: its evidence is what came after.
	began time.Time
}

// freezer asks the freezer past all faults.
func (v visit) freezer() *freezer.Client { return freezer.NewClient(v.Services[freezer.Service]) }

// assess makes a step of a feature from what a visitor of the parlour does.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		step(visit{Check: c, parlour: parlourOf(ctx), ctx: ctx, t: t, began: time.Now()})
	}
}

// feature is a feature of one step, after which everything works again.
func feature(name, step string, visits func(visit)) types.Feature {
	return features.New(name).Assess(step, check.Assess(assess(visits))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// until waits until all is as expected. It fails when the operator has been silent for as long as patience says, or
// does not stop.
func (v visit) until(expected string, patience time.Duration, look check.Look) {
	v.t.Helper()
	v.Poll(v.ctx, glance, v.NewWait(patience, max(deadline, 2*patience)), v.Changed, look, func(observed string) {
		v.t.Helper()
		v.fail(expected, observed)
	})
}

// log is all that the operator has asked for since the run began.
func (v visit) log() []faults.Entry {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	v.OK(v.t, "reading the log of requests", err)
	return log
}

// fail ends the check, with what the operator asked of the API server and of the freezer as its evidence.
func (v visit) fail(expected, observed string) {
	v.t.Helper()
	v.Fail(v.t, expected, observed, v.evidence(expected, observed)...)
}

// make orders an icecream.
func (v visit) make(name string, flavour []string, topping ...string) order {
	v.t.Helper()
	made, err := v.create(v.ctx, icecream.New(name, flavour, topping))
	v.OK(v.t, "creating the icecream "+name, err)
	return made
}

// makeHeld orders one that another controller's finalizer holds from the beginning.
func (v visit) makeHeld(name string, flavour []string, topping ...string) order {
	v.t.Helper()
	object := icecream.New(name, flavour, topping)
	object.SetFinalizers([]string{foreign})
	made, err := v.create(v.ctx, object)
	v.OK(v.t, "creating the icecream "+name, err)
	return made
}

func (v visit) change(o order, patch string) {
	v.t.Helper()
	v.OK(v.t, "changing an icecream", v.Patch(v.ctx, o.name, patch))
}

func (v visit) delete(o order) {
	v.t.Helper()
	v.OK(v.t, "deleting an icecream", v.Delete(v.ctx, o.name))
}

// deleteAtOnce deletes an icecream that may just be getting its finalizer. Without a resource version the API server
// may answer that the finalizer is added, and then delete an icecream that it has looked at before (kubernetes issue
// 77988): the check could not distinguish such an operator from a wrong one.
func (v visit) deleteAtOnce(o order) {
	v.t.Helper()
	for {
		object, err := v.Client.Get(v.ctx, o.name, metav1.GetOptions{})
		if err == nil {
			asRead := metav1.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())}
			err = v.Client.Delete(v.ctx, o.name, metav1.DeleteOptions{Preconditions: &asRead})
		}
		switch {
		case apierrors.IsNotFound(err):
			return
		case !apierrors.IsConflict(err):
			v.OK(v.t, "deleting an icecream", err)
			return
		}
	}
}

// arm lets things go wrong from now on. What the operator still had to do is done before, so that requests are counted
// from what comes next.
func (v visit) arm(all ...faults.Fault) {
	v.t.Helper()
	v.Settle(v.ctx, v.t)
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: all}))
}

func (v visit) disarm() {
	v.t.Helper()
	v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
}

// whole says that all requests to the freezer have this fault.
func whole(kind faults.Kind) []faults.Fault {
	return []faults.Fault{
		{Kind: kind, Class: faults.Write, Service: freezer.Service},
		{Kind: kind, Class: faults.Read, Service: freezer.Service},
	}
}
