// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/story"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/services/freezer"
)

func (v visit) account(o order) story.Account {
	v.t.Helper()
	movements, err := v.freezer().Movements(v.ctx, o.uid)
	v.OK(v.t, "reading the freezer's ledger", err)
	return movements
}

// describe returns what an icecream has out of the freezer, as the observation of a check.
func (v visit) describe(o order) string {
	v.t.Helper()
	a := v.account(o)
	if len(a) > 0 {
		return fmt.Sprintf("%s has %s out of the freezer", o.name, story.List(a.Out()))
	}
	observed := fmt.Sprintf("the freezer has booked nothing for %s (owner %s)", o.name, o.uid)
	if !slices.ContainsFunc(v.log(), func(e faults.Entry) bool { return e.Service == freezer.Service }) {
		return observed + ": the operator has not sent the freezer any request"
	}
	all, err := v.freezer().Movements(v.ctx, "")
	v.OK(v.t, "reading the freezer's ledger", err)
	for _, m := range all {
		if m.Owner == o.name {
			return fmt.Sprintf("%s: it has booked %s %s for the owner %s, which is a name and not a UID",
				observed, story.Describe(m.Ingredient), m.Direction, m.Owner)
		}
	}
	return observed
}

// has waits until an icecream has exactly these ingredients out, each once, and has the finalizer. From then on it can
// be deleted.
func (v visit) has(expected string, patience time.Duration, o order, ingredients ...string) {
	v.t.Helper()
	slices.Sort(ingredients)
	v.until(expected, patience, func() (string, bool) {
		v.inOrder(expected, o)
		if !slices.Equal(v.account(o).Out(), ingredients) {
			return v.describe(o), false
		}
		now, _ := v.find(o)
		return finalizersOf(now.finalizers), now.hasFinalizer()
	})
}

// inOrder fails as soon as a booking exists that can't be corrected.
func (v visit) inOrder(expected string, o order) {
	v.t.Helper()
	if wrong := v.account(o).Wrong(); wrong != "" {
		v.fail(expected, fmt.Sprintf("%s, for %s", wrong, o.name))
	}
}

// awaitDeleted waits until icecreams are gone. Each must have returned everything before that, and exactly once.
func (v visit) awaitDeleted(expected string, patience time.Duration, orders ...order) {
	v.t.Helper()
	v.until(expected, patience, func() (observed string, ok bool) {
		for _, o := range orders {
			now, exists := v.find(o)
			v.inOrder(expected, o)
			switch out := v.account(o).Out(); {
			case !exists && len(out) > 0:
				v.fail(expected, fmt.Sprintf("%s is gone, and %s is still out of the freezer", o.name, story.List(out)))
			case exists && len(out) > 0:
				return fmt.Sprintf("%s still has %s out of the freezer", o.name, story.List(out)), false
			case exists:
				return fmt.Sprintf("%s has returned everything, and is still there: %s",
					o.name, finalizersOf(now.finalizers)), false
			}
		}
		return "they are gone", true
	})
	for _, o := range orders {
		v.returnedFirst(expected, o)
	}
}

// nothingOut fails an operator that still has ingredients out for an icecream that is gone.
func (v visit) nothingOut(expected string, o order) {
	v.t.Helper()
	v.inOrder(expected, o)
	if out := v.account(o).Out(); len(out) > 0 {
		v.fail(expected, fmt.Sprintf("%s is gone, and %s still out of the freezer", o.name, story.List(out)))
	}
}

// returnedFirst fails an operator that removed its finalizer before everything was returned.
func (v visit) returnedFirst(expected string, o order) {
	v.t.Helper()
	_, removed := v.finalizerWrites(o)
	a := v.account(o)
	if removed == nil || len(a) == 0 {
		return
	}
	if last := a[len(a)-1]; last.Booked.After(removed.Time) {
		v.fail(expected, fmt.Sprintf("the finalizer was removed at %s, and %s was booked %s only at %s", clock(removed.Time),
			story.Describe(last.Ingredient), last.Direction, clock(last.Booked)))
	}
}

// takenAfter fails an operator that took an ingredient before it knew that its finalizer was on the icecream.
func (v visit) takenAfter(expected string, o order) {
	v.t.Helper()
	added, _ := v.finalizerWrites(o)
	for _, m := range v.account(o) {
		log := v.log()
		i := slices.IndexFunc(log, func(e faults.Entry) bool { return e.Service == freezer.Service && e.Name == m.ID })
		if m.Direction != freezer.Out || i < 0 {
			continue
		}
		sent := log[i].Time
		if added == nil {
			v.fail(expected, fmt.Sprintf("%s was asked for at %s, and the finalizer was never added to %s",
				story.Describe(m.Ingredient), clock(sent), o.name))
		}
		if known := answered(log, *added); sent.Before(known) {
			v.fail(expected, fmt.Sprintf("%s was asked for at %s, and that the finalizer is on %s was known only at %s",
				story.Describe(m.Ingredient), clock(sent), o.name, clock(known)))
		}
	}
}

