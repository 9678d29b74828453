// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
)

// These constants are how long the API server refuses at most, and how long an operator must have waited at least once
// in that time. With a delay that doubles from 5 ms it has tried eight times after 1.3 s, and waited for 640 ms before
// the last try. An operator without delays is slowed down by client-go's limit (five requests a second, after the first
// ten), and on a busy machine by the machine.
const (
	refuseFor  = 2 * time.Second
	refuseLook = 50 * time.Millisecond
	mostTries  = 14
	leastWait  = 400 * time.Millisecond
)

// These constants are how long a folder replaces the file at most, and how often the controller may have tried to
// replace it in that time. With a delay that doubles from 5 ms it has tried seven times after 315 ms, and retries 320
// ms later. One that gives up after five tries does not.
const (
	fileRefusedFor = 500 * time.Millisecond
	fileTries      = 7
)

// refusals describes the refused attempts to write the status of an object.
type refusals struct {
	tries int
	// took is the time since the first attempt. 0: there was none.
	took time.Duration
	// second is the wait before the second attempt. shortest and longest are the extremes of all waits between two
	// attempts.
	second, shortest, longest time.Duration
	// last is the fault that the last attempt met.
	last faults.Kind
}

// rarer reports whether the attempts became rarer: one wait was long, and longer than the shortest one by a quarter.
// The first wait is no measure, because on a busy machine it may be long, too.
func (r refusals) rarer() bool { return r.longest >= leastWait && r.longest >= r.shortest+r.shortest/4 }

// decided reports whether more attempts would change nothing. An operator with an initial delay of a second needs some
// seconds to show that its delays grow, and on a busy machine each of the first two attempts may be late.
func (r refusals) decided(began time.Time) bool {
	switch r.tries {
	case 0:
		return time.Since(began) >= filePatience
	case 1:
		return r.took >= filePatience
	}
	return r.rarer() || r.took >= max(refuseFor, 4*r.shortest)
}

// refusals returns the refused attempts to write the status of an object since a time.
func (v *visit) refusals(name string, since time.Time) (found refusals) {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	v.OK(v.t, "reading the log of requests", err)
	refused := slices.DeleteFunc(log, func(e faults.Entry) bool {
		return !e.Injected || !e.Time.After(since) || e.Name != name
	})
	for i, e := range refused {
		if i > 0 {
			wait := e.Time.Sub(refused[i-1].Time)
			found.second, found.longest = cmp.Or(found.second, wait), max(found.longest, wait)
			found.shortest = min(cmp.Or(found.shortest, wait), wait)
		}
		found.last = e.Fault
	}
	if len(refused) > 0 {
		found.took = time.Since(refused[0].Time)
	}
	found.tries = check.Tries(refused)
	return found
}

// refusedInTurn makes each of the first writes fail in a different form, and then all others. No failure implies that
// the next attempt fails, too.
var refusedInTurn = faults.Schedule{Faults: []faults.Fault{
	{Kind: faults.Conflict, Class: faults.Write, Service: faults.API, At: 1},
	{Kind: faults.Forbidden, Class: faults.Write, Service: faults.API, At: 2},
	{Kind: faults.Unavailable, Class: faults.Write, Service: faults.API, At: 3},
	{
		Kind:    faults.NoAnswer,
		Class:   faults.Write,
		Service: faults.API,
		At:      4,
		For:     metav1.Duration{Duration: 10 * time.Millisecond},
	},
	{Kind: faults.ServerError, Class: faults.Write, Service: faults.API},
}}

func retries() types.Feature {
	return features.New("what fails is tried again").
		Assess("less and less often", check.Assess(assess(func(v *visit) {
			v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, refusedInTurn))
			began := time.Now()
			ada := v.add("ada")
			var refused refusals
			for !refused.decided(began) {
				v.Pause(v.ctx, v.t, refuseLook)
				refused = v.refusals(ada, began)
			}
			const expected = "while the API server refuses to write the status of an AuthorizedKey, for whatever reason, " +
				"the controller retries less and less often"
			if refused.tries < 2 {
				v.Fail(v.t, expected, fmt.Sprintf("within %s it was tried %d times",
					time.Since(began).Round(time.Second/10), refused.tries))
			}
			if !refused.rarer() || refused.tries > mostTries {
				v.Fail(v.t, expected, fmt.Sprintf("within %s it was tried %d times, "+
					"and the longest wait between two attempts was %s, the shortest %s. The last attempt met the fault %q",
					refused.took.Round(time.Second/10), refused.tries,
					refused.longest.Round(time.Millisecond), refused.shortest.Round(time.Millisecond), refused.last))
			}
			v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
			// Most operators reconcile a change at once. The next try may be 1.3 s away.
			v.label(ada)
			v.accepted(ada, metav1.ConditionTrue, scenarioPatience)
			v.holds("an AuthorizedKey was created")
			v.resetsDelay(ada, max(freshWait, freshFactor*refused.second))
		}))).
		Assess("until the file can be written", check.Assess(assess(func(v *visit) {
			if v.node.givenUp != "" {
				v.Fail(v.t, "the controller retries a failed write of the file without another event",
					"it did not try again after "+v.node.givenUp)
			}
			v.removeAll()
			v.holds("all AuthorizedKeys were deleted")
			// The restart empties the queue: remaining items of the other step would write the file as well.
			v.restart(never, v.obstruct)
			before := v.node.draftsMade()
			ada := v.add("ada")
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			// In most controllers, each attempt creates a temporary file.
			for began := time.Now(); v.node.draftsMade()-before < fileTries && time.Since(began) < fileRefusedFor; {
				v.Pause(v.ctx, v.t, refuseLook)
			}
			v.removeFile()
			v.holdsWithin("for a moment the file could not be written, since there was a folder of that name", scenarioPatience)
		}))).Feature()
}

// This is how long an operator may wait before the second attempt, after earlier failures and a success. With a delay
// that doubles from 5 ms it waits for 5 ms, and for 1.3 s if the success did not reset the delay. On a busy machine
// some attempts may be late.
const (
	freshWait   = 500 * time.Millisecond
	freshFactor = 5 // multiple of its wait after its very first failure
	freshRounds = 4
	freshEnough = 2
)

// resetsDelay fails the check unless a success resets the delay: the next failure to write the status of the object is
// retried soon.
func (v *visit) resetsDelay(name string, most time.Duration) {
	v.t.Helper()
	var refused refusals
	for soon, round := 0, 0; round < freshRounds; round++ {
		v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{{
			Kind: faults.ServerError, Class: faults.Write, Service: faults.API,
		}}}))
		began := time.Now()
		v.changeKey(name)
		refused = refusals{}
		soonEnough := most + busyLags*v.Lag()
		for refused.tries < 2 && refused.took < soonEnough+freshWait &&
			(refused.tries > 0 || time.Since(began) < filePatience) {
			v.Pause(v.ctx, v.t, refuseLook)
			refused = v.refusals(name, began)
		}
		v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
		v.label(name)
		v.accepted(name, metav1.ConditionTrue, scenarioPatience)
		if refused.tries >= 2 && refused.second <= soonEnough {
			soon++
		}
		if soon == freshEnough {
			return
		}
	}
	v.Fail(v.t, "a success resets the delay: "+
		"after the next failure the controller soon retries to write the status of "+name,
		fmt.Sprintf("after %s it has not come, or it came only then",
			cmp.Or(refused.second, refused.took).Round(time.Millisecond)))
}
