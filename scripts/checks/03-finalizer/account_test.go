// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/freezer"
)

// account is what was booked for one icecream, in the order in which it was.
type account []freezer.Movement

func (v visit) account(o order) account {
	v.t.Helper()
	movements, err := v.Freezer.Movements(v.ctx, o.uid)
	v.OK(v.t, "reading the freezer's ledger", err)
	return movements
}

func say(i freezer.Ingredient) string { return i.Kind + " " + i.Ingredient }

// out is what was taken and not returned, sorted.
func (a account) out() []string {
	counts := a.counts(nil)
	var out []string
	for what, count := range counts {
		for range count {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return out
}

// wrong says what was booked and should not have been, whatever else comes: empty if nothing.
func (a account) wrong() (wrong string) {
	a.counts(func(m freezer.Movement, count int) {
		switch {
		case wrong != "":
		case count > 1:
			wrong = say(m.Ingredient) + " was taken twice"
		case count < 0:
			wrong = say(m.Ingredient) + " was returned once more than it was taken"
		}
	})
	return wrong
}

// counts counts what is out of each ingredient, and tells of the count after each movement.
func (a account) counts(each func(freezer.Movement, int)) map[string]int {
	counts := map[string]int{}
	for _, m := range a {
		if m.Direction == freezer.Out {
			counts[say(m.Ingredient)]++
		} else {
			counts[say(m.Ingredient)]--
		}
		if each != nil {
			each(m, counts[say(m.Ingredient)])
		}
	}
	return counts
}

// describe says what is out for an icecream, as the observation of a check.
func (v visit) describe(o order) string {
	v.t.Helper()
	a := v.account(o)
	if len(a) > 0 {
		return fmt.Sprintf("%s has %s out of the freezer", o.name, sentence(a.out()))
	}
	observed := fmt.Sprintf("the freezer has booked nothing for %s (owner %s)", o.name, o.uid)
	if !slices.ContainsFunc(v.log(), func(e faults.Entry) bool { return e.Service == freezer.Service }) {
		return observed + ": nobody has asked it for anything yet"
	}
	all, err := v.Freezer.Movements(v.ctx, "")
	v.OK(v.t, "reading the freezer's ledger", err)
	for _, m := range all {
		if m.Owner == o.name {
			return fmt.Sprintf("%s: it has booked %s %s for the owner %s, which is a name and not a UID", observed, say(m.Ingredient), m.Direction, m.Owner)
		}
	}
	return observed
}

// has waits until exactly this is out for an icecream, each once, and the finalizer is on it: now it can be deleted.
func (v visit) has(expected string, patience time.Duration, o order, ingredients ...string) {
	v.t.Helper()
	slices.Sort(ingredients)
	v.until(expected, patience, func() (string, bool) {
		v.inOrder(expected, o)
		if !slices.Equal(v.account(o).out(), ingredients) {
			return v.describe(o), false
		}
		now, _ := v.find(o)
		return "its finalizers are " + sentence(now.finalizers), now.held()
	})
}

// inOrder fails as soon as something is booked that can't be made good.
func (v visit) inOrder(expected string, o order) {
	v.t.Helper()
	if wrong := v.account(o).wrong(); wrong != "" {
		v.fail(expected, fmt.Sprintf("%s, for %s", wrong, o.name))
	}
}

// leaves waits until icecreams are gone. Each must have returned everything before, and exactly once.
func (v visit) leaves(expected string, patience time.Duration, orders ...order) {
	v.t.Helper()
	v.until(expected, patience, func() (observed string, ok bool) {
		for _, o := range orders {
			now, there := v.find(o)
			v.inOrder(expected, o)
			switch out := v.account(o).out(); {
			case !there && len(out) > 0:
				v.fail(expected, fmt.Sprintf("%s is gone, and %s is still out of the freezer", o.name, sentence(out)))
			case there && len(out) > 0:
				return fmt.Sprintf("%s still has %s out of the freezer", o.name, sentence(out)), false
			case there:
				return fmt.Sprintf("%s has returned everything, and is still there: its finalizers are %s", o.name, sentence(now.finalizers)), false
			}
		}
		return "they are gone", true
	})
	for _, o := range orders {
		v.returnedFirst(expected, o)
	}
}

// closed fails an operator that has something out for an icecream that is gone.
func (v visit) closed(expected string, o order) {
	v.t.Helper()
	v.inOrder(expected, o)
	if out := v.account(o).out(); len(out) > 0 {
		v.fail(expected, fmt.Sprintf("%s is gone, and %s still out of the freezer", o.name, sentence(out)))
	}
}

// returnedFirst fails an operator that removed its finalizer before all was back.
func (v visit) returnedFirst(expected string, o order) {
	v.t.Helper()
	_, removed := v.finalizerWrites(o)
	a := v.account(o)
	if removed == nil || len(a) == 0 {
		return
	}
	if last := a[len(a)-1]; last.Booked.After(removed.Time) {
		v.fail(expected, fmt.Sprintf("the finalizer was removed at %s, and %s was booked %s only at %s", clock(removed.Time),
			say(last.Ingredient), last.Direction, clock(last.Booked)))
	}
}

// takenAfter fails an operator that asked for something before it knew its finalizer on the icecream.
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
			v.fail(expected, fmt.Sprintf("%s was asked for at %s, and the finalizer was never added to %s", say(m.Ingredient), clock(sent), o.name))
		}
		if known := answered(log, *added); sent.Before(known) {
			v.fail(expected, fmt.Sprintf("%s was asked for at %s, and that the finalizer is on %s was known only at %s",
				say(m.Ingredient), clock(sent), o.name, clock(known)))
		}
	}
}

