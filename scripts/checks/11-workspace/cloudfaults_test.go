// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/cloud"
)

// ownedBy reports whether the garbage collector deletes an object when the CloudInstance is gone.
func ownedBy(object *unstructured.Unstructured, o order) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return string(r.UID) == o.uid
	})
}

// unanswered creates an object for which an instance is launched, and returns while the answer is delayed.
func (v visit) unanswered(name string) order {
	v.t.Helper()
	v.delayNextWrite()
	o := v.createWanted(name)
	v.awaitLaunch(o, patience)
	return o
}

// delayNextWrite delays the answer to the next write to the cloud.
func (v visit) delayNextWrite() {
	v.t.Helper()
	v.arm(faults.Fault{
		Kind: faults.Slow, Class: faults.Write, Service: cloud.Service, At: 1, For: metav1.Duration{Duration: answerTakes},
	})
}

// awaitLaunch waits until the operator has sent a launch for an object.
func (v visit) awaitLaunch(o order, patience time.Duration) {
	v.t.Helper()
	v.until("a launch is sent for "+o.name, patience, func() (string, bool) {
		return v.launchedInstances(o), len(v.instances(o)) > 0
	})
}

// answerTakes is how long an answer is delayed: long enough to kill the operator that waits for it, and shorter than
// the operator waits. Disarming the fault delivers the answer at once.
const answerTakes = 700 * time.Millisecond

// untilSeen is how long an operator takes to receive a change that our own watch has reported.
const untilSeen = 100 * time.Millisecond

// awaitDeletion waits until our watch has reported that an object is being deleted.
func (v visit) awaitDeletion(o order) {
	v.t.Helper()
	v.until(o.name+" is being deleted", patience, func() (string, bool) {
		now, exists := v.find(o)
		return "it is not", !exists || !now.GetDeletionTimestamp().IsZero()
	})
}

func lostAnswer() e2etypes.Feature {
	return feature("an answer is lost", "and nothing is done twice", func(v visit) {
		v.arm(faults.Fault{Kind: faults.LostAnswer, Class: faults.Write, Service: cloud.Service, At: 1})
		o := v.createWanted("juniper")
		const expected = "juniper gets one instance, although the answer to the launch was lost"
		v.hasOne(expected, longPatience, o, 1)
		v.ready(expected, longPatience, o, metav1.ConditionTrue)
		v.atMost(expected, o, 1)
		other := v.runs("jujube")
		const timeLimit = "the operator gives a request up that has no answer, or only half of it, after at most 2 s"
		unanswered := func(all ...order) time.Duration {
			v.t.Helper()
			v.arm(
				faults.Fault{Kind: faults.NoAnswer, Class: faults.Write, Service: cloud.Service, At: 1},
				faults.Fault{Kind: faults.HalfAnswer, Class: faults.Write, Service: cloud.Service, At: 2})
			v.began = time.Now()
			for _, o := range all {
				v.delete(o)
			}
			for _, o := range all {
				v.disappears(o.name+" disappears, although the answer to the first attempt to end its instance never comes, "+
					"or only half of it: "+timeLimit, longPatience, o)
			}
			return v.longestWait()
		}
		waited := unanswered(o, other)
		for round := 1; waited > longestAnswer && round < mostRounds; round++ { // did it wait, or did the machine stall?
			waited = min(waited, unanswered(v.runs(fmt.Sprintf("juniper-%d", round)), v.runs(fmt.Sprintf("jujube-%d", round))))
		}
		v.Measure("until it gives a request up that has no answer", waited.Seconds(), "s")
		if waited > longestAnswer {
			v.fail(timeLimit, fmt.Sprintf("it has waited for %.1f s at least, each of %d times", waited.Seconds(), mostRounds))
		}
	})
}

// longestAnswer is the maximum time that an operator waits for an answer, including the delays of a busy machine.
const longestAnswer = 2800 * time.Millisecond

// longestWait returns how long the operator has waited for an answer that did not come, or only half of it.
func (v visit) longestWait() (longest time.Duration) {
	v.t.Helper()
	for _, e := range v.log() {
		if e.Service == cloud.Service && (e.Fault == faults.NoAnswer || e.Fault == faults.HalfAnswer) {
			longest = max(longest, time.Duration(e.Seconds*float64(time.Second)))
		}
	}
	return longest
}

// behindFor is how old the cloud's answers are in a check, which is longer than an operator's restart. The delay ends
// early when the cloud has answered notFound times for each instance that it does not exist, if the operator asks for
// it.
const (
	behindFor = time.Second
	notFound  = 5
)

