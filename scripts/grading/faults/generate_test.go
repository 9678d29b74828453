// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSweepHasEverySingleCrashAtAWrite(t *testing.T) {
	t.Parallel()
	var got []string
	for _, schedule := range Sweep(2) {
		got = append(got, schedule.String())
	}
	want := []string{"kill-before write 1", "kill-after write 1", "kill-before write 2", "kill-after write 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Sweep(0); len(got) != 0 {
		t.Errorf("Sweep(0) = %v, want no schedules", got)
	}
}

// An old report names a seed, which must still give the same schedules. If this test fails, old seeds are useless.
func TestSeedDeterminesSchedules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		got  Schedule
		want string
	}{
		{
			"Random(42, 0)", Random(42, 0, 8, 4),
			"cut write 3, no-answer write 4 for 1.5s, server-error write 5, kill-after write 6, slow read 2 for 1s",
		},
		{"Random(42, 1)", Random(42, 1, 8, 4), "conflict write 4"},
		{"Random(43, 0)", Random(43, 0, 8, 4), "stale write 8 for 900ms"},
		{"Mild(42)", Mild(42, 8, 4), "unavailable write 4, conflict write 5, conflict write 6, slow read 2 for 600ms"},
	} {
		if got := test.got.String(); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	const writes, reads = 6, 3
	seen := map[Kind]int{}
	sizes := map[int]int{}
	texts := map[string]bool{}
	for seed := range uint32(40) {
		for n := range 25 {
			schedule := Random(seed+1, n, writes, reads)
			if again := Random(seed+1, n, writes, reads); !cmp.Equal(schedule, again) {
				t.Fatalf("the same arguments returned %s and %s", schedule, again)
			}
			if err := New(func() error { return nil }).Arm(schedule); err != nil {
				t.Fatal(err)
			}
			if schedule.Seed != seed+1 {
				t.Fatalf("%s has seed %d, want %d", schedule, schedule.Seed, seed+1)
			}
			checkPositions(t, schedule, writes, reads)
			for _, fault := range schedule.Faults {
				seen[fault.Kind]++
			}
			sizes[len(schedule.Faults)]++
			texts[schedule.String()] = true
		}
	}
	for _, kind := range Kinds() {
		// Behind needs a version that can't be drawn, and the others are for checks.
		if seen[kind] < 20 && !slices.Contains([]Kind{Behind, Break, Forbidden, HalfAnswer, Reset}, kind) {
			t.Errorf("of a thousand schedules only %d have %s", seen[kind], kind)
		}
	}
	for size := 1; size <= 5; size++ {
		if sizes[size] < 50 {
			t.Errorf("of a thousand schedules only %d have %d faults", sizes[size], size)
		}
	}
	if sizes[0]+sizes[1]+sizes[2]+sizes[3]+sizes[4]+sizes[5] != 1000 || sizes[0] > 0 {
		t.Errorf("the sizes of the schedules are %v", sizes)
	}
	if len(texts) < 800 { // of those with one fault, there are not so many
		t.Errorf("of a thousand schedules only %d are different", len(texts))
	}
}

// checkPositions checks that each fault is at an existing request, and that no two are at the same one.
func checkPositions(t *testing.T, schedule Schedule, writes, reads int) {
	t.Helper()
	taken := map[Fault]bool{}
	for _, fault := range schedule.Faults {
		last := map[Class]int{Write: max(writes, 1), Read: reads}[fault.Class]
		if fault.At < 1 || fault.At > last {
			t.Fatalf("%s: %s is beyond the last %s, %d", schedule, fault, fault.Class, last)
		}
		if fault.Class == Read && (fault.Kind.Kills() || fault.Kind == Conflict) {
			t.Fatalf("%s: %s is only for writes", schedule, fault)
		}
		position := Fault{Class: fault.Class, At: fault.At}
		if taken[position] {
			t.Fatalf("%s: two faults are at the same request", schedule)
		}
		taken[position] = true
	}
}

func TestSchedulesForOperatorsWithFewRequests(t *testing.T) {
	t.Parallel()
	for n := range 200 {
		for _, asks := range [][2]int{{0, 0}, {1, 0}, {0, 2}, {1, 1}, {-1, -1}} {
			for _, schedule := range []Schedule{Random(1, n, asks[0], asks[1]), Mild(uint32(n), asks[0], asks[1])} {
				if len(schedule.Faults) == 0 {
					t.Fatalf("a schedule for %d writes and %d reads has no faults", asks[0], asks[1])
				}
				checkPositions(t, schedule, asks[0], max(asks[1], 0))
			}
		}
	}
}

func TestMildSchedulesAreShortAndKillNoOperator(t *testing.T) {
	t.Parallel()
	kinds := map[Kind]int{}
	for seed := range uint32(2000) {
		schedule := Mild(seed, 6, 3)
		if again := Mild(seed, 6, 3); !cmp.Equal(schedule, again) {
			t.Fatalf("the same arguments returned %s and %s", schedule, again)
		}
		checkPositions(t, schedule, 6, 3)
		var waits time.Duration
		conflicts := 0
		for _, fault := range schedule.Faults {
			kinds[fault.Kind]++
			switch {
			case fault.Kind.Kills():
				t.Fatalf("%s kills the operator", schedule)
			case fault.Kind == Stale && fault.For.Duration > 300*time.Millisecond:
				t.Fatalf("%s: the events are held back for too long", schedule)
			case fault.Kind == Stale: // for each event
				waits += 3 * fault.For.Duration
			case fault.Kind == NoAnswer && fault.For.Duration == 0:
				t.Fatalf("%s: a client without a timeout would wait forever", schedule)
			case fault.Kind == TooManyRequests:
				waits += time.Second // the value of Retry-After
			case fault.Kind == Conflict:
				conflicts++
			}
			if fault.Kind != Stale {
				waits += fault.For.Duration
			}
		}
		if waits >= 2*time.Second {
			t.Fatalf("%s: an operator waits for %s, want less than 2s", schedule, waits)
		}
		if conflicts == 0 {
			t.Fatalf("%s: the schedule has no conflict", schedule)
		}
	}
	for _, kind := range Kinds() {
		if kinds[kind] < 100 && !kind.Kills() && !slices.Contains([]Kind{Behind, Break, Forbidden, HalfAnswer, Reset}, kind) {
			t.Errorf("of two thousand mild schedules only %d have %s", kinds[kind], kind)
		}
	}
}
