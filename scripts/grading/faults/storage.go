// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Storage is the service of entries that are changes of a file in the folder where an API server stores its data.
const Storage = "storage"

// Changed counts a change of a file in the folder where an API server stores its data, and kills the server if the
// schedule says so. It then returns when the server was started again. The server continues to run until the kill
// reaches it, which takes about 100 µs.
func (i *Injector) Changed(verb, file string) {
	i.mutex.Lock()
	entry := Entry{Service: Storage, Verb: verb, Resource: file}
	number, fault, during := i.count(&request{entry: entry})
	entry.Number = number
	var marked []*connection
	kills := false
	if fault != nil {
		entry.Fault = fault.Kind
		marked, kills = i.markForKill(during, nil)
	}
	i.mutex.Unlock()
	if kills {
		defer i.killOperator(during, marked)
	}
	i.record.add(entry)
}

// SweepStorage returns a schedule for every single crash of an API server: one after each of the first changes of its
// folder, and one right after the answer to each of the given number of writes of a check.
func SweepStorage(changes, requests int) []Schedule {
	var schedules []Schedule
	for at := 1; at <= changes; at++ {
		schedules = append(schedules, Schedule{Faults: []Fault{{Kind: KillAfter, Class: Change, At: at}}})
	}
	for at := 1; at <= requests; at++ {
		schedules = append(schedules, Schedule{Faults: []Fault{{Kind: KillAfter, Class: Request, At: at}}})
	}
	return schedules
}

// mostKills is the maximum number of kills in a random schedule. longestRequest is about the longest time that a server
// works on a request.
const (
	mostKills      = 3
	longestRequest = 12 * time.Millisecond
)

// RandomStorage returns the n-th schedule of a seed: one to three kills of an API server, around different ones of the
// writes that a check sends, or after changes of its folder. requests is the number of these writes. The same arguments
// always give the same schedule.
func RandomStorage(seed uint32, n, requests int) Schedule {
	dice := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	schedule := Schedule{Seed: seed}
	at := 0
	for left := 1 + dice.IntN(mostKills); left > 0 && at < requests; left-- {
		at += 1 + dice.IntN((requests-at+left-1)/left)
		switch dice.IntN(4) {
		case 0:
			schedule.Faults = append(schedule.Faults, Fault{Kind: KillAfter, Class: Change, At: at})
		case 1:
			schedule.Faults = append(schedule.Faults, Fault{Kind: KillAfter, Class: Request, At: at})
		default:
			after := time.Duration(1+dice.IntN(int(longestRequest/(100*time.Microsecond)))) * 100 * time.Microsecond
			schedule.Faults = append(schedule.Faults, Fault{
				Kind: KillBefore, Class: Request, At: at, For: metav1.Duration{Duration: after},
			})
		}
	}
	return schedule
}
