// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"math/bits"
	"slices"
)

// Shrink finds the smallest schedule that still fails among those with only some of the faults of one that failed. It
// tries the small ones first, because most bugs need only one fault and each try takes a run. It does not try the given
// schedule again. If nothing smaller fails, it returns the given schedule.
func Shrink(schedule Schedule, fails func(Schedule) bool) Schedule {
	// A schedule that would take hundreds of runs is first reduced by leaving out one fault after the other.
	for i := 0; i < len(schedule.Faults) && len(schedule.Faults) > mostFaults; {
		without := schedule
		without.Faults = slices.Delete(slices.Clone(schedule.Faults), i, i+1)
		if fails(without) {
			schedule = without
		} else {
			i++
		}
	}
	if len(schedule.Faults) > mostFaults {
		return schedule // each of them is needed
	}
	for size := 1; size < len(schedule.Faults); size++ {
		for chosen := range uint(1) << len(schedule.Faults) {
			if bits.OnesCount(chosen) != size {
				continue
			}
			smaller := Schedule{Seed: schedule.Seed}
			for i, fault := range schedule.Faults {
				if chosen&(1<<i) != 0 {
					smaller.Faults = append(smaller.Faults, fault)
				}
			}
			if fails(smaller) {
				return smaller
			}
		}
	}
	return schedule
}
