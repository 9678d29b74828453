// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package places

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

// watchDelay is the delay of the operator's watch. deletionDelay is how long a place stays taken that is free by the
// time the watch reports both changes. answerDelay limits how long an answer is delayed while something changes.
const (
	watchDelay    = 300 * time.Millisecond
	deletionDelay = 150 * time.Millisecond
	answerDelay   = 2 * time.Second
)

// attempts is how often a step is tried if the operator, or the check, may be too late for it to prove anything.
const attempts = 3

// OldNews is the check that an operator deletes only icecreams that have no place now. Its cache may be stale, and the
// objects that it has read may have changed since.
func OldNews(shopOf func(context.Context) *icecream.Shop) types.Feature {
	assess := func(step func(*Visit)) features.Func {
		return check.Assess(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			step(&Visit{Check: c, Ctx: ctx, T: t, Shop: shopOf(ctx)})
		})
	}
	return features.New("old news deletes nothing").
		Assess("when the watch is behind", assess(cacheBehind)).
		Assess("when an icecream changes after the operator has looked", assess(changedAfterRead)).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// cacheBehind creates a fourth icecream, and deletes one of the other three. When the operator's watch reports the
// fourth, the deletion is long done, but the watch reports it later. The first request by which the operator asks the
// API server is refused: a missing answer does not allow it to delete the fourth.
func cacheBehind(v *Visit) {
	for attempt := range attempts {
		three := []string{}
		for n := range 3 {
			three = append(three, fmt.Sprintf("acai-%d-%d", attempt, n+1))
			v.Make(three[n], "acai")
		}
		v.Make("bystander", "quandong")
		v.Remain("three icecreams of acai stay, and one of quandong", append(three, "bystander")...)
		// An operator may ask the API server about other things, too. The request after that is refused.
		began := v.Audit.Now()
		v.OK(v.T, "changing toppings", v.Shop.Patch(v.Ctx, "bystander", `{"spec":{"topping":["cream","nuts","wafer"]}}`))
		v.ToppingsCount("bystander", 3)
		v.Settle(v.Ctx, v.T)
		asked := len(v.reads(began, "bystander"))
		v.OK(v.T, "arming the faults", v.Faults.Arm(v.Ctx, faults.Schedule{Faults: []faults.Fault{
			{Kind: faults.Stale, Class: faults.Write, Service: faults.API, At: 1, For: metav1.Duration{Duration: watchDelay}},
			{Kind: faults.ServerError, Class: faults.Read, Service: faults.API, At: 1 + asked},
		}}))
		v.OK(v.T, "changing toppings", v.Shop.Patch(v.Ctx, "bystander", `{"spec":{"topping":["cream","nuts"]}}`))
		v.ToppingsCount("bystander", 2) // this write begins it
		began = v.Audit.Now()
		fourth := fmt.Sprintf("acai-%d-4", attempt)
		v.Make(fourth, "acai")
		created, four := time.Now(), append(slices.Clone(three), fourth)
		v.Pause(v.Ctx, v.T, deletionDelay)
		v.OK(v.T, "deleting an icecream", v.Shop.Delete(v.Ctx, three[0]))
		freed := v.deletion(began, three[0])
		expected := fmt.Sprintf("%s has a place: one of the three others was deleted, of which the operator, "+
			"whose watch is behind, may hear later. "+
			"An icecream is deleted only if the API server itself says that it has no place", fourth)
		// A status shows that the operator has dealt with the icecream.
		v.Eventually(v.Ctx, v.T, expected, v.Shop.Changed, func() (string, bool) {
			i, exists := v.Shop.Get(fourth)
			return fourth + " has no status", !v.Shop.Behind() && (!exists || i.ToppingsCount != nil)
		})
		v.OK(v.T, "ending the faults", v.Faults.Disarm(v.Ctx))
		gone := v.deletion(began, fourth)
		if gone == nil {
			looked := slices.ContainsFunc(v.reads(began, four...), func(e audit.Event) bool {
				return e.Time.After(created.Add(watchDelay/2)) && freed != nil && e.Time.Before(freed.Time.Add(watchDelay))
			})
			if !looked && attempt+1 < attempts {
				v.OK(v.T, "emptying the shop", v.Shop.Empty(v.Ctx)) // on this busy machine the operator's cache was up to date
				continue
			}
			v.Remain(fmt.Sprintf("%s has the place of %s, and stays", fourth, three[0]), three[1], three[2], fourth, "bystander")
			return
		}
		if freed != nil && gone.Time.After(freed.Time) && !v.readBefore(began, freed.Time, *gone, four...) {
			v.Fail(v.T, expected, fmt.Sprintf("%s was deleted %s after %s had gone",
				fourth, gone.Time.Sub(freed.Time).Round(time.Millisecond), three[0]))
		}
		v.OK(v.T, "emptying the shop", v.Shop.Empty(v.Ctx)) // the operator was faster
	}
}

