// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"testing"
	"time"

	"lva.io/operators/scripts/grading/audit"
)

// TestTriesShowALoopOrALongPause checks that a loop without backoff is not mistaken for an operator that waits. On a
// busy machine it may be as slow as one.
func TestTriesShowALoopOrALongPause(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// tries are the times of the operator's tries in ms. shown is when they show how the operator retries, in ms. 0: not
		// before the last of them.
		tries []int
		shown int
	}{
		{"twice as long each time", []int{0, 200, 600, 1400, 3000, 6200}, 3000},
		{"as the work queue does", []int{0, 5, 15, 35, 75, 155, 315, 635, 1275, 2555, 5115}, 3000},
		{"at each event, and then after five seconds", []int{0, 20, 60, 300, 900, 5900}, 3000},
		{"in a loop", every(10, 5000), 3000},
		{"in a slow loop", every(450, 15000), 9450},
		// This was recorded on a machine with ten times the load that it could handle.
		{"in a slow loop with pauses", []int{0, 454, 974, 1362, 1592, 2005, 2777, 3543, 3855, 4703}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			const look = 50
			shown := 0
			for at := int(occupied.Milliseconds()); at <= test.tries[len(test.tries)-1] && shown == 0; at += look {
				took := time.Duration(at) * time.Millisecond
				var tries []audit.Event
				for _, try := range test.tries {
					if try <= at {
						tries = append(tries, audit.Event{Time: began.Add(time.Duration(try) * time.Millisecond)})
					}
				}
				if show(tries, took, began.Add(took)) {
					shown = at
				}
			}
			if shown != test.shown {
				t.Errorf("show() = true after %d ms, want %d", shown, test.shown)
			}
		})
	}
}

// every returns tries at intervals of pause milliseconds.
func every(pause, until int) (tries []int) {
	for at := 0; at <= until; at += pause {
		tries = append(tries, at)
	}
	return tries
}
