// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/grading/faults"
)

// These constants limit how long a restarted operator sees only the old state: until it has worked for oldNewsFor on an
// object that is gone, or for listBehind, if it sends no requests.
const (
	listBehind = 500 * time.Millisecond
	oldNewsFor = 150 * time.Millisecond
)

func oldNews() e2etypes.Feature {
	return feature("the operator starts with an old list", "and launches nothing for what is gone", oldList)
}

// sawOldNews reports whether a restarted operator has had enough time with the old state of an object.
func (v visit) sawOldNews(o order, started time.Time) bool {
	v.t.Helper()
	log := slices.DeleteFunc(v.log(), func(e faults.Entry) bool {
		return e.Service != faults.API || e.Time.Before(started)
	})
	busy := slices.IndexFunc(log, func(e faults.Entry) bool { return e.Name == o.name })
	listed := slices.IndexFunc(log, func(e faults.Entry) bool {
		return e.Verb == "list" && e.Resource == resource.Resource
	})
	return busy >= 0 && time.Since(log[busy].Time) > oldNewsFor || listed >= 0 && time.Since(log[listed].Time) > listBehind
}

// hold adds another controller's finalizer to an object.
func (v visit) hold(o order) {
	v.t.Helper()
	v.edit(v.objects, "adding a finalizer to "+o.name, o.name, func(object *unstructured.Unstructured) bool {
		object.SetFinalizers(append(object.GetFinalizers(), otherFinalizer))
		return true
	})
}

// otherFinalizer is a finalizer of another controller.
const otherFinalizer = "team.example.com/hold"

// oldList restarts an operator while the API server that it uses is behind the others, as one of three may be
// (kubernetes issue 59848). Its cache begins with these objects: one that no longer exists, one whose name belongs to
// another object by now, one that is being deleted and has nothing left to do, one that is being deleted, whose
// instance has ended and whose Workspace does not record that, and one without its current finalizers.
func oldList(v visit) {
	v.bootsAtOnce()
	o, again, dying, ending := v.runs("willow"), v.runs("weigela"), v.runs("wingnut"), v.runs("woodbine")
	v.hold(dying)
	v.Settle(v.ctx, v.t)
	v.arm(faults.Fault{Kind: faults.ServerError, Class: faults.Write, Service: faults.API})
	fresh := v.createWanted("whitebeam")
	v.until("the operator writes for whitebeam, which the API server refuses", longPatience, func() (string, bool) {
		return "it does not", slices.ContainsFunc(v.log(), func(e faults.Entry) bool {
			return e.Injected && e.Name == fresh.name
		})
	})
	before, err := v.objects.List(v.ctx, metav1.ListOptions{})
	v.OK(v.t, "listing the CloudInstances", err)
	v.disarm()
	for _, gone := range []order{o, again, dying} {
		v.delete(gone)
	}
	v.hasOne("whitebeam gets its instance when the API server accepts writes again", longPatience, fresh, 1)
	v.ready("whitebeam gets its instance", longPatience, fresh, metav1.ConditionTrue)
	v.hold(fresh)
	v.disappears("when willow is deleted, its instance ends, and it disappears", longPatience, o)
	v.disappears("when weigela is deleted, its instance ends, and it disappears", longPatience, again)
	v.until("when wingnut is deleted, its instance ends, and the operator removes its finalizer, "+
		"but not another controller's", longPatience,
		func() (string, bool) {
			now, exists := v.find(dying)
			if !exists {
				return "it is gone", false
			}
			return fmt.Sprintf("its finalizers are %q", now.GetFinalizers()),
				len(v.running(dying)) == 0 && slices.Equal(now.GetFinalizers(), []string{otherFinalizer})
		})
	v.endsUnrecorded(ending)
	v.kill()
	second := v.createWanted("weigela")
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{{
		Kind: faults.Behind, Class: faults.Read, Service: faults.API,
		Version: before.GetResourceVersion(), For: metav1.Duration{Duration: listBehind},
	}}}))
	started := time.Now()
	v.start()
	// Events arrive in order: when the operator knows this one, it knows that willow is gone.
	other := v.createWanted("yew")
	known := func() bool {
		for _, old := range []order{o, again, dying, ending, fresh} {
			if !v.sawOldNews(old, started) {
				return false
			}
		}
		return true
	}
	for time.Since(started) < longPatience && !known() {
		v.Pause(v.ctx, v.t, pollInterval)
	}
	v.disarm() // now the events arrive
	v.ready("yew gets its instance", longPatience, other, metav1.ConditionTrue)
	const own = "another CloudInstance weigela gets an instance of its own, " +
		"although the operator was started again and at first still saw the earlier one"
	v.hasOne(own, longPatience, second, 1)
	v.disappears("woodbine disappears when the operator's cache knows that it is deleted", longPatience, ending)
	v.Settle(v.ctx, v.t)
	for _, gone := range []order{o, again, dying, ending} {
		expected := fmt.Sprintf("nothing is launched for %s, which is deleted, "+
			"although the operator was started again and at first still saw it", gone.name)
		v.atMost(expected, gone, 1)
		if len(v.running(gone)) > 0 {
			v.fail(expected, v.launchedInstances(gone))
		}
		v.awaitWorkspaceGone(gone)
	}
	v.ready("whitebeam still has its instance", longPatience, fresh, metav1.ConditionTrue)
	const kept = "whitebeam keeps the finalizer " + otherFinalizer + " of another controller, " +
		"although the operator at first saw whitebeam without it"
	v.atMost(kept, fresh, 1)
	now, err := v.objects.Get(v.ctx, fresh.name, metav1.GetOptions{})
	v.OK(v.t, "reading the CloudInstance whitebeam", err)
	if !slices.Contains(now.GetFinalizers(), otherFinalizer) {
		v.fail(kept, fmt.Sprintf("its finalizers are %q", now.GetFinalizers()))
	}
}

// endsUnrecorded deletes an object while the API server refuses all writes of the operator. An operator that terminates
// the instance first has then done so, and its Workspace still names the instance. An operator that writes before that
// waits.
func (v visit) endsUnrecorded(o order) {
	v.t.Helper()
	v.arm(faults.Fault{Kind: faults.ServerError, Class: faults.Write, Service: faults.API})
	v.delete(o)
	refused := func() bool {
		return slices.ContainsFunc(v.log(), func(e faults.Entry) bool { return e.Injected && e.Name == o.name })
	}
	for began := time.Now(); time.Since(began) < longPatience && (len(v.running(o)) > 0 || !refused()); {
		v.Pause(v.ctx, v.t, pollInterval)
	}
}
