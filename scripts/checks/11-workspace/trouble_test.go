// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/cloud"
	"lva.io/operators/scripts/faults"
)

// ownedBy reports whether the garbage collector removes an object when the CloudInstance has gone.
func ownedBy(object *unstructured.Unstructured, o order) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return string(r.UID) == o.uid })
}

// unanswered creates an object for which an instance is launched, and hands over while the answer is on the way.
func (v visit) unanswered(name string) order {
	v.t.Helper()
	v.armSlow()
	o := v.make(name)
	v.sends(o, patience)
	return o
}

// armSlow keeps the answer to the next write to the cloud on the way.
func (v visit) armSlow() {
	v.t.Helper()
	v.arm(faults.Fault{
		Kind: faults.Slow, Class: faults.Write, Service: cloud.Service, At: 1, For: metav1.Duration{Duration: answerTakes},
	})
}

// sends waits until a launch was sent for an object.
func (v visit) sends(o order, patience time.Duration) {
	v.t.Helper()
	v.until("a launch is sent for "+o.name, patience, func() (string, bool) { return v.bill(o), len(v.instances(o)) > 0 })
}

// answerTakes is how long an answer is on the way: long enough to kill who waits for it, and shorter than that waits.
// Disarming brings it at once.
const answerTakes = 700 * time.Millisecond

// untilSeen is how long an operator takes to hear of what our own watch has told us.
const untilSeen = 100 * time.Millisecond

// dies waits until our watch has told us that an object is being deleted.
func (v visit) dies(o order) {
	v.t.Helper()
	v.until(o.name+" is being deleted", patience, func() (string, bool) {
		now, there := v.find(o)
		return "it is not", !there || !now.GetDeletionTimestamp().IsZero()
	})
}

func lostAnswer() e2etypes.Feature {
	return feature("an answer is lost", "and nothing is done twice", func(v visit) {
		v.arm(faults.Fault{Kind: faults.LostAnswer, Class: faults.Write, Service: cloud.Service, At: 1})
		o := v.make("juniper")
		const expected = "juniper gets one instance, although the answer to the launch was lost"
		v.hasOne(expected, longPatience, o, 1)
		v.ready(expected, longPatience, o, metav1.ConditionTrue)
		v.atMost(expected, o, 1)
		other := v.runs("jujube")
		const given = "the operator gives a request up that has no answer, or only half of it, after at most 2 s"
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
				v.goes(o.name+" goes, although the answer to the first attempt to end its instance never comes, or only half of it: "+given, longPatience, o)
			}
			return v.waited()
		}
		waited := unanswered(o, other)
		for round := 1; waited > longestAnswer && round < mostRounds; round++ { // did it wait, or did the machine stall?
			waited = min(waited, unanswered(v.runs(fmt.Sprintf("juniper-%d", round)), v.runs(fmt.Sprintf("jujube-%d", round))))
		}
		v.Measure("until it gives a request up that has no answer", waited.Seconds(), "s")
		if waited > longestAnswer {
			v.fail(given, fmt.Sprintf("it has waited for %.1f s at least, each of %d times", waited.Seconds(), mostRounds))
		}
	})
}

// longestAnswer is how long an operator waits for an answer at most, with what a busy machine takes besides.
const longestAnswer = 2800 * time.Millisecond

// waited is how long the operator has waited for an answer that did not come, or only half of it.
func (v visit) waited() (longest time.Duration) {
	v.t.Helper()
	for _, e := range v.log() {
		if e.Service == cloud.Service && (e.Fault == faults.NoAnswer || e.Fault == faults.HalfAnswer) {
			longest = max(longest, time.Duration(e.Seconds*float64(time.Second)))
		}
	}
	return longest
}

// behindFor is how far behind the cloud's answers are in a check: longer than an operator takes to start again, and until it has been told
// notFound times of each instance that there is none, if it asks for it.
const (
	behindFor = time.Second
	notFound  = 5
)

