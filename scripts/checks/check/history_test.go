// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"slices"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

var epoch = time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)

// after returns a request at a number of milliseconds after the epoch.
func after(milliseconds int, service, verb, resource, name string, code int) moment {
	return moment{Entry: faults.Entry{
		Time:     epoch.Add(time.Duration(milliseconds) * time.Millisecond),
		Service:  service,
		Verb:     verb,
		Resource: resource,
		Name:     name,
		Code:     code,
		Write:    verb != "get" && verb != "list",
	}}
}

func during(faulty bool, m moment) moment {
	m.faulty = faulty
	return m
}

func TestSlowness(t *testing.T) {
	t.Parallel()
	create := after(0, faults.Check, "create", "icecreams", "sundae", 201)
	for _, test := range []struct {
		name    string
		history history
		want    int // milliseconds
	}{
		{"of an unknown operator", nil, 0},
		{
			"is the silence before a write",
			history{create, after(300, faults.API, "update", "icecreams/status", "sundae", 200)},
			300,
		},
		{"is the longest one", history{
			create, after(300, faults.API, "update", "icecreams/status", "sundae", 200),
			after(900, faults.API, "delete", "icecreams", "sundae", 200),
		}, 600},
		{"is not the silence before a read", history{create, after(5000, faults.API, "list", "icecreams", "", 200)}, 0},
		{"is not what a check waited", history{create, after(5000, faults.Check, "patch", "icecreams", "sundae", 200)}, 0},
		{
			"is not the silence before what failed",
			history{create, after(5000, faults.API, "update", "icecreams/status", "sundae", 403)},
			0,
		},
		{"is not what faults took", history{
			during(true, create), during(true, after(5000, faults.API, "update", "icecreams/status", "sundae", 200)),
		}, 0},
		{"is not what was left of faults", history{
			during(true, create), after(5000, faults.API, "update", "icecreams/status", "sundae", 200),
		}, 0},
		{"is not what the first write after a start took", history{
			create, after(0, faults.Operator, "started", "", "", 0), after(100, faults.API, "list", "icecreams", "", 200),
			after(400, faults.API, "update", "icecreams/status", "sundae", 200),
			after(500, faults.API, "delete", "icecreams", "sundae", 200),
		}, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.history.slowness(); got != time.Duration(test.want)*time.Millisecond {
				t.Errorf("slowness() = %s, want %d ms", got, test.want)
			}
		})
	}
}

func TestSetback(t *testing.T) {
	t.Parallel()
	const never = 0
	for _, test := range []struct {
		name     string
		history  history
		want     int // milliseconds
		overcome int // milliseconds
	}{
		{
			"of an operator without faults",
			history{after(100, faults.API, "update", "icecreams/status", "sundae", 200)},
			never, never,
		},
		{"is a conflict", history{after(100, faults.API, "update", "icecreams/status", "sundae", 409)}, 100, never},
		{"is a failure of another service", history{after(100, "freezer", "put", "movements", "4711", 503)}, 100, never},
		{"is no conflict of another service", history{after(100, "freezer", "put", "movements", "4711", 409)}, never, never},
		{
			"is nothing that fails again and again",
			slices.Repeat(history{after(100, faults.API, "update", "icecreams/status", "sundae", 409)}, mostFailures+1),
			never, never,
		},
		{
			"may fail a few times",
			slices.Repeat(history{after(100, faults.API, "update", "icecreams/status", "sundae", 409)}, mostFailures),
			100, never,
		},
		{"is an answer that never came", history{after(100, faults.API, "list", "icecreams", "", 0)}, 100, never},
		{
			"is a test of a JSON patch that fails",
			history{after(100, faults.API, "patch", "icecreams", "sundae", 422)},
			100, never,
		},
		{
			"is no refusal of what is wrong",
			history{after(100, faults.API, "update", "icecreams/status", "sundae", 422)},
			never, never,
		},
		{
			"is nothing that the role forbids",
			history{after(100, faults.API, "delete", "icecreams", "sundae", 403)},
			never, never,
		},
		{"is over when the same has succeeded", history{
			after(100, faults.API, "patch", "icecreams", "sundae", 409),
			after(200, faults.API, "update", "icecreams/status", "sundae", 200),
		}, never, 200},
		{"is over when the object is gone", history{
			after(100, faults.API, "patch", "icecreams", "sundae", 409),
			after(200, faults.API, "patch", "icecreams", "sundae", 404),
		}, never, 200},
		{"is not over when something else has", history{
			after(100, faults.API, "patch", "icecreams", "sundae", 409),
			after(200, faults.API, "patch", "icecreams", "split", 200),
		}, 100, never},
		{"is none that a check met", history{after(100, faults.Check, "create", "icecreams", "sundae", 409)}, never, never},
		{
			"is none of an earlier check",
			history{after(-100, faults.API, "update", "icecreams/status", "sundae", 409)},
			never, never,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			at := func(milliseconds int) time.Time {
				if milliseconds == never {
					return time.Time{}
				}
				return epoch.Add(time.Duration(milliseconds) * time.Millisecond)
			}
			if got, overcome := test.history.setback(epoch); !got.Equal(at(test.want)) || !overcome.Equal(at(test.overcome)) {
				t.Errorf("setback() = %s, %s, want %s, %s", got, overcome, at(test.want), at(test.overcome))
			}
		})
	}
}

