// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lasting returns a duration of the type that a fault has.
func lasting(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func TestAScheduleIsOneLine(t *testing.T) {
	t.Parallel()
	for want, faults := range map[string][]Fault{
		"no faults":          nil,
		"kill-after write 3": {{Kind: KillAfter, Class: Write, At: 3}},
		"kill-after write 3, stale write 5 for 400ms": {
			{Kind: KillAfter, Class: Write, At: 3}, {Kind: Stale, Class: Write, At: 5, For: lasting(400 * time.Millisecond)},
		},
		"unavailable each freezer write": {{Kind: Unavailable, Class: Write, Service: "freezer"}},
		"no-answer api read 2 for 1.5s": {
			{Kind: NoAnswer, Class: Read, Service: "api", At: 2, For: lasting(1500 * time.Millisecond)},
		},
	} {
		if got := (Schedule{Faults: faults}).String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

func TestAScheduleAsJSON(t *testing.T) {
	t.Parallel()
	schedule := Schedule{Seed: 7, Faults: []Fault{
		{Kind: KillAfter, Class: Write, At: 3},
		{Kind: Slow, Class: Read, Service: "freezer", For: lasting(400 * time.Millisecond)},
	}}
	const want = `{"seed":7,"faults":[{"kind":"kill-after","class":"write","at":3},` +
		`{"kind":"slow","class":"read","service":"freezer","for":"400ms"}]}`
	content, err := json.Marshal(schedule)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != want {
		t.Errorf("got JSON\n%s\nwant\n%s", content, want)
	}
	var got Schedule
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schedule, got); diff != "" {
		t.Errorf("the schedule read from JSON (-want +got):\n%s", diff)
	}
}

func TestInvalidFaultsAreRejected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault Fault
		want  string
	}{
		{"an unknown kind", Fault{Kind: "kill", Class: Write}, `there is no fault of kind "kill"; the kinds are ["conflict"`},
		{"no class", Fault{Kind: Cut, At: 1}, `cut: there is no class ""; write "write", "read", "change" or "request"`},
		{"a request before the first", Fault{Kind: Cut, Class: Write, At: -1}, "requests are counted from 1"},
		{"a negative duration", Fault{Kind: Slow, Class: Write, For: lasting(-1)}, "must not be negative"},
		{"slow for no time", Fault{Kind: Slow, Class: Write, At: 2}, "slow write 2: the duration is missing"},
		{"stale for no time", Fault{Kind: Stale, Class: Write, At: 2}, "stale write 2: the duration is missing"},
		{"behind at no version", Fault{Kind: Behind, Class: Read, Service: API, For: lasting(1)}, "only at a version"},
		{
			"behind for a write",
			Fault{Kind: Behind, Class: Write, Service: API, Version: "7", For: lasting(1)},
			"only reads of the API",
		},
		{"behind for no time", Fault{Kind: Behind, Class: Read, Service: API, Version: "7"}, "the duration is missing"},
		{"a cut at a version", Fault{Kind: Cut, Class: Write, At: 2, Version: "7"}, "only behind has a version"},
		{"a reset of the API", Fault{Kind: Reset, Class: Write, Service: API, At: 2}, "another service than the API"},
		{"a conflict that lasts", Fault{Kind: Conflict, Class: Write, At: 2, For: lasting(1)}, "leave the duration out"},
		{
			"a kill without an operator",
			Fault{Kind: KillAfter, Class: Write, At: 2},
			"kill-after write 2: there is no operator to kill",
		},
	} {
		injector := New(nil)
		err := injector.Arm(Schedule{Faults: []Fault{{Kind: Conflict, Class: Write}, test.fault}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: want an error that contains %q, got %v", test.name, test.want, err)
		}
		if len(injector.plan.schedule.Faults) != 0 {
			t.Errorf("%s: a part of the schedule is armed", test.name)
		}
	}
	for _, kind := range Kinds() {
		fault := Fault{Kind: kind, Class: Write, At: 1}
		switch kind {
		case Slow, Stale:
			fault.For = lasting(1)
		case Behind:
			fault = Fault{Kind: Behind, Class: Read, Service: API, Version: "7", For: lasting(1)}
		case Reset:
			fault.Service = "freezer"
		}
		if err := New(func() error { return nil }).Arm(Schedule{Faults: []Fault{fault}}); err != nil {
			t.Error(err)
		}
	}
}
