// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServerIsKilledAfterTheScheduledChange(t *testing.T) {
	t.Parallel()
	kills := 0
	injector := New(func() error { kills++; return nil })
	defer injector.Close()
	schedule := Schedule{Faults: []Fault{
		{Kind: KillAfter, Class: Change, At: 2}, {Kind: KillAfter, Class: Request, At: 1},
	}}
	if err := injector.Arm(schedule); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 1, 1} {
		injector.Changed("write", "log")
		if kills != want {
			t.Fatalf("after change %d the server was killed %d times, want %d", i+1, kills, want)
		}
	}
	var got []string
	for _, entry := range injector.Log() {
		_, what, _ := strings.Cut(entry.String(), " ")
		got = append(got, what)
	}
	want := []string{
		"the server: write log (change 1)",
		"the server: write log (change 2, kill-after)",
		"the server: write log (change 3)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	injector.Disarm()
	injector.Changed("write", "log")
	if kills != 1 {
		t.Errorf("the server was killed without a schedule")
	}
}

func TestServerSweepHasEverySingleCrash(t *testing.T) {
	t.Parallel()
	var got []string
	for _, schedule := range SweepStorage(2, 1) {
		got = append(got, schedule.String())
	}
	if diff := cmp.Diff([]string{"kill-after change 1", "kill-after change 2", "kill-after request 1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRandomServerSchedules(t *testing.T) {
	t.Parallel()
	const requests = 5
	if got, want := RandomStorage(42, 1, 12).String(), RandomStorage(42, 1, 12).String(); got != want {
		t.Errorf("the same arguments returned %s and %s", got, want)
	}
	sizes, kinds := map[int]bool{}, map[string]bool{}
	for n := range 200 {
		schedule := RandomStorage(42, n, requests)
		if err := schedule.Validate(); err != nil {
			t.Fatalf("%s: %v", schedule, err)
		}
		sizes[len(schedule.Faults)] = true
		last := 0
		for _, fault := range schedule.Faults {
			kinds[string(fault.Kind)+" "+string(fault.Class)] = true
			if fault.At <= last || fault.At > requests {
				t.Errorf("%s: request %d of %d comes after %d", schedule, fault.At, requests, last)
			}
			last = fault.At
		}
	}
	if diff := cmp.Diff(map[int]bool{1: true, 2: true, 3: true}, sizes); diff != "" {
		t.Errorf("numbers of kills (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{
		"kill-after change": true, "kill-after request": true, "kill-before request": true,
	}, kinds); diff != "" {
		t.Errorf("kinds of kills (-want +got):\n%s", diff)
	}
}

func TestInvalidServerFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []Fault{
		{Kind: Conflict, Class: Change, At: 1},
		{Kind: KillBefore, Class: Change, At: 1},
		{Kind: KillAfter, Class: Change, Service: API, At: 1},
		{Kind: Slow, Class: Request, At: 1, For: metav1.Duration{Duration: time.Second}},
		{Kind: KillAfter, Class: Request, At: 1, For: metav1.Duration{Duration: time.Second}},
		{Kind: KillBefore, Class: Write, At: 1, For: metav1.Duration{Duration: time.Second}},
	} {
		if fault.Validate() == nil {
			t.Errorf("Validate() of %s returned no error", fault)
		}
	}
}