func cloudBehind() e2etypes.Feature {
	return feature("the cloud's answers are behind", "and nothing is launched twice", func(v visit) {
		v.set(func(s *cloud.Settings) { s.Lag = metav1.Duration{Duration: behindFor} })
		v.arm(faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: cloud.Service, At: 1})
		first, second := v.make("larch"), v.make("laurel")
		var launched time.Time
		v.until("larch and laurel get an instance each", longPatience, func() (string, bool) {
			if len(v.instances(first)) == 0 || len(v.instances(second)) == 0 {
				return v.bill(first) + "; " + v.bill(second), false
			}
			if launched.IsZero() {
				launched = time.Now()
			}
			return "the cloud is behind", time.Since(launched) > behindFor || v.notFound(first) >= notFound && v.notFound(second) >= notFound
		})
		v.set(func(s *cloud.Settings) { s.Lag = metav1.Duration{} })
		expected := fmt.Sprintf("larch and laurel get one instance each, although the operator was killed after a launch, and an instance is seen only up to %s after it", behindFor)
		for _, o := range []order{first, second} {
			v.hasOne(expected, longPatience, o, 1)
			v.ready(expected, longPatience, o, metav1.ConditionTrue)
		}
		for _, o := range []order{first, second} {
			v.atMost(expected, o, 1)
		}
	})
}

// notFound is how often the cloud has answered that there is no instance of an object, although it was launched.
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
		const expected = "magnolia has one instance, although the operator was killed before it got the answer to the launch, and was down for longer than the cloud keeps the token"
		// An instance with its tag has ended before: in the list it comes first.
		v.kill()
		o := v.make("magnolia")
		before := v.instances(v.decoy(map[string]string{ownerTag: o.uid}))[0]
		_, err := v.cloud.Terminate(v.ctx, before.ID)
		v.OK(v.t, "ending an instance", err)
		v.armSlow()
		v.start()
		v.sends(o, longPatience)
		v.kill()
		v.OK(v.t, "letting the cloud forget its tokens", v.cloud.Forget(v.ctx))
		v.disarm()

		v.set(func(s *cloud.Settings) { s.Boot = metav1.Duration{Duration: time.Hour} })
		v.arm(faults.Fault{Kind: faults.Unavailable, Class: faults.Read, Service: cloud.Service})
		v.start()
		const unseen = "nothing is launched while the cloud answers 503 to who looks for an instance that was launched already"
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
		v.tells(expected, longPatience, o, one)
	})
}

func statusNoInput() e2etypes.Feature {
	return feature("somebody writes into the status", "and the operator does not believe it", func(v visit) {
		somebody := v.decoy(nil)
		decoy := v.instances(somebody)[0]
		lie := fmt.Sprintf(`{"status":{"instanceID":%q,"state":"terminated","conditions":null}}`, decoy.ID)
		unharmed := func(expected string) {
			v.t.Helper()
			if len(v.running(somebody)) != 1 {
				v.fail(expected, fmt.Sprintf("the operator has ended the instance %s of somebody else, which was only in the status", decoy.ID))
			}
		}
		v.bootsAtOnce()
		o, other, same := v.runs("maple"), v.runs("medlar"), v.runs("mulberry")
		one, two := v.instances(o)[0], v.instances(other)[0]
		v.change(o, lie, "status")
		const corrected = "when somebody writes another instance into the status of maple, the operator writes what is true, and neither launches nor ends anything"
		v.tells(corrected, longPatience, o, one)
		v.ready(corrected, longPatience, o, metav1.ConditionTrue)
		v.atMost(corrected, o, 1)
		unharmed(corrected)

		v.eachField(same, v.instances(same)[0], decoy)
		v.pausedCorrects()

		v.kill()
		v.change(other, `{"status":null}`, "status")
		v.change(o, lie, "status")
		v.delete(o)
		v.change(same, `{"spec":{"paused":true}}`)
		v.change(same, `{"spec":{"paused":false}}`)
		fresh := v.make("mangrove")
		v.change(fresh, lie, "status")
		v.start()
		const unread = "when another user writes an instance into the status of mangrove before the operator has seen it, one is launched for it"
		v.tells(unread, longPatience, fresh, v.hasOne(unread, longPatience, fresh, 1))
		v.ready(unread, longPatience, fresh, metav1.ConditionTrue)
		v.ready("when the spec of mulberry is changed and changed back while the operator is down", longPatience, same, metav1.ConditionTrue)
		const lost = "when the status of medlar is lost while the operator is down, nothing is launched, and the status is written again"
		v.tells(lost, longPatience, other, two)
		v.atMost(lost, other, 1)
		const deleted = "when maple is deleted while the operator is down, its own instance ends, whatever the status says"
		v.goes(deleted, longPatience, o)
		unharmed(deleted)
	})
}

