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

	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/freezer"
)

// How long the freezer is down: until so many requests were refused; or for so long since the first one, if the operator
// takes its time.
const (
	outageAttempts = 5
	outageLimit    = 2 * time.Second
)

// refused are the requests to the freezer that the injector answered, or held, since the check began.
func (v visit) refused() []faults.Entry {
	v.t.Helper()
	return slices.DeleteFunc(v.log(), func(e faults.Entry) bool {
		return e.Service != freezer.Service || !e.Injected || e.Time.Before(v.began)
	})
}

func freezerDown() types.Feature {
	return feature("the freezer is down", "then an icecream waits for it", func(v visit) {
		dying := v.make("hazelnut", []string{"hazelnut"}, "cream")
		v.has("the ingredients of hazelnut are taken", patience, dying, "flavour hazelnut", "topping cream")
		v.arm(whole(faults.Unavailable)...)
		v.delete(dying)
		fresh := v.make("hibiscus", []string{"hibiscus"}, "cream")
		const stays = "while the freezer answers 503, hazelnut stays, and the operator tries again"
		v.until(stays, patience, func() (string, bool) {
			if now, there := v.find(dying); !there || !now.held() {
				v.fail(stays, fmt.Sprintf("the finalizer is off, and %s still out of the freezer", sentence(v.account(dying).out())))
			}
			refused := v.refused()
			return fmt.Sprintf("it has asked the freezer %d times", len(refused)),
				len(refused) >= outageAttempts || len(refused) > 0 && time.Since(refused[0].Time) > outageLimit
		})
		v.disarm()
		v.leaves("when the freezer is back, the ingredients of hazelnut go back, and then it is gone", outagePatience, dying)
		v.has("when the freezer is back, the ingredients of hibiscus are taken, which was made in the meantime",
			outagePatience, fresh, "flavour hibiscus", "topping cream")
		v.takenAfter("the finalizer comes before the freezer", fresh)
	})
}

// An operator backs off if it makes a pause of so long, after so many attempts at most. The work queue's doubling delays
// (5 ms, 10 ms, …) get there with the seventh.
const (
	pause       = 300 * time.Millisecond
	mostRetries = 25
)

func backsOff() types.Feature {
	return feature("retries back off", "while the freezer is down", func(v visit) {
		o := v.make("ivory", []string{"ivory"}, "cream")
		v.has("the ingredients of ivory are taken", patience, o, "flavour ivory", "topping cream")
		v.arm(whole(faults.Unavailable)...)
		v.delete(o)
		expected := fmt.Sprintf("while the freezer answers 503, the operator waits longer and longer: after at most %d attempts for %s or more",
			mostRetries, pause)
		v.until(expected, patience, func() (string, bool) {
			attempts := v.refused()
			if len(attempts) == 0 {
				return "it has not asked the freezer", false
			}
			longest := time.Since(attempts[len(attempts)-1].Time)
			for i := range len(attempts) - 1 {
				longest = max(longest, attempts[i+1].Time.Sub(attempts[i].Time))
			}
			observed := fmt.Sprintf("%d attempts within %s, and no pause longer than %s", len(attempts),
				time.Since(attempts[0].Time).Round(time.Millisecond), longest.Round(time.Millisecond))
			if longest < pause && most(attempts) > mostRetries {
				v.fail(expected, observed)
			}
			return observed, longest >= pause
		})
		v.Measure("attempts before the first long pause", float64(len(v.refused())), "attempts")
		v.disarm()
	})
}

// most is how often the same was asked for.
func most(entries []faults.Entry) (most int) {
	counts := map[string]int{}
	for _, e := range entries {
		counts[e.What()]++
		most = max(most, counts[e.What()])
	}
	return most
}

// The condition that shows how an icecream and the freezer stand.
const (
	settled            = "Settled"
	freezerUnavailable = "FreezerUnavailable"
)

func condition() types.Feature {
	return feature("the condition Settled", "tells the truth", func(v visit) {
		o := v.make("jasmine", []string{"jasmine"}, "cream")
		v.settled(patience, "the condition Settled is True when the ingredients of jasmine are taken", o, metav1.ConditionTrue)
		v.arm(whole(faults.Unavailable)...)
		v.change(o, `{"spec":{"topping":["cream","nuts"]}}`)
		v.settled(patience, "while nuts can't be taken, since the freezer answers 503, the condition Settled is False, with the reason "+
			freezerUnavailable+" and the error as its message", o, metav1.ConditionFalse)
		v.disarm()
		v.settled(outagePatience, "the condition Settled is True again when nuts are taken", o, metav1.ConditionTrue)
		if out := v.account(o).out(); !slices.Contains(out, "topping nuts") {
			v.fail("Settled is True only when all that is wanted is out of the freezer", "it is True, and out are only "+sentence(out))
		}
	})
}

// settled waits until the condition has this status, about the spec as it is now.
func (v visit) settled(patience time.Duration, expected string, o order, status metav1.ConditionStatus) {
	v.t.Helper()
	v.until(expected, patience, func() (string, bool) {
		now, there := v.find(o)
		if !there {
			return o.name + " is gone", false
		}
		c := meta.FindStatusCondition(now.conditions, settled)
		if c == nil {
			return "there is no condition of the type Settled", false
		}
		ok := c.Status == status && c.ObservedGeneration == now.generation &&
			(status == metav1.ConditionTrue || c.Reason == freezerUnavailable && c.Message != "")
		return fmt.Sprintf("Settled is %s, reason %q, message %q, observedGeneration %d (the generation is %d)",
			c.Status, c.Reason, c.Message, c.ObservedGeneration, now.generation), ok
	})
}

func noAnswer() types.Feature {
	return feature("the freezer does not answer", "then the operator gives up and tries again", func(v visit) {
		o := v.make("kiwi", []string{"kiwi"}, "cream")
		v.has("the ingredients of kiwi are taken", patience, o, "flavour kiwi", "topping cream")
		v.arm(whole(faults.NoAnswer)...)
		v.delete(o)
		const expected = "when the freezer does not answer, the operator gives up after at most 2 s"
		v.until(expected, patience, func() (string, bool) {
			held := v.refused()
			if len(held) == 0 {
				return "it has not asked the freezer", false
			}
			if held[0].Seconds == 0 {
				return fmt.Sprintf("it still waits for the answer to its request of %s", clock(held[0].Time)), false
			}
			v.Measure("until it gives up", held[0].Seconds, "s")
			return "", true
		})
		// The next answer gets lost: what was booked must not be booked again.
		v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
			{Kind: faults.LostAnswer, Class: faults.Write, Service: freezer.Service, At: 1},
		}}))
		v.leaves("when the freezer answers again, the ingredients of kiwi go back, each once, also when an answer is lost on the way",
			outagePatience, o)
	})
}

func killedBetween() types.Feature {
	return feature("the operator is killed", "when the freezer has booked, and before it could write", func(v visit) {
		v.arm(faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: freezer.Service, At: 1})
		o := v.make("lychee", []string{"lychee"}, "cream", "nuts")
		v.has("the ingredients of lychee are taken, each once, although the operator is killed after the first",
			scenarioPatience, o, "flavour lychee", "topping cream", "topping nuts")
		v.arm(
			faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: freezer.Service, At: 1},
			faults.Fault{Kind: faults.KillBefore, Class: faults.Write, Service: faults.API, At: 1},
		)
		v.delete(o)
		v.leaves("the ingredients of lychee go back, each once, although the operator is killed after the first, and again when all are "+
			"back, before it could write that down; then lychee is gone", scenarioPatience, o)
	})
}
