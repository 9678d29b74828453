// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reconciler_test

import (
	"slices"
	"time"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/compare"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/faults"
)

// scenarioPatience is how long an operator may be silent in the scenario: it may just have been killed, or been told to
// come back later.
const scenarioPatience = 10 * time.Second

// conflicts lets the only writes that matter meet conflicts: nothing else happens that would give another chance to an
// operator which drops an error.
func conflicts(v visit) {
	v.make("medlar", "medlar")
	v.toppingsCount("medlar", 1)
	v.RefusedAtFirst(v.ctx, v.t, faults.Conflict, faults.Write, func() {
		v.OK(v.t, "changing toppings", v.shop.Patch(v.ctx, "medlar", `{"spec":{"topping":["cream","nuts"]}}`))
	})
	v.toppingsCount("medlar", 2)
	v.OK(v.t, "emptying the shop", v.shop.Empty(v.ctx))
}

// refusals let the only requests that matter fail: those by which a fourth icecream is deleted, and the question to the API server
// before.
func refusals(v visit) {
	v.OK(v.t, "emptying the shop", v.shop.Empty(v.ctx))
	stay := []string{"salak-1", "salak-2", "salak-3"}
	for _, name := range stay {
		v.make(name, "salak")
	}
	v.become("three of salak stay, and are sold out", func() (string, bool) { return v.stand(true, stay...) })
	for _, refused := range []struct {
		kind  faults.Kind
		class faults.Class
		name  string
	}{{faults.ServerError, faults.Read, "salak-4"}, {faults.Conflict, faults.Write, "salak-5"}} {
		v.RefusedAtFirst(v.ctx, v.t, refused.kind, refused.class, func() { v.make(refused.name, "salak") })
		v.become("of four icecreams of salak "+refused.name+" goes, also if the API server refuses what the operator asks for at first",
			func() (string, bool) { return v.stand(true, stay...) })
	}
	v.OK(v.t, "emptying the shop", v.shop.Empty(v.ctx))
}

// scenario is a busy minute in the shop, in short: three of a flavour, a fourth, the first is eaten, and somebody wants
// another topping. The fourth may go while there are four, and must stay when there are not.
func scenario(v visit) {
	for _, name := range []string{"quince-1", "quince-2", "quince-3"} {
		v.make(name, "quince")
	}
	v.become("three of quince stay, and are sold out", func() (string, bool) {
		return v.stand(true, "quince-1", "quince-2", "quince-3")
	})
	before := v.Audit.Now()
	v.make("quince-4", "quince")
	v.OK(v.t, "deleting an icecream", v.shop.Delete(v.ctx, "quince-1"))
	freed := time.Now()
	v.OK(v.t, "changing toppings", v.shop.Patch(v.ctx, "quince-2", `{"spec":{"topping":["cream","nuts"]}}`))
	v.become("quince-4 has the place of quince-1, which was deleted, unless it had gone before", func() (string, bool) {
		if _, there := v.shop.Get("quince-4"); !there {
			return v.stand(false, "quince-2", "quince-3")
		}
		return v.stand(true, "quince-2", "quince-3", "quince-4")
	})
	v.Settle(v.ctx, v.t)
	v.notOnHearsay(before, freed)
}

// become waits patiently for what the scenario ends with.
func (v visit) become(expected string, look func() (string, bool)) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, expected, scenarioPatience, v.shop.Changed, look)
}

// stand tells whether these icecreams are there and no others, with the status that they should have.
func (v visit) stand(soldOut bool, names ...string) (observed string, ok bool) {
	var there []string
	wrong := ""
	for _, i := range v.shop.All() {
		there = append(there, i.Name)
		if status := (compare.Fields{i.CountIs(int64(len(i.Topping))), i.SoldOutIs(soldOut)}); !status.Same() {
			wrong = status.Observed()
		}
	}
	slices.Sort(there)
	if !slices.Equal(there, names) {
		return "there are " + list(there), false
	}
	return wrong, wrong == "" && !v.shop.Behind()
}

// hearsayAge is how old what an operator knows must be to count as out of date: far more than a watch lags on a good day.
const hearsayAge = 150 * time.Millisecond

// notOnHearsay fails an operator that deleted quince-4 long after its place was free, and had not asked the API server
// before: its cache was behind. Between asking and deleting things may change, which nobody can help.
func (v visit) notOnHearsay(made audit.Mark, freed time.Time) {
	v.t.Helper()
	resource := icecream.Resource.GroupResource()
	requests := v.OperatorRequests().And(audit.On(resource.Group, resource.Resource))
	deletions := v.Audit.Since(made, requests.And(func(e audit.Event) bool {
		return e.Verb == "delete" && e.Name == "quince-4" && e.Code < 300 && e.Time.Sub(freed) > hearsayAge
	}))
	if len(deletions) == 0 {
		return
	}
	asked := v.Audit.Since(made, requests.And(func(e audit.Event) bool {
		return (e.Verb == "list" || e.Verb == "get") && e.Time.Before(deletions[0].Time)
	}))
	if len(asked) == 0 {
		v.Fail(v.t, "an icecream is deleted only if the API server, and not just the cache, says that it has no place",
			"quince-4 was deleted after quince-1 had gone, without a question to the API server: the cache was behind")
	}
}
