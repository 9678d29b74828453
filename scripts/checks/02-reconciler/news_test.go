// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reconciler_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/faults"
)

// How late the operator's watch tells, and for how long a place is taken that is free when the operator hears of both.
const (
	late    = 300 * time.Millisecond
	between = 150 * time.Millisecond
)

// attempts is how often a step is tried in which the operator, or the check, may come too late for it to prove anything.
const attempts = 3

func oldNews() types.Feature {
	return features.New("old news deletes nothing").
		Assess("when the watch is behind", check.Assess(assess(cacheBehind))).
		Assess("when an icecream changes after the operator has looked", check.Assess(assess(changedMeanwhile))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// cacheBehind: the operator hears of a fourth when one of the other three has long been deleted, of which it hears later. The first
// question that it asks the API server is refused: no answer is not the answer that the fourth may go.
func cacheBehind(v visit) {
	for attempt := range attempts {
		three := []string{}
		for n := range 3 {
			three = append(three, fmt.Sprintf("acai-%d-%d", attempt, n+1))
			v.make(three[n], "acai")
		}
		v.make("bystander", "quandong")
		v.remain("three icecreams of acai stay, and one of quandong", append(three, "bystander")...)
		v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
			{Kind: faults.Stale, Class: faults.Write, At: 1, For: metav1.Duration{Duration: late}},
			{Kind: faults.ServerError, Class: faults.Read, At: 1},
		}}))
		v.OK(v.t, "changing toppings", v.shop.Patch(v.ctx, "bystander", `{"spec":{"topping":["cream","nuts"]}}`))
		v.toppingsCount("bystander", 2) // with this write it begins
		began := v.Audit.Now()
		fourth := fmt.Sprintf("acai-%d-4", attempt)
		v.make(fourth, "acai")
		made := time.Now()
		v.pause(between)
		v.OK(v.t, "deleting an icecream", v.shop.Delete(v.ctx, three[0]))
		freed := v.deletion(began, three[0])
		expected := fmt.Sprintf("%s has a place: one of the three others was deleted, of which the operator, whose watch is behind, may hear later. "+
			"An icecream is deleted only if the API server itself says that it has no place", fourth)
		// It has a status when the operator has dealt with it.
		v.Eventually(v.ctx, v.t, expected, v.shop.Changed, func() (string, bool) {
			i, there := v.shop.Get(fourth)
			return fourth + " has no status", !v.shop.Behind() && (!there || i.ToppingsCount != nil)
		})
		v.OK(v.t, "ending the faults", v.Faults.Disarm(v.ctx))
		gone := v.deletion(began, fourth)
		if gone == nil {
			looked := slices.ContainsFunc(v.reads(began), func(e audit.Event) bool {
				return e.Time.After(made.Add(late/2)) && freed != nil && e.Time.Before(freed.Time.Add(late))
			})
			if !looked && attempt+1 < attempts {
				v.OK(v.t, "emptying the shop", v.shop.Empty(v.ctx)) // the machine is so busy that its cache was up to date
				continue
			}
			v.remain(fmt.Sprintf("%s has the place of %s, and stays", fourth, three[0]), three[1], three[2], fourth, "bystander")
			return
		}
		if freed != nil && gone.Time.After(freed.Time) && !v.asked(began, freed.Time, *gone) {
			v.Fail(v.t, expected, fmt.Sprintf("%s was deleted %s after %s had gone", fourth, gone.Time.Sub(freed.Time).Round(time.Millisecond), three[0]))
		}
		v.OK(v.t, "emptying the shop", v.shop.Empty(v.ctx)) // it was faster
	}
}

// asked reports whether the last that the operator asked the API server before a deletion was asked before a moment: then the answer
// was true when it was given.
func (v visit) asked(since audit.Mark, moment time.Time, deletion audit.Event) bool {
	v.t.Helper()
	var last time.Time
	for _, e := range v.reads(since) {
		if e.Time.Before(deletion.Time) {
			last = e.Time
		}
	}
	return !last.IsZero() && last.Before(moment)
}

// reads are what the operator has asked the API server about icecreams.
func (v visit) reads(since audit.Mark) []audit.Event {
	v.t.Helper()
	resource := icecream.Resource.GroupResource()
	return v.Audit.Since(since, v.OperatorRequests().And(audit.On(resource.Group, resource.Resource), func(e audit.Event) bool {
		return e.Verb == "list" || e.Verb == "get"
	}))
}

// deletion is the request by which an icecream was deleted, by whomever. Nil: it was not.
func (v visit) deletion(since audit.Mark, name string) *audit.Event {
	v.t.Helper()
	resource := icecream.Resource.GroupResource()
	for _, e := range v.Audit.Since(since, audit.On(resource.Group, resource.Resource)) {
		if e.Verb == "delete" && e.Name == name && e.Code < 300 {
			return &e
		}
	}
	return nil
}

// changedMeanwhile: the operator has read that an icecream has no place, and when it deletes the icecream that is no longer so.
func changedMeanwhile(v visit) {
	v.OK(v.t, "emptying the shop", v.shop.Empty(v.ctx))
	for attempt := range attempts {
		var stay []string
		for n := range 3 {
			stay = append(stay, fmt.Sprintf("sloe-%d-%d", attempt, n+1))
			v.make(stay[n], "sloe")
		}
		v.remain("three icecreams of sloe stay", stay...)
		v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
			{Kind: faults.Slow, Class: faults.Read, For: metav1.Duration{Duration: late}},
		}}))
		began := v.Audit.Now()
		fourth := fmt.Sprintf("sloe-%d-4", attempt)
		v.make(fourth, "sloe")
		v.Eventually(v.ctx, v.t, "of four icecreams of sloe the newest goes", v.shop.Changed, func() (string, bool) {
			_, there := v.shop.Get(fourth)
			return fourth + " is there", !v.shop.Behind() && !there || len(v.reads(began)) > 0
		})
		err := v.shop.Patch(v.ctx, fourth, `{"spec":{"flavour":["medlar"]}}`)
		if v.deletion(began, fourth) == nil || err == nil {
			v.OK(v.t, "changing the flavour of "+fourth, err)
			v.remain(fmt.Sprintf("%s, which was changed from sloe to medlar when the operator had just read that it has no place, stays: "+
				"what was changed since it was read is not deleted", fourth), append(stay, fourth)...)
			return
		}
		v.OK(v.t, "ending the faults", v.Faults.Disarm(v.ctx))
		v.OK(v.t, "emptying the shop", v.shop.Empty(v.ctx)) // it was faster, or does not ask
	}
}

// pause lets time go by that is part of the story: nothing else tells that the operator hears of two changes one after the other.
func (v visit) pause(duration time.Duration) {
	v.t.Helper()
	select {
	case <-time.After(duration):
	case <-v.ctx.Done():
		v.OK(v.t, "waiting", context.Cause(v.ctx))
	}
}
