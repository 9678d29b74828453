// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sweep is every single crash at a write boundary: for each of the first n writes, one schedule that kills the operator
// right before it and one that does right after. Writes of all services count together.
func Sweep(writes int) []Schedule {
	var schedules []Schedule
	for at := 1; at <= writes; at++ {
		for _, kind := range []Kind{KillBefore, KillAfter} {
			schedules = append(schedules, Schedule{Faults: []Fault{{Kind: kind, Class: Write, At: at}}})
		}
	}
	return schedules
}

const (
	// mostFaults is how many a made-up schedule has at most.
	mostFaults = 5
	// retryAfter is what a 429 costs: client-go waits as long as Retry-After says.
	retryAfter = time.Second
	// staleCosts is how many waits one stale stands for: it holds back every event, and a story has several.
	staleCosts = 3
	// mildWait is how long all faults of a mild schedule let an operator wait together, and mildStale how old what it
	// sees may be.
	mildWait  = 1900 * time.Millisecond
	mildStale = 300 * time.Millisecond
)

// Random is the n-th schedule of a seed: one to five faults of any kind, at different ones of the first writes and
// reads that an operator sent on a good day. The same arguments always give the same schedule.
func Random(seed uint32, n, writes, reads int) Schedule {
	// PCG's sequence is part of its definition, unlike that of the functions without a source.
	dice := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	return draw(seed, dice, 1+dice.IntN(mostFaults), writes, reads, func(class Class) (Fault, bool) {
		kinds := []Kind{TooManyRequests, ServerError, Unavailable, NoAnswer, LostAnswer, Slow, Stale, Cut}
		if class == Write {
			// Twice, since what happens between two writes is what this is about.
			kinds = append(kinds, Conflict, Conflict, KillBefore, KillBefore, KillAfter, KillAfter)
		}
		fault := Fault{Kind: kinds[dice.IntN(len(kinds))], Class: class}
		switch fault.Kind {
		case Slow:
			fault.For = tenths(dice, 2, 10)
		case Stale:
			fault.For = tenths(dice, 1, 10)
		case NoAnswer:
			fault.For = tenths(dice, 10, 25) // also longer than the second that a careful client waits
		}
		return fault, true
	})
}

// Mild is a bad day that fits into a grading: two to four faults without a kill, which together let an operator wait
// for less than two seconds. The same arguments always give the same schedule.
func Mild(seed uint32, writes, reads int) Schedule {
	dice := rand.New(rand.NewPCG(uint64(seed), 0))
	left := mildWait
	first := true
	return draw(seed, dice, 2+dice.IntN(3), writes, reads, func(class Class) (Fault, bool) {
		kinds := []Kind{TooManyRequests, ServerError, Unavailable, NoAnswer, LostAnswer, Slow, Stale, Cut}
		if class == Write {
			kinds = append(kinds, Conflict, Conflict)
		}
		fault := Fault{Kind: kinds[dice.IntN(len(kinds))], Class: class}
		if first && class == Write {
			// The one that every operator meets sooner or later.
			fault.Kind = Conflict
		}
		first = false
		var costs time.Duration
		switch fault.Kind {
		case TooManyRequests:
			costs = retryAfter
		case Slow, NoAnswer:
			fault.For = tenths(dice, 2, 6)
			costs = fault.For.Duration
		case Stale:
			fault.For = tenths(dice, 1, int(mildStale/tenth))
			costs = staleCosts * fault.For.Duration
		}
		if costs > left {
			return Fault{}, false
		}
		left -= costs
		return fault, true
	})
}

// draw makes a schedule of up to so many faults, each at a request of its own.
func draw(seed uint32, dice *rand.Rand, faults, writes, reads int, roll func(Class) (Fault, bool)) Schedule {
	type place struct {
		class Class
		at    int
	}
	// Writes come first in both lists: the first fault is at one, since an operator without any has nothing to get wrong.
	var ofWrites, ofReads []place
	for at := 1; at <= max(writes, 1); at++ {
		ofWrites = append(ofWrites, place{Write, at})
	}
	for at := 1; at <= reads; at++ {
		ofReads = append(ofReads, place{Read, at})
	}
	schedule := Schedule{Seed: seed, Faults: []Fault{}}
	for i := range faults {
		from := &ofWrites
		// Two of three at writes, as long as there are any.
		if i > 0 && len(ofReads) > 0 && (len(ofWrites) == 0 || dice.IntN(3) == 0) {
			from = &ofReads
		}
		if len(*from) == 0 {
			break
		}
		taken := dice.IntN(len(*from))
		where := (*from)[taken]
		*from = slices.Delete(*from, taken, taken+1)
		if fault, ok := roll(where.class); ok {
			fault.At = where.at
			schedule.Faults = append(schedule.Faults, fault)
		}
	}
	slices.SortFunc(schedule.Faults, func(a, b Fault) int {
		return cmp.Or(-cmp.Compare(a.Class, b.Class), cmp.Compare(a.At, b.At)) // writes first
	})
	return schedule
}

const tenth = 100 * time.Millisecond

// tenths is a duration between so many tenths of a second, both included.
func tenths(dice *rand.Rand, from, to int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(from+dice.IntN(to-from+1)) * tenth}
}
