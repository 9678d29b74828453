// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/services/cloud"
)

func statusNoInput() e2etypes.Feature {
	return feature("another user writes into the status", "and the operator does not believe it", func(v visit) {
		theirs := v.decoy(nil)
		decoy := v.instances(theirs)[0]
		lie := fmt.Sprintf(`{"status":{"instanceID":%q,"state":"terminated","conditions":null}}`, decoy.ID)
		unharmed := func(expected string) {
			v.t.Helper()
			if len(v.running(theirs)) != 1 {
				v.fail(expected,
					fmt.Sprintf("the operator has ended the instance %s of another owner, which was only in the status", decoy.ID))
			}
		}
		v.bootsAtOnce()
		o, other, same := v.runs("maple"), v.runs("medlar"), v.runs("mulberry")
		one, two := v.instances(o)[0], v.instances(other)[0]
		v.change(o, lie, "status")
		const corrected = "when another user writes another instance into the status of maple, " +
			"the operator writes what is true, and neither launches nor ends anything"
		v.statusShows(corrected, longPatience, o, one)
		v.ready(corrected, longPatience, o, metav1.ConditionTrue)
		v.atMost(corrected, o, 1)
		unharmed(corrected)

		v.eachField(same, v.instances(same)[0], decoy)
		v.pausedCorrects()
		v.pausedStatus(same, v.instances(same)[0], decoy)

		v.kill()
		v.change(other, `{"status":null}`, "status")
		v.change(o, lie, "status")
		v.delete(o)
		v.change(same, `{"spec":{"paused":true}}`)
		v.change(same, `{"spec":{"paused":false}}`)
		fresh := v.createWanted("mangrove")
		v.change(fresh, lie, "status")
		v.start()
		const unread = "when another user writes an instance into the status of mangrove before the operator has seen it, " +
			"one is launched for it"
		v.statusShows(unread, longPatience, fresh, v.hasOne(unread, longPatience, fresh, 1))
		v.ready(unread, longPatience, fresh, metav1.ConditionTrue)
		v.ready("when the spec of mulberry is changed and changed back while the operator is down",
			longPatience, same, metav1.ConditionTrue)
		const lost = "when the status of medlar is lost while the operator is down, " +
			"nothing is launched, and the status is written again"
		v.statusShows(lost, longPatience, other, two)
		v.atMost(lost, other, 1)
		const deleted = "when maple is deleted while the operator is down, its own instance ends, whatever the status says"
		v.disappears(deleted, longPatience, o)
		unharmed(deleted)
	})
}

// eachField changes each field of a status in turn. The operator must correct each.
func (v visit) eachField(o order, one, decoy cloud.Instance) {
	v.t.Helper()
	now, _ := v.find(o)
	right := *conditionOf(now)
	for what, lie := range map[string]string{
		"instanceID": fmt.Sprintf(`{"status":{"instanceID":%q}}`, decoy.ID),
		"state":      `{"status":{"state":"terminated"}}`,
	} {
		v.change(o, lie, "status")
		v.statusShows(fmt.Sprintf("when another user writes the field %s of the status, the operator corrects it", what),
			longPatience, o, one)
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
		expected := fmt.Sprintf("when another user writes the field %s of the condition Ready, "+
			"the operator corrects it", what)
		v.until(expected, longPatience, func() (string, bool) {
			now, exists := v.find(o)
			if !exists {
				return o.name + " is gone", false
			}
			c := conditionOf(now)
			if c == nil {
				return o.name + " has no condition Ready", false
			}
			return fmt.Sprintf("Ready of %s is %s (%s: %s), with observedGeneration %d",
					o.name, c.Status, c.Reason, c.Message, c.ObservedGeneration),
				c.Status == right.Status && c.Reason == right.Reason &&
					c.Message == right.Message && c.ObservedGeneration == right.ObservedGeneration
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

// pausedCorrects checks the status of a paused object, for which no read of the cloud triggers the operator.
func (v visit) pausedCorrects() {
	v.t.Helper()
	spec := v.wanted("myrtle")
	spec["paused"] = true
	o := v.create("myrtle", spec)
	const expected = "when another user writes or deletes the condition Ready of myrtle, " +
		"which is paused, the operator corrects it"
	const lie = "AnotherReason"
	corrected := func() {
		v.t.Helper()
		v.until(expected, longPatience, func() (string, bool) {
			now, exists := v.find(o)
			if !exists {
				return "myrtle is gone", false
			}
			c := conditionOf(now)
			if c == nil {
				return "myrtle has no condition Ready", false
			}
			return fmt.Sprintf("Ready of myrtle is %s (%s: %s), with observedGeneration %d",
					c.Status, c.Reason, c.Message, c.ObservedGeneration),
				c.Reason != lie && c.ObservedGeneration == now.GetGeneration()
		})
	}
	corrected()
	v.writeCondition(o, metav1.Condition{
		Type: ready, Status: metav1.ConditionTrue, Reason: lie, Message: "another user says so",
		ObservedGeneration: 1, LastTransitionTime: metav1.Now(),
	})
	corrected()
	v.change(o, `{"status":null}`, "status")
	corrected()
}

// pausedStatus checks an object that is paused while its instance runs: its status still shows the state in the cloud.
func (v visit) pausedStatus(o order, one, decoy cloud.Instance) {
	v.t.Helper()
	v.change(o, `{"spec":{"paused":true}}`)
	paused := fmt.Sprintf("when %s is paused, the condition Ready has the observedGeneration of this change", o.name)
	v.until(paused, longPatience, func() (string, bool) {
		now, exists := v.find(o)
		if !exists {
			return o.name + " is gone", false
		}
		c := conditionOf(now)
		if c == nil {
			return o.name + " has no condition Ready", false
		}
		return fmt.Sprintf("Ready of %s has observedGeneration %d, and metadata.generation is %d",
			o.name, c.ObservedGeneration, now.GetGeneration()), c.ObservedGeneration == now.GetGeneration()
	})
	v.change(o, fmt.Sprintf(`{"status":{"instanceID":%q,"state":"terminated"}}`, decoy.ID), "status")
	corrected := fmt.Sprintf("when another user writes another instance into the status of %s, which is paused, "+
		"the operator corrects it", o.name)
	v.statusShows(corrected, longPatience, o, one)
	v.atMost(corrected, o, 1)
	v.change(o, `{"spec":{"paused":false}}`)
	v.ready(fmt.Sprintf("when %s is not paused any more", o.name), longPatience, o, metav1.ConditionTrue)
}