// answered returns when a write in the audit log was answered, or when it was carried out if its answer was lost.
// Another controller of the same operator may write the status of the same icecream at the same moment.
func answered(log []faults.Entry, write audit.Event) time.Time {
	resource := strings.TrimSuffix(write.Resource+"/"+write.Subresource, "/")
	for _, e := range slices.Backward(log) {
		if e.Service == faults.API && e.Verb == write.Verb &&
			e.Resource == resource && e.Name == write.Name && !e.Time.After(write.Time) {
			if at := e.Answered(); !at.IsZero() {
				return at
			}
			break
		}
	}
	return write.Time
}

// finalizerWrites returns the writes with which the operator added its finalizer to an icecream, and removed it. Nil:
// it has not.
func (v visit) finalizerWrites(o order) (added, removed *audit.Event) {
	v.t.Helper()
	var cut *audit.Event
	resource := icecream.Resource.GroupResource()
	for _, e := range v.Audit.Since(0,
		v.OperatorRequests().And(audit.Writes, audit.On(resource.Group, resource.Resource))) {
		if e.Name != o.name || e.Verb == "delete" {
			continue
		}
		var stored struct {
			Metadata struct {
				UID        string   `json:"uid"`
				Finalizers []string `json:"finalizers"`
			} `json:"metadata"`
		}
		answer := e.Code < 300 && json.Unmarshal(e.Response, &stored) == nil
		held := slices.Contains(stored.Metadata.Finalizers, finalizer)
		switch {
		case !answer:
			// An operator that is killed does not wait for the answer. The write may be carried out nevertheless, which the next
			// answer reveals.
			if cut == nil && e.Subresource == "" && (e.Code < 300 || e.Code >= 500) &&
				bytes.Contains(e.Request, []byte(finalizer)) {
				cut = &e
			}
		case stored.Metadata.UID != o.uid:
		case e.Subresource != "":
			// The answer may show the finalizer that another request has added, before that request is answered.
			if held && added == nil {
				added = cut
			}
		case held && added == nil:
			added = &e
		case !held && added != nil && removed == nil:
			removed = &e
		}
	}
	return added, removed
}

// toppingsFirst fails an operator that returned a flavour before a topping when the icecream was deleted.
func (v visit) toppingsFirst(expected string, o order) {
	v.t.Helper()
	if flavour, topping := v.account(o).FlavourFirst(); flavour != "" {
		v.fail(expected, fmt.Sprintf("of %s, %s was returned before %s", o.name, flavour, topping))
	}
}

// evidence returns the operator's requests since the check began, with the faults that they met. It leaves out reads
// from the API server.
func (v visit) evidence(expected, observed string) []string {
	log, err := v.Faults.Log(v.ctx)
	if err != nil {
		return []string{err.Error()}
	}
	log = slices.DeleteFunc(log, func(e faults.Entry) bool {
		return e.Time.Before(v.began) || e.Service == faults.API && !e.Write ||
			e.Resource == "leases" || e.Resource == "events"
	})
	if len(log) == 0 {
		return []string{"the operator has written nothing and has not asked the freezer since this check began"}
	}
	return v.Evidence(v.Lines(log), expected, observed)
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

func TestAnswered(t *testing.T) {
	if os.Getenv(protocol.RunVariable) != "" {
		t.Skip("this binary is the checks of a run")
	}
	t.Parallel()
	at := func(milliseconds int) time.Time {
		return time.Date(2026, time.July, 1, 12, 0, 0, milliseconds*int(time.Millisecond), time.UTC)
	}
	write := func(sent int, verb, resource string, seconds float64, fault faults.Kind) faults.Entry {
		return faults.Entry{
			Service: faults.API, Time: at(sent), Seconds: seconds,
			Verb: verb, Resource: resource, Name: "quince", Code: 200, Write: true, Fault: fault,
		}
	}
	added := audit.Event{Time: at(20), Verb: "patch", Resource: "icecreams", Name: "quince"}
	for _, test := range []struct {
		name string
		log  []faults.Entry
		want int
	}{
		{"alone", []faults.Entry{write(10, "patch", "icecreams", 0.015, "")}, 25},
		{"of two attempts, the second", []faults.Entry{
			write(1, "patch", "icecreams", 0.002, faults.Conflict), write(10, "patch", "icecreams", 0.015, ""),
		}, 25},
		{"beside a write of the status", []faults.Entry{
			write(10, "patch", "icecreams", 0.015, ""), write(15, "patch", "icecreams/status", 0.090, ""),
		}, 25},
		{"beside another of the icecream", []faults.Entry{
			write(10, "patch", "icecreams", 0.015, ""), write(15, "update", "icecreams", 0.090, ""),
		}, 25},
		{"whose answer was lost", []faults.Entry{write(10, "patch", "icecreams", 0.015, faults.LostAnswer)}, 20},
	} {
		if got := answered(test.log, added); !got.Equal(at(test.want)) {
			t.Errorf("a write %s was answered at %s, not %s", test.name, clock(got), clock(at(test.want)))
		}
	}
}