// eachField writes something else into each field of a status in turn: the operator corrects each.
func (v visit) eachField(o order, one, decoy cloud.Instance) {
	v.t.Helper()
	now, _ := v.find(o)
	right := *conditionOf(now)
	for what, lie := range map[string]string{
		"instanceID": fmt.Sprintf(`{"status":{"instanceID":%q}}`, decoy.ID),
		"state":      `{"status":{"state":"terminated"}}`,
	} {
		v.change(o, lie, "status")
		v.tells(fmt.Sprintf("when another user writes the field %s of the status, the operator corrects it", what), longPatience, o, one)
	}
	for what, change := range map[string]func(*metav1.Condition){
		"status":             func(c *metav1.Condition) { c.Status = metav1.ConditionFalse },
		"reason":             func(c *metav1.Condition) { c.Reason = "AnotherReason" },
		"message":            func(c *metav1.Condition) { c.Message = "another message" },
		"observedGeneration": func(c *metav1.Condition) { c.ObservedGeneration += 7 },
	} {
		wrong := right
		change(&wrong)
		v.writeCondition(o, wrong)
		expected := fmt.Sprintf("when another user writes the field %s of the condition Ready, the operator corrects it", what)
		v.until(expected, longPatience, func() (string, bool) {
			now, there := v.find(o)
			if !there {
				return o.name + " is gone", false
			}
			c := conditionOf(now)
			if c == nil {
				return o.name + " has no condition Ready", false
			}
			return fmt.Sprintf("Ready of %s is %s (%s: %s), with observedGeneration %d", o.name, c.Status, c.Reason, c.Message, c.ObservedGeneration),
				c.Status == right.Status && c.Reason == right.Reason && c.Message == right.Message && c.ObservedGeneration == right.ObservedGeneration
		})
	}
}

// writeCondition writes a condition into the status of an object, as another user does.
func (v visit) writeCondition(o order, c metav1.Condition) {
	v.t.Helper()
	text, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{c}}})
	v.OK(v.t, "encoding a condition", err)
	v.change(o, string(text), "status")
}

// pausedCorrects is about the status of an object that is paused, of which no look at the cloud reminds the operator.
func (v visit) pausedCorrects() {
	v.t.Helper()
	spec := v.wanted("myrtle")
	spec["paused"] = true
	o := v.create("myrtle", spec)
	const expected = "when another user writes or deletes the condition Ready of myrtle, which is paused, the operator corrects it"
	const lie = "AnotherReason"
	corrected := func() {
		v.t.Helper()
		v.until(expected, longPatience, func() (string, bool) {
			now, there := v.find(o)
			if !there {
				return "myrtle is gone", false
			}
			c := conditionOf(now)
			if c == nil {
				return "myrtle has no condition Ready", false
			}
			return fmt.Sprintf("Ready of myrtle is %s (%s: %s), with observedGeneration %d", c.Status, c.Reason, c.Message, c.ObservedGeneration),
				c.Reason != lie && c.ObservedGeneration == now.GetGeneration()
		})
	}
	corrected()
	v.writeCondition(o, metav1.Condition{
		Type: ready, Status: metav1.ConditionTrue, Reason: lie, Message: "another user says so", ObservedGeneration: 1, LastTransitionTime: metav1.Now(),
	})
	corrected()
	v.change(o, `{"status":null}`, "status")
	corrected()
}

// unwrittenFor is how long the API server refuses all writes after the first one: an operator that does not mind launches at once.
const unwrittenFor = 200 * time.Millisecond