// readBefore reports whether the operator's last read before a deletion was sent before a given moment. In that case
// the answer was correct when it was given.
func (v *Visit) readBefore(since audit.Mark, moment time.Time, deletion audit.Event, names ...string) bool {
	v.T.Helper()
	var last time.Time
	for _, e := range v.reads(since, names...) {
		if e.Time.Before(deletion.Time) {
			last = e.Time
		}
	}
	return !last.IsZero() && last.Before(moment)
}

// reads returns the operator's requests that read all icecreams, or one of these.
func (v *Visit) reads(since audit.Mark, names ...string) []audit.Event {
	v.T.Helper()
	resource := icecream.Resource.GroupResource()
	return v.Audit.Since(since, v.OperatorRequests().And(audit.On(resource.Group, resource.Resource),
		func(e audit.Event) bool {
			return e.Verb == "list" || e.Verb == "get" && slices.Contains(names, e.Name)
		}))
}

// deletion returns the request by which any client deleted an icecream. Nil: none did.
func (v *Visit) deletion(since audit.Mark, name string) *audit.Event {
	v.T.Helper()
	resource := icecream.Resource.GroupResource()
	for _, e := range v.Audit.Since(since, audit.On(resource.Group, resource.Resource)) {
		if e.Verb == "delete" && e.Name == name && e.Code < 300 {
			return &e
		}
	}
	return nil
}

// changedAfterRead changes an icecream after the operator has read that it has no place, and before the operator
// deletes it.
func changedAfterRead(v *Visit) {
	v.OK(v.T, "emptying the shop", v.Shop.Empty(v.Ctx))
	for attempt := range attempts {
		var stay []string
		for n := range 3 {
			stay = append(stay, fmt.Sprintf("sloe-%d-%d", attempt, n+1))
			v.Make(stay[n], "sloe")
		}
		v.Remain("three icecreams of sloe stay", stay...)
		v.OK(v.T, "arming the faults", v.Faults.Arm(v.Ctx, faults.Schedule{Faults: []faults.Fault{
			{Kind: faults.Slow, Class: faults.Read, Service: faults.API, For: metav1.Duration{Duration: answerDelay}},
		}}))
		began := v.Audit.Now()
		fourth := fmt.Sprintf("sloe-%d-4", attempt)
		v.Make(fourth, "sloe")
		v.Eventually(v.Ctx, v.T, "of four icecreams of sloe the newest is deleted", v.Shop.Changed, func() (string, bool) {
			_, exists := v.Shop.Get(fourth)
			return fourth + " is there", !v.Shop.Behind() && !exists || len(v.reads(began, append(stay, fourth)...)) > 0
		})
		err := v.Shop.Patch(v.Ctx, fourth, `{"spec":{"flavour":["medlar"]}}`)
		v.OK(v.T, "ending the faults", v.Faults.Disarm(v.Ctx)) // now the operator gets its answer
		if v.deletion(began, fourth) == nil || err == nil {
			v.OK(v.T, "changing the flavour of "+fourth, err)
			v.Remain(fmt.Sprintf("%s, which was changed from sloe to medlar when the operator had just read "+
				"that it has no place, stays: what was changed since it was read is not deleted", fourth), append(stay, fourth)...)
			return
		}
		v.OK(v.T, "emptying the shop", v.Shop.Empty(v.Ctx)) // the operator was faster, or does not read before it deletes
	}
}
