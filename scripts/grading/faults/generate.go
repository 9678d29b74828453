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

// Sweep returns a schedule for every single crash at a write boundary: for each of the first writes, one schedule that
// kills the operator right before it and one that kills it right after. Writes of all services count together.
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
	// mostFaults is the maximum number of faults in a generated schedule.
	mostFaults = 5
	// retryAfter is how long a 429 delays an operator: client-go waits for the time in Retry-After.
	retryAfter = time.Second
	// staleRepeats is the number of waits that one Stale fault counts as: it holds back every event, and a story has
	// several.
	staleRepeats = 3
	// mildWait is how long all faults of a mild schedule together may delay an operator.
	mildWait = 1900 * time.Millisecond
)

// Random returns the n-th schedule of a seed: one to five faults of any kind, at different ones of the first writes and
// reads that an operator sent in a run without faults. The same arguments always give the same schedule.
func Random(seed uint32, n, writes, reads int) Schedule {
	// PCG's sequence is part of its definition, unlike that of the functions without a source.
	dice := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	return draw(seed, dice, 1+dice.IntN(mostFaults), writes, reads, func(class Class) (Fault, bool) {
		kind := pick(dice, class, kinds)
		return Fault{Kind: kind, Class: class, For: kind.behaviour().random.roll(dice)}, true
	})
}

// Mild returns a schedule that is short enough for a grading run: two to four faults without a kill, which together
// make an operator wait for less than two seconds. The same arguments always give the same schedule.
func Mild(seed uint32, writes, reads int) Schedule {
	dice := rand.New(rand.NewPCG(uint64(seed), 0))
	survivable := slices.DeleteFunc(slices.Clone(kinds), func(b behaviour) bool { return b.kills })
	left := mildWait
	first := true
	return draw(seed, dice, 2+dice.IntN(3), writes, reads, func(class Class) (Fault, bool) {
		kind := pick(dice, class, survivable)
		if first && class == Write {
			// Every operator meets a conflict sooner or later.
			kind = Conflict
		}
		first = false
		effect := kind.behaviour()
		fault := Fault{Kind: kind, Class: class, For: effect.mild.roll(dice)}
		costs := effect.costs + time.Duration(max(effect.repeats, 1))*fault.For.Duration
		if costs > left {
			return Fault{}, false
		}
		left -= costs
		return fault, true
	})
}

// pick draws a kind for a request of this class, weighted by tickets.
func pick(dice *rand.Rand, class Class, among []behaviour) Kind {
	var tickets, atWrites []Kind
	for _, b := range among {
		tickets = append(tickets, slices.Repeat([]Kind{b.kind}, b.tickets)...)
		atWrites = append(atWrites, slices.Repeat([]Kind{b.kind}, b.atWrites)...)
	}
	if class == Write {
		tickets = append(tickets, atWrites...)
	}
	return tickets[dice.IntN(len(tickets))]
}

// draw returns a schedule of up to the given number of faults, each at a request of its own.
func draw(seed uint32, dice *rand.Rand, faults, writes, reads int, roll func(Class) (Fault, bool)) Schedule {
	type position struct {
		class Class
		at    int
	}
	// The first fault is always at a write, because an operator without writes has nothing to get wrong.
	var ofWrites, ofReads []position
	for at := 1; at <= max(writes, 1); at++ {
		ofWrites = append(ofWrites, position{Write, at})
	}
	for at := 1; at <= reads; at++ {
		ofReads = append(ofReads, position{Read, at})
	}
	schedule := Schedule{Seed: seed, Faults: []Fault{}}
	for i := range faults {
		candidates := &ofWrites
		// Two of three faults are at writes, as long as any are left.
		if i > 0 && len(ofReads) > 0 && (len(ofWrites) == 0 || dice.IntN(3) == 0) {
			candidates = &ofReads
		}
		if len(*candidates) == 0 {
			break
		}
		taken := dice.IntN(len(*candidates))
		where := (*candidates)[taken]
		*candidates = slices.Delete(*candidates, taken, taken+1)
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

// tenths is a range of durations in tenths of a second, both ends included. If to is 0, there is no duration.
type tenths struct{ from, to int }

func (t tenths) roll(dice *rand.Rand) metav1.Duration {
	if t.to == 0 {
		return metav1.Duration{}
	}
	return metav1.Duration{Duration: time.Duration(t.from+dice.IntN(t.to-t.from+1)) * tenth}
}
