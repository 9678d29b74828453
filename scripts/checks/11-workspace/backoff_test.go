// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/cloud"
)

// An operator backs off if it makes a pause of a certain length, after a certain number of attempts at most. Its pauses
// are bounded if, from the first pause of that length on, shortPauses of them in a row are shorter than longestPause.
// They are unbounded if longPauses are longer. One of these may be caused by a stalled machine.
const (
	pause        = 300 * time.Millisecond
	mostRetries  = 25
	longestPause = 2 * time.Second
	shortPauses  = 4
	longPauses   = 2
)

// pauses counts the pauses between attempts, from the first one of sufficient length on, and the pause since the last
// attempt: how many were too long, and how many since then were not.
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

// sameAttempt is the maximum distance between two requests of one attempt.
const sameAttempt = 50 * time.Millisecond

func backsOff() e2etypes.Feature {
	return feature("retries back off", "while the cloud throttles", func(v visit) {
		v.arm(allRequests(faults.TooManyRequests)...)
		o := v.createWanted("palm")
		expected := fmt.Sprintf("while the cloud answers 429, the operator waits longer and longer: "+
			"after at most %d attempts for %s or more", mostRetries, pause)
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

// resets checks the behaviour when a cloud resets connections: the error of each attempt names another port. If the
// status has that port, each attempt changes the status, and each change triggers Reconcile.
func (v visit) resets(o order) {
	v.t.Helper()
	v.ready("the instance of "+o.name+" runs", longPatience, o, metav1.ConditionTrue)
	before := len(v.messagesOf(o))
	v.arm(allRequests(faults.Reset)...)
	v.began = time.Now()
	v.change(o, `{"metadata":{"labels":{"team":"blue"}}}`) // Other checks test whether it looks by itself.
	const expected = "while the cloud resets each connection, the operator tries again, " +
		"and Ready has the same message for the same error"
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

// mostMessages is how many messages Ready may have while connections are reset. An operator may look for an instance or
// launch it, and a connection may be reset while it writes or while it reads. After triesAtReset, an operator whose
// messages all differ has had more.
const (
	mostMessages = 4
	triesAtReset = 8
)
