// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"slices"
	"testing"
)

// numbered returns a schedule of faults that differ only in At.
func numbered(at ...int) Schedule {
	schedule := Schedule{Seed: 9}
	for _, n := range at {
		schedule.Faults = append(schedule.Faults, Fault{Kind: Conflict, Class: Write, At: n})
	}
	return schedule
}

func TestShrinkFindsTheSmallestScheduleThatFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		given Schedule
		// needed are sets of faults, each of which is enough to fail.
		needed [][]int
		want   Schedule
		tries  int // at most
	}{
		{"one of five", numbered(1, 2, 3, 4, 5), [][]int{{4}}, numbered(4), 5},
		{"two of five", numbered(1, 2, 3, 4, 5), [][]int{{2, 5}}, numbered(2, 5), 15},
		{"the smaller of two reasons", numbered(1, 2, 3, 4, 5), [][]int{{1, 2, 3}, {4, 5}}, numbered(4, 5), 15},
		{"all of five", numbered(1, 2, 3, 4, 5), [][]int{{1, 2, 3, 4, 5}}, numbered(1, 2, 3, 4, 5), 30},
		{"the only one", numbered(3), [][]int{{3}}, numbered(3), 0},
		{"never again", numbered(1, 2, 3), nil, numbered(1, 2, 3), 6},
		{"no faults at all", numbered(), nil, numbered(), 0},
		{
			"three of twenty", numbered(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20),
			[][]int{{2, 11, 20}},
			numbered(2, 11, 20), 60,
		},
		{
			"seven of nine", numbered(1, 2, 3, 4, 5, 6, 7, 8, 9),
			[][]int{{1, 2, 3, 4, 5, 6, 7}},
			numbered(1, 2, 3, 4, 5, 6, 7), 9,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			before := test.given.String()
			got := Shrink(test.given, func(schedule Schedule) bool {
				tries++
				if schedule.Seed != 9 {
					t.Errorf("%s has lost its seed", schedule)
				}
				return slices.ContainsFunc(test.needed, func(needed []int) bool {
					return !slices.ContainsFunc(needed, func(at int) bool {
						return !slices.ContainsFunc(schedule.Faults, func(f Fault) bool { return f.At == at })
					})
				})
			})
			if got.String() != test.want.String() || got.Seed != 9 {
				t.Errorf("Shrink() = %s, want %s", got, test.want)
			}
			if tries > test.tries {
				t.Errorf("Shrink() took %d tries, want at most %d", tries, test.tries)
			}
			if test.given.String() != before {
				t.Errorf("the given schedule changed from %s to %s", before, test.given)
			}
		})
	}
}
