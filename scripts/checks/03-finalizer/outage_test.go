// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/compare"
	"lva.io/operators/scripts/checks/story"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/freezer"
)

// These constants limit how long the freezer is down: until the operator has tried the same request so often, or until
// so much time has passed since its first request was refused, for an operator that waits longer.
const (
	outageAttempts = 5
	outageLimit    = 2 * time.Second
)

// refused returns the requests to the freezer that the injector answered or held since the check began.
func (v visit) refused() []faults.Entry {
	v.t.Helper()
	return slices.DeleteFunc(v.log(), func(e faults.Entry) bool {
		return e.Service != freezer.Service || !e.Injected || e.Time.Before(v.began)
	})
}

// triedAgain reports whether the operator has retried often enough for the freezer to answer again.
func triedAgain(refused []faults.Entry) bool {
	return check.Tries(refused) >= outageAttempts || len(refused) > 0 && time.Since(refused[0].Time) > outageLimit
}

func freezerDown() types.Feature {
	return feature("the freezer is down", "then an icecream waits for it", func(v visit) {
		dying := v.createIcecream("hazelnut", []string{"hazelnut"}, "cream")
		v.has("the ingredients of hazelnut are taken", patience, dying, "flavour hazelnut", "topping cream")
		v.arm(allRequests(faults.Unavailable)...)
		v.delete(dying)
		fresh := v.createIcecream("hibiscus", []string{"hibiscus"}, "cream")
		const stays = "while the freezer answers 503, hazelnut stays, and the operator tries again"
		v.until(stays, patience, func() (string, bool) {
			if now, exists := v.find(dying); !exists || !now.hasFinalizer() {
				v.fail(stays,
					fmt.Sprintf("the finalizer is off, and %s still out of the freezer", story.List(v.account(dying).Out())))
			}
			refused := v.refused()
			return fmt.Sprintf("it has asked the freezer %d times", len(refused)), triedAgain(refused)
		})
		v.disarm()
		v.awaitDeleted("when the freezer is back, the ingredients of hazelnut are returned, and then it is gone",
			outagePatience, dying)
		v.has("when the freezer is back, the ingredients of hibiscus are taken, which was made in the meantime",
			outagePatience, fresh, "flavour hibiscus", "topping cream")
		v.takenAfter("the finalizer comes before the freezer", fresh)
		// An error counts, regardless of the request that failed.
		third := v.createIcecream("huckleberry", []string{"huckleberry"}, "cream")
		v.has("the ingredients of huckleberry are taken", patience, third, "flavour huckleberry", "topping cream")
		fourth := v.createIcecream("hackberry", []string{"hackberry"}, "cream")
		v.has("the ingredients of hackberry are taken", patience, fourth, "flavour hackberry", "topping cream")
		v.waits("answers questions, and each booking with 503",
			fresh, faults.Fault{Kind: faults.Unavailable, Class: faults.Write})
		v.waits("would book, and answers each question with 429",
			third, faults.Fault{Kind: faults.TooManyRequests, Class: faults.Read})
		v.waits("answers one booking with 503, and then all",
			fourth, faults.Fault{Kind: faults.Unavailable, Class: faults.Write, At: 1})
	})
}

// waits deletes an icecream while the freezer refuses these requests. An operator that sends none of them is not
// affected: then everything is returned at once.
func (v visit) waits(failure string, o order, refused faults.Fault) {
	v.t.Helper()
	refused.Service = freezer.Service
	v.arm(refused)
	began := time.Now()
	v.delete(o)
	stays := fmt.Sprintf("while the freezer %s, %s stays, and the operator tries again", failure, o.name)
	v.until(stays, patience, func() (string, bool) {
		now, exists := v.find(o)
		out := v.account(o).Out()
		if (!exists || !now.hasFinalizer()) && len(out) > 0 {
			v.fail(stays, fmt.Sprintf("the finalizer is off, and %s still out of the freezer", story.List(out)))
		}
		refused := slices.DeleteFunc(v.refused(), func(e faults.Entry) bool { return e.Time.Before(began) })
		return fmt.Sprintf("it has asked the freezer %d times", len(refused)), !exists || triedAgain(refused)
	})
	v.disarm()
	v.awaitDeleted("when the freezer is back, the ingredients of "+o.name+" are returned, and then it is gone",
		outagePatience, o)
}