func drift() e2etypes.Feature {
	return feature("somebody ends an instance", "and another one is launched", func(v visit) {
		v.bootsAtOnce()
		o := v.runs("oak")
		end := func() {
			v.t.Helper()
			_, err := v.cloud.Terminate(v.ctx, v.running(o)[0].ID)
			v.OK(v.t, "ending an instance", err)
		}
		v.arm(faults.Fault{Kind: faults.ServerError, Class: faults.Write, Service: faults.API})
		v.Settle(v.ctx, v.t) // otherwise what the operator still had to do would show it the end by chance
		end()
		const unwritten = "when somebody ends the instance of oak, nothing is launched while the API server refuses to store another nonce"
		v.until(unwritten, longPatience, func() (string, bool) {
			v.atMost(unwritten, o, 1)
			refused := slices.DeleteFunc(v.log(), func(e faults.Entry) bool { return e.Service != faults.API || !e.Injected })
			return v.bill(o), len(refused) > 0 && time.Since(refused[0].Time) > unwrittenFor
		})
		v.disarm()
		const again = "when somebody ends the instance of oak, another one is launched within 2 s or so, and only one"
		two := v.hasOne(again, longPatience, o, 2)
		v.tells(again, longPatience, o, two)
		v.arm(faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: cloud.Service, At: 1})
		end()
		// That it looks by itself was seen. Most operators look at a change at once.
		v.change(o, `{"metadata":{"labels":{"team":"blue"}}}`)
		const killed = "when somebody ends the instance of oak again, one other is launched, although the operator is killed after the launch"
		three := v.hasOne(killed, longPatience, o, 3)
		v.tells(killed, longPatience, o, three)
		v.atMost(killed, o, 3)
		v.arm(faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: faults.API, At: 1})
		end()
		v.change(o, `{"metadata":{"labels":{"team":"green"}}}`)
		const renewed = "when another user ends the instance of oak again, one other is launched, although the operator is killed after its first write"
		four := v.hasOne(renewed, longPatience, o, 4)
		v.tells(renewed, longPatience, o, four)
		v.records(renewed, longPatience, o, four)
		v.atMost(renewed, o, 4)
	})
}

// An operator backs off if it makes a pause of so long, after so many attempts at most. Its pauses have an end if
// shortPauses of them in a row, from the first one of that length on, are shorter than longestPause; they have none
// when longPauses are longer, of which one may be that of a machine that stalls.
const (
	pause        = 300 * time.Millisecond
	mostRetries  = 25
	longestPause = 2 * time.Second
	shortPauses  = 4
	longPauses   = 2
)

// pauses counts the pauses between attempts from the first one on that backs off, and the one since the last attempt:
// how many were too long, and how many since then were not.
func pauses(attempts []faults.Entry) (long, short int, observed string) {
	last := time.Since(attempts[len(attempts)-1].Time)
	began, longest := false, last
	for i := range len(attempts) - 1 {
		took := attempts[i+1].Time.Sub(attempts[i].Time)
		began = began || took >= pause
		longest = max(longest, took)
		switch {
		case took > longestPause:
			long, short = long+1, 0
		case began && took >= sameAttempt:
			short++
		}
	}
	if last > longestPause {
		long, short = long+1, 0
	}
	return long, short, fmt.Sprintf("%d attempts, with pauses of up to %.1f s", len(attempts), longest.Seconds())
}

// sameAttempt is how far apart two requests are at most that belong to one attempt.
const sameAttempt = 50 * time.Millisecond