func TestStarting(t *testing.T) {
	t.Parallel()
	note := func(verb string) faults.Entry { return faults.Entry{Service: faults.Operator, Verb: verb} }
	request := func(verb, resource string) faults.Entry {
		return faults.Entry{Service: faults.API, Verb: verb, Resource: resource}
	}
	for _, test := range []struct {
		name    string
		entries []faults.Entry
		want    bool
	}{
		{"unknown", nil, false},
		{"started", []faults.Entry{note("started")}, true},
		{"lists", []faults.Entry{note("started"), request("list", "icecreams")}, false},
		{
			"waits for its Lease",
			[]faults.Entry{note("started"), request("update", "leases"), request("create", "events")},
			true,
		},
		{
			"started again",
			[]faults.Entry{note("started"), request("watch", "icecreams"), note("stopped"), note("started")},
			true,
		},
		{"stopped", []faults.Entry{note("started"), note("stopped")}, false},
	} {
		if got := starting(test.entries); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

func TestRestarting(t *testing.T) {
	t.Parallel()
	fault := func(kind faults.Kind) moment {
		return moment{Entry: faults.Entry{Service: "freezer", Number: 1, Fault: kind}}
	}
	note := func(verb string) moment { return moment{Entry: faults.Entry{Service: faults.Operator, Verb: verb}} }
	for _, test := range []struct {
		name    string
		history history
		want    bool
	}{
		{"running", history{note("started"), fault("")}, false},
		{"another fault", history{fault(faults.Unavailable)}, false},
		{"being killed", history{note("started"), fault(faults.KillBefore)}, true},
		{"killed", history{fault(faults.KillAfter), note("killed")}, true},
		{"restarted", history{fault(faults.KillAfter), note("killed"), note("started")}, false},
		{"not restarted", history{fault(faults.KillAfter), note("killed"), note("not restarted")}, false},
		{"stopped by a check", history{note("stopped")}, false},
	} {
		if got := test.history.restarting(); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

func TestNoEventOfOthers(t *testing.T) {
	t.Parallel()
	counts := NoEventOfOthers("sundae", "split")
	for _, test := range []struct {
		resource, name string
		want           bool
	}{
		{"events", "sundae.18ec6f809d988d67", true},
		{"events", "split.18ec6f809d988d67", true},
		{"events", "sundae-2.18ec6f809d988d67", false},
		{"events", "", true},
		{"icecreams", "sundae-2", true},
	} {
		if got := counts(audit.Event{Resource: test.resource, Name: test.name}); got != test.want {
			t.Errorf("a write of %s %q counts = %t", test.resource, test.name, got)
		}
	}
}
