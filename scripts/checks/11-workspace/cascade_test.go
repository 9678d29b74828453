// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/cloud"
)

// cascade deletes a CloudInstance as kubectl does with --cascade.
func (v visit) cascade(o order, policy metav1.DeletionPropagation) {
	v.t.Helper()
	err := v.objects.Delete(v.ctx, o.name, metav1.DeleteOptions{PropagationPolicy: &policy})
	v.OK(v.t, "deleting the CloudInstance "+o.name, err)
}

// The garbage collector discovers new kinds only every 30 s (k8s.io/kubernetes/cmd/kube-controller-manager/app,
// startGarbageCollectorController), and a check would wait for longer than all others take. So the functions below do
// its work, by its own rules (k8s.io/kubernetes/pkg/controller/garbagecollector). The garbage collector later finds the
// work done.

// collect does the garbage collector's work for a foreground deletion: it deletes the objects that the object owns.
// When they are gone, it removes its finalizer.
func (v visit) collect(o order) {
	v.t.Helper()
	notes, err := v.notes.Get(v.ctx, o.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && !ownedBy(notes, o):
		v.release(o, metav1.FinalizerDeleteDependents)
		return
	case err == nil && notes.GetDeletionTimestamp().IsZero():
		uid := notes.GetUID()
		err = v.notes.Delete(v.ctx, o.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	}
	if !apierrors.IsNotFound(err) {
		v.OK(v.t, "deleting the Workspace of "+o.name+", as the garbage collector does", err)
	}
}

// orphanChildren does the garbage collector's work for a deletion that orphans the children: it removes the owner
// reference from them, and then its finalizer from the object.
func (v visit) orphanChildren(o order) {
	v.t.Helper()
	v.edit(v.notes, "taking its owner from the Workspace "+o.name, o.name, func(notes *unstructured.Unstructured) bool {
		owned := ownedBy(notes, o)
		others := slices.DeleteFunc(notes.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return string(r.UID) == o.uid
		})
		notes.SetOwnerReferences(others)
		return owned
	})
	v.release(o, metav1.FinalizerOrphanDependents)
}

// release removes a finalizer of the garbage collector.
func (v visit) release(o order, finalizer string) {
	v.t.Helper()
	what := fmt.Sprintf("removing the finalizer %s of %s", finalizer, o.name)
	v.edit(v.objects, what, o.name, func(object *unstructured.Unstructured) bool {
		held := string(object.GetUID()) == o.uid && slices.Contains(object.GetFinalizers(), finalizer)
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(f string) bool { return f == finalizer }))
		return held
	})
}