func backsOff() e2etypes.Feature {
	return feature("retries back off", "while the cloud throttles", func(v visit) {
		v.arm(whole(faults.TooManyRequests)...)
		o := v.make("palm")
		expected := fmt.Sprintf("while the cloud answers 429, the operator waits longer and longer: after at most %d attempts for %s or more", mostRetries, pause)
		refused := func() []faults.Entry {
			return slices.DeleteFunc(v.log(), func(e faults.Entry) bool { return e.Service != cloud.Service || !e.Injected })
		}
		v.until(expected, patience, func() (string, bool) {
			attempts := refused()
			if len(attempts) == 0 {
				return "it has not asked the cloud", false
			}
			longest, observed := check.Backoff(attempts)
			if longest < pause && check.Tries(attempts) > mostRetries {
				v.fail(expected, observed)
			}
			return observed, longest >= pause
		})
		v.Measure("attempts before the first long pause", float64(len(refused())), "attempts")
		ended := fmt.Sprintf("while the cloud answers 429, the operator tries again every %s or more often", longestPause)
		v.until(ended, longPatience, func() (string, bool) {
			long, short, observed := pauses(refused())
			if long >= longPauses {
				v.fail(ended, observed)
			}
			return observed, short >= shortPauses
		})
		v.disarm()
		v.hasOne("when the cloud does not throttle any more, palm gets its instance", longPatience, o, 1)

		v.resets(o)
	})
}

// resets is about a cloud that resets connections: the error of each attempt names another port. If the status has that port, each attempt
// changes the status, and each change calls Reconcile.
func (v visit) resets(o order) {
	v.t.Helper()
	v.ready("the instance of "+o.name+" runs", longPatience, o, metav1.ConditionTrue)
	before := len(v.messagesOf(o))
	v.arm(whole(faults.Reset)...)
	v.began = time.Now()
	v.change(o, `{"metadata":{"labels":{"team":"blue"}}}`) // Whether it looks by itself is for other checks to say.
	const expected = "while the cloud resets each connection, the operator tries again, and Ready has the same message for the same error"
	v.until(expected, longPatience, func() (string, bool) {
		attempts := slices.DeleteFunc(v.log(), func(e faults.Entry) bool { return e.Service != cloud.Service || !e.Injected })
		messages := v.messagesOf(o)[before:]
		if len(messages) > mostMessages {
			v.fail(expected, fmt.Sprintf("Ready of %s has had %d messages: %q", o.name, len(messages), messages))
		}
		return fmt.Sprintf("it has tried %d times", check.Tries(attempts)), check.Tries(attempts) >= triesAtReset
	})
	v.disarm()
	v.ready("when the cloud resets no connection any more", longPatience, o, metav1.ConditionTrue)
	if messages := v.messagesOf(o)[before:]; len(messages) > mostMessages {
		v.fail(expected, fmt.Sprintf("Ready of %s has had %d messages: %q", o.name, len(messages), messages))
	}
}

// mostMessages is how many messages Ready may have while connections are reset: an operator may look for an instance or launch it, and a
// connection may be reset while it writes or while it reads. After triesAtReset, one whose messages all differ has had more.
const (
	mostMessages = 4
	triesAtReset = 8
)

func inFlight() e2etypes.Feature {
	return feature("deleted while it is launched", "and nothing is left", func(v visit) {
		slow := v.unanswered("quassia")
		v.delete(slow)
		v.dies(slow)
		v.Pause(v.ctx, v.t, untilSeen)
		v.disarm() // now the answer arrives
		const flight = "when quassia is deleted while the answer to its launch is on the way, the instance ends, and quassia goes"
		v.goes(flight, longPatience, slow)
		v.atMost(flight, slow, 1)

		lost := v.unanswered("rowan")
		v.delete(lost)
		v.kill()
		v.disarm()
		v.start()
		const unknown = "when rowan is deleted and the operator does not know whether its launch happened, the instance that was launched ends before rowan goes"
		v.goes(unknown, longPatience, lost)

		forgotten := v.unanswered("rubus")
		v.delete(forgotten)
		v.kill()
		v.OK(v.t, "letting the cloud forget its tokens", v.cloud.Forget(v.ctx))
		v.disarm()
		v.start()
		const none = "when rubus is deleted while the operator is down for longer than the cloud keeps tokens, the instance that was launched ends before rubus goes"
		v.goes(none, longPatience, forgotten)
		v.deletedEarly()
		v.Settle(v.ctx, v.t)
		for _, o := range []order{slow, lost, forgotten} {
			if running := v.running(o); len(running) > 0 {
				v.fail("nothing runs for objects that are gone", v.bill(o))
			}
		}
	})
}