func cloudBehind() e2etypes.Feature {
	return feature("the cloud's answers are behind", "and nothing is launched twice", func(v visit) {
		v.set(func(s *cloud.Settings) { s.Lag = metav1.Duration{Duration: behindFor} })
		v.arm(faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: cloud.Service, At: 1})
		first, second := v.createWanted("larch"), v.createWanted("laurel")
		var launched time.Time
		v.until("larch and laurel get an instance each", longPatience, func() (string, bool) {
			if len(v.instances(first)) == 0 || len(v.instances(second)) == 0 {
				return v.launchedInstances(first) + "; " + v.launchedInstances(second), false
			}
			if launched.IsZero() {
				launched = time.Now()
			}
			return "the cloud is behind",
				time.Since(launched) > behindFor || v.notFound(first) >= notFound && v.notFound(second) >= notFound
		})
		v.set(func(s *cloud.Settings) { s.Lag = metav1.Duration{} })
		expected := fmt.Sprintf("larch and laurel get one instance each, although the operator was killed after a launch, "+
			"and an instance is seen only up to %s after it", behindFor)
		for _, o := range []order{first, second} {
			v.hasOne(expected, longPatience, o, 1)
			v.ready(expected, longPatience, o, metav1.ConditionTrue)
		}
		for _, o := range []order{first, second} {
			v.atMost(expected, o, 1)
		}
	})
}

// notFound returns how often the cloud has answered that an object has no instance, although one was launched.
func (v visit) notFound(o order) (times int) {
	v.t.Helper()
	log := v.log()
	for _, instance := range v.instances(o) {
		times += len(slices.DeleteFunc(slices.Clone(log), func(e faults.Entry) bool {
			return e.Service != cloud.Service || e.Code != http.StatusNotFound || e.Name != instance.ID
		}))
	}
	return times
}

func tokensForgotten() e2etypes.Feature {
	return feature("an outage is longer than tokens are kept", "and nothing is launched twice", func(v visit) {
		const expected = "magnolia has one instance, although the operator was killed before it got the answer " +
			"to the launch, and was down for longer than the cloud keeps the token"
		// An instance with its tag has ended before, and is first in the list.
		v.kill()
		o := v.createWanted("magnolia")
		before := v.instances(v.decoy(map[string]string{ownerTag: o.uid}))[0]
		_, err := v.cloud.Terminate(v.ctx, before.ID)
		v.OK(v.t, "ending an instance", err)
		v.delayNextWrite()
		v.start()
		v.awaitLaunch(o, longPatience)
		v.kill()
		v.OK(v.t, "letting the cloud forget its tokens", v.cloud.Forget(v.ctx))
		v.disarm()

		v.set(func(s *cloud.Settings) { s.Boot = metav1.Duration{Duration: time.Hour} })
		v.arm(faults.Fault{Kind: faults.Unavailable, Class: faults.Read, Service: cloud.Service})
		v.start()
		const unseen = "nothing is launched while the cloud answers 503 to each search for an instance " +
			"that was launched already"
		v.until(unseen, longPatience, func() (string, bool) {
			v.atMost(unseen, o, 1)
			refused := slices.DeleteFunc(v.log(), func(e faults.Entry) bool {
				return !e.Injected || e.Write || e.Service != cloud.Service
			})
			return "the operator has not looked twice", len(refused) >= 2
		})
		v.disarm()
		const recorded = "the launch of magnolia is recorded in its Workspace, while the instance is still pending"
		v.until(recorded, longPatience, func() (string, bool) {
			v.atMost(expected, o, 1)
			_, id, _ := v.workspace(o)
			return fmt.Sprintf("the Workspace has the instanceID %q", id), id == v.instances(o)[0].ID
		})
		v.bootsAtOnce()
		v.ready(expected, longPatience, o, metav1.ConditionTrue)
		one := v.hasOne(expected, longPatience, o, 1)
		v.statusShows(expected, longPatience, o, one)
	})
}

// unwrittenFor is how long the API server refuses all writes after the first one. An operator that ignores that
// launches at once.
const unwrittenFor = 200 * time.Millisecond