// edit changes an existing object, and retries on conflicts. change returns whether it has changed anything.
func (v visit) edit(client dynamic.ResourceInterface, what, name string, change func(*unstructured.Unstructured) bool) {
	v.t.Helper()
	for {
		object, err := client.Get(v.ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		v.OK(v.t, what, err)
		if !change(object) {
			return
		}
		_, err = client.Update(v.ctx, object, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if !apierrors.IsConflict(err) {
			v.OK(v.t, what, err)
			return
		}
	}
}

// foreground checks objects whose Workspace is deleted before them, when the operator may lack knowledge.
func foreground() e2etypes.Feature {
	return feature("deleted in the foreground", "and nothing is left", func(v visit) {
		v.bootsAtOnce()
		down, paused := v.runs("walnut"), v.runs("wattle")
		v.arm(allRequests(faults.Unavailable)...)
		v.cascade(down, metav1.DeletePropagationForeground)
		v.collect(down)
		v.awaitDeletion(down)
		v.disarm()
		const outage = "when walnut is deleted with --cascade=foreground while the cloud is down, " +
			"its instance ends before it disappears, although the garbage collector deletes its Workspace first"
		v.disappearsWhile(outage, longPatience, down, func() { v.collect(down) })

		v.kill()
		v.change(paused, `{"spec":{"paused":true}}`)
		v.cascade(paused, metav1.DeletePropagationForeground)
		v.collect(paused)
		v.start()
		other := v.runs("wenge") // when it runs, the operator has seen wattle
		const stays = "while wattle is paused, it stays when it is deleted with --cascade=foreground, and its instance runs"
		now, exists := v.find(paused)
		if !exists || !slices.Contains(now.GetFinalizers(), finalizer) || len(v.running(paused)) != 1 {
			v.fail(stays, fmt.Sprintf("it is there: %t; %s", exists, v.launchedInstances(paused)))
		}
		v.change(paused, `{"spec":{"paused":false}}`)
		const unpaused = "when wattle, which was deleted with --cascade=foreground, is not paused any more, " +
			"its instance ends before it disappears"
		v.disappearsWhile(unpaused, longPatience, paused, func() { v.collect(paused) })
		v.delete(other)
		v.disappears("wenge disappears when it is deleted", longPatience, other)

		lost := v.unanswered("wisteria")
		v.cascade(lost, metav1.DeletePropagationForeground)
		v.kill()
		v.collect(lost)
		v.set(func(s *cloud.Settings) { s.Lag, s.Boot = metav1.Duration{Duration: hiddenFor}, metav1.Duration{} })
		v.disarm()
		v.start()
		const unknown = "when wisteria is deleted with --cascade=foreground while the answer to its launch is on the way, " +
			"and the operator is killed, the instance that was launched ends before wisteria disappears, " +
			"although the cloud does not show it yet"
		v.disappearsWhile(unknown, longPatience, lost, func() { v.collect(lost) })
		for _, o := range []order{down, paused, lost} {
			v.atMost("nothing is launched twice for an object that is deleted", o, 1)
		}
	})
}

// hiddenFor is how long the cloud does not show a launched instance. It is longer than a restart of the operator, and
// shorter than the wait of an operator that relies on the list.
const hiddenFor = 1900 * time.Millisecond

// orphan checks objects whose Workspace has no owner when they are deleted.
func orphan() e2etypes.Feature {
	return feature("deleted with --cascade=orphan", "and nothing is left", func(v visit) {
		v.bootsAtOnce()
		o := v.runs("yellowwood")
		v.kill()
		v.cascade(o, metav1.DeletePropagationOrphan)
		v.orphanChildren(o)
		v.start()
		const expected = "when yellowwood is deleted with --cascade=orphan, its instance ends before it disappears, " +
			"although its Workspace has no owner any more"
		v.disappears(expected, longPatience, o)
		second := v.createWanted("yellowwood")
		const another = "another yellowwood gets an instance of its own, " +
			"although the first one was deleted with --cascade=orphan"
		v.hasOne(another, longPatience, second, 1)
	})
}

// noAnswer checks that other objects do not wait for a request without an answer. A stalled machine may delay them, so
// the check makes several attempts, of which one must succeed.
func noAnswer() e2etypes.Feature {
	return feature("a request has no answer", "and others go on", func(v visit) {
		v.bootsAtOnce()
		var expected, observed string
		for round := range mostRounds {
			v.arm(faults.Fault{Kind: faults.NoAnswer, Class: faults.Write, Service: cloud.Service, At: 1})
			v.began = time.Now()
			stuck := v.createWanted(fmt.Sprintf("box-%d", round))
			v.until("a launch is sent for "+stuck.name, longPatience, func() (string, bool) {
				_, sent := v.unansweredRequest()
				return "none was", sent
			})
			other := v.createWanted(fmt.Sprintf("briar-%d", round))
			expected = fmt.Sprintf("%s gets its instance while the launch of %s has no answer", other.name, stuck.name)
			v.until(expected, longPatience, func() (string, bool) {
				return v.launchedInstances(other), len(v.instances(other)) > 0
			})
			late := v.launchedLate(other)
			v.disarm() // Now the request ends, and the others continue.
			next := v.createWanted(fmt.Sprintf("bramble-%d", round))
			v.hasOne(fmt.Sprintf("%s gets its instance when the launch of %s has failed", next.name, stuck.name),
				longPatience, next, 1)
			v.ready(next.name+" gets its instance", longPatience, next, metav1.ConditionTrue)
			if late == nil {
				late = v.wronglyUnavailable(other, next)
			}
			v.hasOne("when the cloud answers again, "+stuck.name+" gets its instance", longPatience, stuck, 1)
			if late == nil {
				return
			}
			observed = late.Error()
		}
		v.fail(expected, fmt.Sprintf("%s (and so it was each of %d times)", observed, mostRounds))
	})
}

// wronglyUnavailable returns an error if an object reports that the cloud is unavailable, although only a request for
// another object had no answer.
func (v visit) wronglyUnavailable(all ...order) error {
	for _, o := range all {
		if slices.Contains(v.reasonsOf(o), cloudDown) {
			return fmt.Errorf("the reason of Ready of %s was %s, although only a request for another object had no answer",
				o.name, cloudDown)
		}
	}
	return nil
}

// mostRounds is how often a check tries a step that a stalled machine can spoil. inTime is how long before the end of
// an unanswered request another request must be sent, which shows that the operator did not wait for that end.
const (
	mostRounds = 4
	inTime     = 100 * time.Millisecond
)

// unansweredRequest returns the request to the cloud that gets no answer.
func (v visit) unansweredRequest() (faults.Entry, bool) {
	v.t.Helper()
	log := v.log()
	i := slices.IndexFunc(log, func(e faults.Entry) bool {
		return e.Service == cloud.Service && e.Fault == faults.NoAnswer
	})
	if i < 0 {
		return faults.Entry{}, false
	}
	return log[i], true
}

// launchedLate returns an error if the launch for an object was sent only after the operator had given up on the
// unanswered request.
func (v visit) launchedLate(o order) error {
	v.t.Helper()
	waiting, sent := v.unansweredRequest()
	if !sent {
		return errors.New("no request was without an answer")
	}
	if waiting.Seconds == 0 {
		return nil // the operator still waits
	}
	given := waiting.Time.Add(time.Duration(waiting.Seconds * float64(time.Second)))
	for _, e := range launches(v.log()) {
		if e.ID != waiting.ID && !e.Answered().IsZero() && given.Sub(e.Time) >= inTime {
			return nil
		}
	}
	return fmt.Errorf("the launch for %s was sent only after that, which began at %s, was given up after %.1f s",
		o.name, waiting.Time.Format("15:04:05.000"), waiting.Seconds)
}