// deletedEarly deletes objects while the answer to the operator's first write for it is on the way, or to its second: whatever it has
// written, the objects go, and nothing is left.
func (v visit) deletedEarly() {
	v.t.Helper()
	for at := 1; at <= 2; at++ {
		v.Settle(v.ctx, v.t)
		v.arm(faults.Fault{
			Kind: faults.Slow, Class: faults.Write, Service: faults.API, At: at, For: metav1.Duration{Duration: answerTakes},
		})
		v.began = time.Now()
		o := v.make(fmt.Sprintf("rosewood-%d", at))
		written := fmt.Sprintf("the operator sends write %d for %s to the API server", at, o.name)
		v.until(written, longPatience, func() (string, bool) {
			log := v.log()
			i := slices.IndexFunc(log, func(e faults.Entry) bool { return e.Fault == faults.Slow })
			if i < 0 {
				return "it does not", false
			}
			now, there := v.find(o)
			_, err := v.notes.Get(v.ctx, o.name, metav1.GetOptions{})
			return "it is not done yet", log[i].Code != 0 || err == nil || at == 1 && there && len(now.GetFinalizers()) > 0
		})
		v.delete(o)
		v.disarm() // Now the answer arrives.
		expected := fmt.Sprintf("when %s is deleted right after write %d for it, it goes, and no instance and no Workspace is left", o.name, at)
		v.goes(expected, longPatience, o)
		v.atMost(expected, o, 1)
	}
}

func imported() e2etypes.Feature {
	return feature("an instance is imported", "unless it belongs to another", func(v visit) {
		theirs := v.decoy(nil)
		one := v.instances(theirs)[0]
		o := v.create("spruce", map[string]any{"instanceID": one.ID})
		const expected = "spruce imports the instance that spec.instanceID names: nothing is launched, and the instance gets the tag " + ownerTag
		v.ready(expected, patience, o, metav1.ConditionTrue)
		v.until(expected, patience, func() (string, bool) {
			now := v.instances(theirs)[0]
			return fmt.Sprintf("its tags are %v", now.Tags), now.Tags[ownerTag] == o.uid
		})
		v.tells(expected, patience, o, one)
		everything, err := v.cloud.List(v.ctx, ownerTag, o.uid)
		v.OK(v.t, "listing the instances", err)
		if len(everything) != 1 {
			v.fail(expected, fmt.Sprintf("there are %d instances with the tag of spruce", len(everything)))
		}

		foreign := v.decoy(map[string]string{ownerTag: "somebody-else"})
		for name, id := range map[string]string{"sumac": v.instances(foreign)[0].ID, "sycamore": one.ID, "sapodilla": "i-there-is-none"} {
			wrong := v.create(name, map[string]any{"instanceID": id})
			what := name + " can't import an instance that belongs to another"
			if name == "sapodilla" {
				what = name + " can't import an instance that there is not"
			}
			v.ready(what, longPatience, wrong, metav1.ConditionFalse)
			v.delete(wrong)
			v.until(what+", and goes when it is deleted", longPatience, func() (string, bool) {
				_, there := v.find(wrong)
				return name + " is still there", !there
			})
		}
		const unharmed = "an instance that belongs to another is not ended"
		if len(v.running(foreign)) != 1 || len(v.running(theirs)) != 1 {
			v.fail(unharmed, "it was ended when an object was deleted that could not import it")
		}

		turned := v.create("sassafras", map[string]any{"instanceID": v.instances(foreign)[0].ID})
		v.ready("sassafras can't import an instance that belongs to another", longPatience, turned, metav1.ConditionFalse)
		// The types of the lab do not allow this. An operator whose types do must not take what it could not import for its own.
		const asLaunch = `{"spec":{"instanceID":null,"type":"small","image":"sassafras"}}`
		_, err = v.objects.Patch(v.ctx, turned.name, types.MergePatchType, []byte(asLaunch), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) {
			v.OK(v.t, "changing sassafras from an import to a launch", err)
		}
		v.delete(turned)
		v.until("sassafras disappears after it is deleted", longPatience, func() (string, bool) {
			_, there := v.find(turned)
			return "it is still there", !there
		})
		if len(v.running(foreign)) != 1 {
			v.fail(unharmed, "it was ended when sassafras was deleted, which could not import it, and whose spec then had a type and an image instead of its ID")
		}
		v.delete(o)
		v.until("when spruce is deleted, the instance that it imported ends, and spruce goes", longPatience, func() (string, bool) {
			_, there := v.find(o)
			running := v.running(theirs)
			if !there && len(running) > 0 {
				v.fail("when spruce is deleted, the instance that it imported ends before it goes", "spruce is gone, and "+one.ID+" still runs")
			}
			return "it is still there", !there
		})
		v.foreignNamed()
	})
}