// An operator backs off if it makes a pause of this length after at most this many attempts. The work queue's doubling
// delays (5 ms, 10 ms, …) reach it with the seventh.
const (
	pause       = 300 * time.Millisecond
	mostRetries = 25
)

func backsOff() types.Feature {
	return feature("retries back off", "while the freezer is down", func(v visit) {
		o := v.createIcecream("ivory", []string{"ivory"}, "cream")
		v.has("the ingredients of ivory are taken", patience, o, "flavour ivory", "topping cream")
		v.arm(allRequests(faults.Unavailable)...)
		v.delete(o)
		expected := fmt.Sprintf("while the freezer answers 503, the operator waits longer and longer: "+
			"after at most %d attempts for %s or more",
			mostRetries, pause)
		v.until(expected, patience, func() (string, bool) {
			attempts := v.refused()
			if len(attempts) == 0 {
				return "it has not asked the freezer", false
			}
			longest, observed := check.Backoff(attempts)
			if longest < pause && check.Tries(attempts) > mostRetries {
				v.fail(expected, observed)
			}
			return observed, longest >= pause
		})
		v.Measure("attempts before the first long pause", float64(len(v.refused())), "attempts")
		v.disarm()
	})
}

// The condition shows whether an icecream is in accordance with the freezer.
const (
	settled            = "Settled"
	freezerUnavailable = "FreezerUnavailable"
	freezerRefused     = "FreezerRefused"
)

func condition() types.Feature {
	return feature("the condition Settled", "tells the truth", func(v visit) {
		o := v.createIcecream("jasmine", []string{"jasmine"}, "cream")
		v.settled(patience, "when the ingredients of jasmine are taken", o, metav1.ConditionTrue)
		v.arm(allRequests(faults.Unavailable)...)
		v.change(o, `{"spec":{"topping":["cream","nuts"]}}`)
		v.settled(patience, "while nuts can't be taken, since the freezer answers 503",
			o, metav1.ConditionFalse, freezerUnavailable)
		v.disarm()
		v.settled(outagePatience, "when the freezer is back and nuts are taken", o, metav1.ConditionTrue)
		if out := v.account(o).Out(); !slices.Contains(out, "topping nuts") {
			v.fail("Settled is True only when all that is wanted is out of the freezer",
				"it is True, and out are only "+story.List(out))
		}
		v.exhaustIngredients(o)
		// A user reads an icecream that is not being deleted.
		v.arm(allRequests(faults.Unavailable)...)
		v.delete(o)
		v.settled(patience, "while jasmine is being deleted and nothing can be returned, since the freezer answers 503",
			o, metav1.ConditionFalse, freezerUnavailable)
		v.disarm()
	})
}

// exhaustIngredients makes an icecream want ingredients that others have taken, so that the freezer has none left. The
// freezer's answer is no outage. It also differs from the answer about a movement that was booked before, although both
// are a 409.
func (v visit) exhaustIngredients(o order) {
	v.t.Helper()
	truffle := freezer.Ingredient{Kind: freezer.Topping, Ingredient: "truffle"}
	for n := range freezer.InitialStock {
		v.move(fmt.Sprintf("banquet-%d", n), freezer.Out, truffle)
	}
	v.change(o, `{"spec":{"topping":["cream","nuts","truffle"]}}`)
	v.settled(patience, "while no truffle can be taken, since the freezer has none left",
		o, metav1.ConditionFalse, freezerRefused)
	v.move("banquet-leftover", freezer.In, truffle)
	v.has("when a truffle has been returned, it is taken", outagePatience, o,
		"flavour "+o.name, "topping cream", "topping nuts",
		"topping truffle")
	v.settled(outagePatience, "when a truffle is taken", o, metav1.ConditionTrue)
}

// move books a movement of an owner that is not an icecream.
func (v visit) move(id, direction string, what freezer.Ingredient) {
	v.t.Helper()
	_, err := v.freezer().Book(v.ctx, freezer.Movement{ID: id, Owner: "banquet", Direction: direction, Ingredient: what})
	v.OK(v.t, "asking the freezer for "+story.Describe(what), err)
}