// answered is when a write that is in the audit log was answered; or done, if its answer was lost.
func answered(log []faults.Entry, write audit.Event) time.Time {
	for _, e := range slices.Backward(log) {
		if e.Service == faults.API && e.Write && e.Name == write.Name && !e.Time.After(write.Time) {
			if at := e.Answered(); !at.IsZero() {
				return at
			}
			break
		}
	}
	return write.Time
}

// finalizerWrites are the writes with which the operator added its finalizer to an icecream, and removed it. Nil: it has
// not.
func (v visit) finalizerWrites(o order) (added, removed *audit.Event) {
	v.t.Helper()
	resource := icecream.Resource.GroupResource()
	for _, e := range v.Audit.Since(0, v.OperatorRequests().And(audit.Writes, audit.On(resource.Group, resource.Resource))) {
		var stored struct {
			Metadata struct {
				UID        string   `json:"uid"`
				Finalizers []string `json:"finalizers"`
			} `json:"metadata"`
		}
		if e.Name != o.name || e.Code >= 300 || e.Verb == "delete" || json.Unmarshal(e.Response, &stored) != nil || stored.Metadata.UID != o.uid {
			continue
		}
		switch held := slices.Contains(stored.Metadata.Finalizers, finalizer); {
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
	flavour := ""
	for _, m := range v.account(o) {
		switch {
		case m.Direction == freezer.Out: // what went in before was exchanged for it
			flavour = ""
		case m.Kind == freezer.Flavour:
			flavour = say(m.Ingredient)
		case flavour != "":
			v.fail(expected, fmt.Sprintf("of %s, %s was returned before %s", o.name, flavour, say(m.Ingredient)))
		}
	}
}

// evidenceLines is how many requests a failed check shows: the last ones.
const evidenceLines = 10

// evidence is what the operator asked for since the check began, and what befell it: what it read at the API server is
// left out.
func (v visit) evidence() []string {
	log, err := v.Faults.Log(v.ctx)
	if err != nil {
		return []string{err.Error()}
	}
	booked := map[string]freezer.Movement{}
	if movements, err := v.Freezer.Movements(v.ctx, ""); err == nil {
		for _, m := range movements {
			booked[m.ID] = m
		}
	}
	var lines []string
	for _, e := range log {
		if e.Time.Before(v.began) || e.Service == faults.API && !e.Write || e.Resource == "leases" || e.Resource == "events" {
			continue
		}
		if m, ok := booked[e.Name]; ok {
			e.Name = fmt.Sprintf("%s (%s %s)", shorten(e.Name), say(m.Ingredient), m.Direction)
		}
		lines = append(lines, e.String())
	}
	if len(lines) == 0 {
		return []string{"the operator has written nothing and has not asked the freezer since this check began"}
	}
	if skipped := len(lines) - evidenceLines; skipped > 0 {
		lines = append([]string{fmt.Sprintf("(earlier requests: %d)", skipped)}, lines[skipped:]...)
	}
	return lines
}

// shorten leaves of a long id what tells it from others.
func shorten(id string) string {
	const enough = 12
	if len(id) <= enough {
		return id
	}
	return strings.TrimRight(id[:enough], "-._:") + "…"
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