func paused() e2etypes.Feature {
	return feature("a CloudInstance is paused", "and nothing happens in the cloud", func(v visit) {
		v.bootsAtOnce()
		spec := v.wanted("teak")
		spec["paused"] = true
		o := v.create("teak", spec)
		theirs := v.decoy(nil)
		one := v.instances(theirs)[0]
		imports := v.create("tamarind", map[string]any{"instanceID": one.ID, "paused": true})
		other := v.runs("tulip") // by then it has seen teak
		v.Settle(v.ctx, v.t)
		if len(v.instances(o)) > 0 {
			v.fail("while teak is paused, nothing is launched for it", v.bill(o))
		}
		if tags := v.instances(theirs)[0].Tags; len(tags) > 0 {
			const untouched = "while tamarind is paused, the instance that it is to import stays as it is"
			v.fail(untouched, fmt.Sprintf("%s has the tags %v", one.ID, tags))
		}
		v.change(imports, `{"spec":{"paused":false}}`)
		const resumed = "when tamarind is not paused any more, it imports its instance"
		v.ready(resumed, longPatience, imports, metav1.ConditionTrue)
		v.until(resumed, longPatience, func() (string, bool) {
			tags := v.instances(theirs)[0].Tags
			return fmt.Sprintf("its tags are %v", tags), tags[ownerTag] == imports.uid
		})
		v.delete(imports)
		v.until("tamarind, which is not paused, goes when it is deleted", longPatience, func() (string, bool) {
			_, there := v.find(imports)
			return "it is still there", !there
		})
		v.change(o, `{"spec":{"paused":false}}`)
		v.hasOne("when teak is not paused any more, its instance is launched", longPatience, o, 1)
		v.ready("when teak is not paused any more", longPatience, o, metav1.ConditionTrue)

		v.change(o, `{"spec":{"paused":true}}`)
		v.Settle(v.ctx, v.t)
		v.delete(o)
		v.delete(other)
		v.goes("tulip, which is not paused, goes when it is deleted", longPatience, other)
		v.Settle(v.ctx, v.t)
		const stays = "while teak is paused, it stays when it is deleted, and its instance runs"
		if _, there := v.find(o); !there || len(v.running(o)) != 1 {
			v.fail(stays, fmt.Sprintf("it is there: %t; %s", there, v.bill(o)))
		}
		v.change(o, `{"spec":{"paused":false}}`)
		v.goes("when teak, which was deleted, is not paused any more, its instance ends, and it goes", longPatience, o)
	})
}

// How long an operator that was started again knows only what was before: until it was busy for oldNewsFor with an object that has gone, and
// listBehind at most, for one that asks nobody.
const (
	listBehind = 500 * time.Millisecond
	oldNewsFor = 150 * time.Millisecond
)

func oldNews() e2etypes.Feature {
	return feature("the operator starts with an old list", "and launches nothing for what has gone", oldList)
}

// knewOnly reports whether an operator that was started then has had its time with old news about an object.
func (v visit) knewOnly(o order, started time.Time) bool {
	v.t.Helper()
	log := slices.DeleteFunc(v.log(), func(e faults.Entry) bool { return e.Service != faults.API || e.Time.Before(started) })
	busy := slices.IndexFunc(log, func(e faults.Entry) bool { return e.Name == o.name })
	listed := slices.IndexFunc(log, func(e faults.Entry) bool { return e.Verb == "list" && e.Resource == resource.Resource })
	return busy >= 0 && time.Since(log[busy].Time) > oldNewsFor || listed >= 0 && time.Since(log[listed].Time) > listBehind
}

