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
	// finalizer is the operator's finalizer.
	finalizer = "demo.lva.io/finalizer"
	// foreign is another controller's finalizer. Only the check removes it.
	foreign = "tasting.example.com/photo"
)

// A patience is how long a check waits for an operator that does nothing: the usual one, a longer one after an outage
// of the freezer, because an operator may retry only every few seconds, and one for the scenario, in which a fault may
// just have killed the operator or asked it to wait. For an operator that never stops, the wait ends after two
// patiences, but not before the deadline.
const (
	patience         = 3 * time.Second
	outagePatience   = 7 * time.Second
	scenarioPatience = 10 * time.Second
	deadline         = 15 * time.Second
)

// pollInterval is the interval at which a check reads the freezer, which sends no events.
const pollInterval = 25 * time.Millisecond

// visit is a check in the parlour. Its methods are the vocabulary of this lab's checks.
type visit struct {
	*check.Check
	*parlour
	ctx context.Context
	t   *testing.T
	// began is when the check began. Its evidence is what happened after that.
	began time.Time
}

// freezer returns a client of the freezer whose requests meet no faults.
func (v visit) freezer() *freezer.Client { return freezer.NewClient(v.Services[freezer.Service]) }

// assess makes a step of a feature from a function that uses the parlour.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		step(visit{Check: c, parlour: parlourOf(ctx), ctx: ctx, t: t, began: time.Now()})
	}
}

// feature returns a feature with one step, after which it ends all faults.
func feature(name, step string, visits func(visit)) types.Feature {
	return features.New(name).Assess(step, check.Assess(assess(visits))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// until waits until the state is as expected. It fails when the operator has been silent for as long as patience, or
// does not stop.
func (v visit) until(expected string, patience time.Duration, look check.Look) {
	v.t.Helper()
	v.Poll(v.ctx, pollInterval, v.NewWait(patience, max(deadline, 2*patience)), v.Changed, look, func(observed string) {
		v.t.Helper()
		v.fail(expected, observed)
	})
}

// log returns all requests of the operator since the run began.
func (v visit) log() []faults.Entry {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	v.OK(v.t, "reading the log of requests", err)
	return log
}

// fail ends the check. Its evidence is the operator's requests to the API server and to the freezer.
func (v visit) fail(expected, observed string) {
	v.t.Helper()
	v.Fail(v.t, expected, observed, v.evidence(expected, observed)...)
}

// createIcecream creates an icecream.
func (v visit) createIcecream(name string, flavour []string, topping ...string) order {
	v.t.Helper()
	created, err := v.create(v.ctx, icecream.New(name, flavour, topping))
	v.OK(v.t, "creating the icecream "+name, err)
	return created
}

// createHeld creates an icecream with another controller's finalizer.
func (v visit) createHeld(name string, flavour []string, topping ...string) order {
	v.t.Helper()
	object := icecream.New(name, flavour, topping)
	object.SetFinalizers([]string{foreign})
	created, err := v.create(v.ctx, object)
	v.OK(v.t, "creating the icecream "+name, err)
	return created
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
// may confirm that the finalizer was added, and then delete an icecream that it had read before (kubernetes issue
// 77988). The check could not distinguish such an operator from a wrong one.
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

// arm injects faults from now on. It first waits until the operator has done its remaining work, so that requests are
// counted from what comes next.
func (v visit) arm(all ...faults.Fault) {
	v.t.Helper()
	v.Settle(v.ctx, v.t)
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: all}))
}

func (v visit) disarm() {
	v.t.Helper()
	v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
}

// allRequests returns faults of this kind for all requests to the freezer.
func allRequests(kind faults.Kind) []faults.Fault {
	return []faults.Fault{
		{Kind: kind, Class: faults.Write, Service: freezer.Service},
		{Kind: kind, Class: faults.Read, Service: freezer.Service},
	}
}