func drift() e2etypes.Feature {
	return feature("another user ends an instance", "and another one is launched", func(v visit) {
		v.bootsAtOnce()
		o := v.runs("oak")
		end := func() {
			v.t.Helper()
			_, err := v.cloud.Terminate(v.ctx, v.running(o)[0].ID)
			v.OK(v.t, "ending an instance", err)
		}
		v.arm(faults.Fault{Kind: faults.ServerError, Class: faults.Write, Service: faults.API})
		v.Settle(v.ctx, v.t) // otherwise the operator would see the end by chance during its remaining work
		end()
		const unwritten = "when another user ends the instance of oak, " +
			"nothing is launched while the API server refuses to store another nonce"
		v.until(unwritten, longPatience, func() (string, bool) {
			v.atMost(unwritten, o, 1)
			refused := slices.DeleteFunc(v.log(), func(e faults.Entry) bool { return e.Service != faults.API || !e.Injected })
			return v.launchedInstances(o), len(refused) > 0 && time.Since(refused[0].Time) > unwrittenFor
		})
		v.disarm()
		const again = "when another user ends the instance of oak, another one is launched within 2 s or so, and only one"
		two := v.hasOne(again, longPatience, o, 2)
		v.statusShows(again, longPatience, o, two)
		v.arm(faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: cloud.Service, At: 1})
		end()
		// An earlier step has shown that it looks by itself. Most operators look at a change at once.
		v.change(o, `{"metadata":{"labels":{"team":"blue"}}}`)
		const killed = "when another user ends the instance of oak again, one other is launched, " +
			"although the operator is killed after the launch"
		three := v.hasOne(killed, longPatience, o, 3)
		v.statusShows(killed, longPatience, o, three)
		v.atMost(killed, o, 3)
		v.arm(faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: faults.API, At: 1})
		end()
		v.change(o, `{"metadata":{"labels":{"team":"green"}}}`)
		const renewed = "when another user ends the instance of oak again, one other is launched, " +
			"although the operator is killed after its first write"
		four := v.hasOne(renewed, longPatience, o, 4)
		v.statusShows(renewed, longPatience, o, four)
		v.records(renewed, longPatience, o, four)
		v.atMost(renewed, o, 4)
	})
}

func inFlight() e2etypes.Feature {
	return feature("deleted while it is launched", "and nothing is left", func(v visit) {
		slow := v.unanswered("quassia")
		v.delete(slow)
		v.awaitDeletion(slow)
		v.Pause(v.ctx, v.t, untilSeen)
		v.disarm() // now the answer arrives
		const flight = "when quassia is deleted while the answer to its launch is on the way, " +
			"the instance ends, and quassia disappears"
		v.disappears(flight, longPatience, slow)
		v.atMost(flight, slow, 1)

		lost := v.unanswered("rowan")
		v.delete(lost)
		v.kill()
		v.disarm()
		v.start()
		const unknown = "when rowan is deleted and the operator does not know whether its launch happened, " +
			"the instance that was launched ends before rowan disappears"
		v.disappears(unknown, longPatience, lost)

		forgotten := v.unanswered("rubus")
		v.delete(forgotten)
		v.kill()
		v.OK(v.t, "letting the cloud forget its tokens", v.cloud.Forget(v.ctx))
		v.disarm()
		v.start()
		const none = "when rubus is deleted while the operator is down for longer than the cloud keeps tokens, " +
			"the instance that was launched ends before rubus disappears"
		v.disappears(none, longPatience, forgotten)
		v.deletedEarly()
		v.Settle(v.ctx, v.t)
		for _, o := range []order{slow, lost, forgotten} {
			if running := v.running(o); len(running) > 0 {
				v.fail("nothing runs for objects that are gone", v.launchedInstances(o))
			}
		}
	})
}

// deletedEarly deletes objects while the answer to the operator's first write for the object is delayed, or to its
// second. Whatever it has written, the objects must disappear, and nothing may remain.
func (v visit) deletedEarly() {
	v.t.Helper()
	for at := 1; at <= 2; at++ {
		v.Settle(v.ctx, v.t)
		v.arm(faults.Fault{
			Kind: faults.Slow, Class: faults.Write, Service: faults.API, At: at, For: metav1.Duration{Duration: answerTakes},
		})
		v.began = time.Now()
		o := v.createWanted(fmt.Sprintf("rosewood-%d", at))
		written := fmt.Sprintf("the operator sends write %d for %s to the API server", at, o.name)
		v.until(written, longPatience, func() (string, bool) {
			log := v.log()
			i := slices.IndexFunc(log, func(e faults.Entry) bool { return e.Fault == faults.Slow })
			if i < 0 {
				return "it does not", false
			}
			now, exists := v.find(o)
			_, err := v.notes.Get(v.ctx, o.name, metav1.GetOptions{})
			return "it is not done yet", log[i].Code != 0 || err == nil || at == 1 && exists && len(now.GetFinalizers()) > 0
		})
		v.delete(o)
		v.disarm() // Now the answer arrives.
		expected := fmt.Sprintf("when %s is deleted right after write %d for it, it disappears, "+
			"and no instance and no Workspace is left", o.name, at)
		v.disappears(expected, longPatience, o)
		v.atMost(expected, o, 1)
	}
}