// settled waits until the condition has this status for the current spec, and the reason, if one is given.
func (v visit) settled(patience time.Duration, when string, o order, status metav1.ConditionStatus, reason ...string) {
	v.t.Helper()
	object, err := v.Client.Get(v.ctx, o.name, metav1.GetOptions{}) // our own watch may not have the generation yet
	v.OK(v.t, "reading an icecream", err)
	place := fmt.Sprintf("in the condition Settled of %s, ", o.name)
	expected := when + ": " + place + settledIs(status, view(object), reason...).Expected()
	v.until(expected, patience, func() (string, bool) {
		now, exists := v.find(o)
		if !exists {
			return o.name + " is gone", false
		}
		fields := settledIs(status, now, reason...)
		if meta.FindStatusCondition(now.conditions, settled) == nil {
			return o.name + " has no condition of the type Settled", false
		}
		return place + fields.Observed(), fields.Same()
	})
}

// settledIs compares the current condition of an icecream with the expected one. A condition that is False must have a
// reason.
func settledIs(status metav1.ConditionStatus, now order, reason ...string) compare.Fields {
	c := meta.FindStatusCondition(now.conditions, settled)
	if c == nil {
		c = &metav1.Condition{}
	}
	var observed *int64 // 0 is left out of the JSON
	if c.ObservedGeneration != 0 {
		observed = &c.ObservedGeneration
	}
	fields := compare.Fields{
		compare.Is("status", status, &c.Status),
		compare.Is("observedGeneration", now.generation, observed),
	}
	for _, reason := range reason {
		fields = append(fields, compare.Is("reason", reason, &c.Reason), compare.Given("message", c.Message))
	}
	return fields
}

func noAnswer() types.Feature {
	return feature("the freezer does not answer", "then the operator gives up and tries again", func(v visit) {
		o := v.createIcecream("kiwi", []string{"kiwi"}, "cream")
		v.has("the ingredients of kiwi are taken", patience, o, "flavour kiwi", "topping cream")
		v.givesUp("books nothing and does not say so", o, faults.Write)
		v.givesUp("does not answer a question", o, faults.Read)
		// The next answer gets lost: the operator must not repeat a movement that was booked.
		v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
			{Kind: faults.LostAnswer, Class: faults.Write, Service: freezer.Service, At: 1},
		}}))
		v.awaitDeleted("when the freezer answers again, the ingredients of kiwi are returned, "+
			"each once, also when an answer is lost on the way",
			outagePatience, o)
	})
}

// givesUp waits until the operator has given up on an unanswered request of a class to the freezer. It deletes the
// icecream, unless it is already being deleted. An operator that sends no request of this class is not affected, and
// finishes.
func (v visit) givesUp(failure string, o order, class faults.Class) {
	v.t.Helper()
	began := time.Now()
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
		{Kind: faults.NoAnswer, Class: class, Service: freezer.Service},
	}}))
	v.delete(o)
	v.until("when the freezer "+failure+", the operator gives up after at most 2 s", patience, func() (string, bool) {
		held := slices.DeleteFunc(v.refused(), func(e faults.Entry) bool {
			return e.Time.Before(began) || e.Class() != class
		})
		if len(held) == 0 {
			_, exists := v.find(o)
			return "it has not asked the freezer", !exists
		}
		if held[0].Seconds == 0 {
			return fmt.Sprintf("it still waits for the answer to its request of %s", clock(held[0].Time)), false
		}
		v.Measure(fmt.Sprintf("until it gives up a %s", class), held[0].Seconds, "s")
		return "", true
	})
}

func killedBetween() types.Feature {
	return feature("the operator is killed", "when the freezer has booked, and before it could write", func(v visit) {
		v.arm(faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: freezer.Service, At: 1})
		o := v.createIcecream("lychee", []string{"lychee"}, "cream", "nuts")
		v.has("the ingredients of lychee are taken, each once, although the operator is killed after the first",
			scenarioPatience, o, "flavour lychee", "topping cream", "topping nuts")
		v.arm(
			faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: freezer.Service, At: 1},
			faults.Fault{Kind: faults.KillBefore, Class: faults.Write, Service: faults.API, At: 1},
		)
		v.delete(o)
		v.awaitDeleted("the ingredients of lychee are returned, each once, although the operator is killed after the first, "+
			"and again when all are back, before it could write that down; then lychee is gone", scenarioPatience, o)
	})
}