// hold puts a finalizer of another controller on an object.
func (v visit) hold(o order) {
	v.t.Helper()
	v.edit(v.objects, "adding a finalizer to "+o.name, o.name, func(object *unstructured.Unstructured) bool {
		object.SetFinalizers(append(object.GetFinalizers(), otherFinalizer))
		return true
	})
}

// otherFinalizer is a finalizer of another controller.
const otherFinalizer = "team.example.com/hold"

// oldList is about an operator that is started again while the API server that it asks is behind the others, as one of three may be
// (kubernetes issue 59848). Its cache begins with an object that has gone in the meantime, one of whose name there is another one by now, one
// that is being deleted, of which its part is done, and one without the finalizers that it has by now.
func oldList(v visit) {
	v.bootsAtOnce()
	o, again, dying := v.runs("willow"), v.runs("weigela"), v.runs("wingnut")
	v.hold(dying)
	v.Settle(v.ctx, v.t)
	v.arm(faults.Fault{Kind: faults.ServerError, Class: faults.Write, Service: faults.API})
	fresh := v.make("whitebeam")
	v.until("the operator writes for whitebeam, which the API server refuses", longPatience, func() (string, bool) {
		return "it does not", slices.ContainsFunc(v.log(), func(e faults.Entry) bool { return e.Injected && e.Name == fresh.name })
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
	v.goes("when willow is deleted, its instance ends, and it goes", longPatience, o)
	v.goes("when weigela is deleted, its instance ends, and it goes", longPatience, again)
	v.until("when wingnut is deleted, its instance ends, and the operator removes its finalizer, but not another controller's", longPatience,
		func() (string, bool) {
			now, there := v.find(dying)
			if !there {
				return "it is gone", false
			}
			return fmt.Sprintf("its finalizers are %q", now.GetFinalizers()),
				len(v.running(dying)) == 0 && slices.Equal(now.GetFinalizers(), []string{otherFinalizer})
		})
	v.kill()
	second := v.make("weigela")
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{{
		Kind: faults.Behind, Class: faults.Read, Service: faults.API,
		Version: before.GetResourceVersion(), For: metav1.Duration{Duration: listBehind},
	}}}))
	started := time.Now()
	v.start()
	// Events arrive in order: when it knows of this one, it knows that willow has gone.
	other := v.make("yew")
	known := func() bool {
		for _, old := range []order{o, again, dying, fresh} {
			if !v.knewOnly(old, started) {
				return false
			}
		}
		return true
	}
	for time.Since(started) < longPatience && !known() {
		v.Pause(v.ctx, v.t, glance)
	}
	v.disarm() // now the events arrive
	v.ready("yew gets its instance", longPatience, other, metav1.ConditionTrue)
	const own = "another CloudInstance weigela gets an instance of its own, although the operator was started again and at first still saw the earlier one"
	v.hasOne(own, longPatience, second, 1)
	v.Settle(v.ctx, v.t)
	for _, gone := range []order{o, again, dying} {
		expected := fmt.Sprintf("nothing is launched for %s, which is deleted, although the operator was started again and at first still saw it", gone.name)
		v.atMost(expected, gone, 1)
		if len(v.running(gone)) > 0 {
			v.fail(expected, v.bill(gone))
		}
		v.leavesNone(gone)
	}
	v.ready("whitebeam still has its instance", longPatience, fresh, metav1.ConditionTrue)
	const kept = "whitebeam keeps the finalizer " + otherFinalizer + " of another controller, although the operator at first saw whitebeam without it"
	v.atMost(kept, fresh, 1)
	now, err := v.objects.Get(v.ctx, fresh.name, metav1.GetOptions{})
	v.OK(v.t, "reading the CloudInstance whitebeam", err)
	if !slices.Contains(now.GetFinalizers(), otherFinalizer) {
		v.fail(kept, fmt.Sprintf("its finalizers are %q", now.GetFinalizers()))
	}
}
