// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reconciler_test

import (
	"slices"
	"time"

	"lva.io/operators/scripts/checks/compare"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/places"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

// scenarioPatience is how long an operator may be silent in the scenario: a fault may just have killed it, or asked it
// to retry later.
const scenarioPatience = 10 * time.Second

// conflicts makes the only writes that matter meet conflicts. Nothing else happens that would give an operator that
// drops an error another chance.
func conflicts(v visit) {
	v.Make("medlar", "medlar")
	v.ToppingsCount("medlar", 1)
	v.RefusedAtFirst(v.Ctx, v.T, faults.Conflict, faults.Write, func() {
		v.OK(v.T, "changing toppings", v.Shop.Patch(v.Ctx, "medlar", `{"spec":{"topping":["cream","nuts"]}}`))
	})
	v.ToppingsCount("medlar", 2)
	v.OK(v.T, "emptying the shop", v.Shop.Empty(v.Ctx))
}

// refusals makes the only requests that matter fail: the deletion of a fourth icecream, and the read from the API
// server before it.
func refusals(v visit) {
	v.OK(v.T, "emptying the shop", v.Shop.Empty(v.Ctx))
	stay := []string{"salak-1", "salak-2", "salak-3"}
	for _, name := range stay {
		v.Make(name, "salak")
	}
	v.await("three of salak stay, and are sold out", func() (string, bool) { return v.shopHas(true, stay...) })
	for _, refused := range []struct {
		kind  faults.Kind
		class faults.Class
		name  string
	}{{faults.ServerError, faults.Read, "salak-4"}, {faults.Conflict, faults.Write, "salak-5"}} {
		v.RefusedAtFirst(v.Ctx, v.T, refused.kind, refused.class, func() { v.Make(refused.name, "salak") })
		v.await("of four icecreams of salak "+refused.name+" is deleted, "+
			"also if the API server refuses what the operator asks for at first",
			func() (string, bool) { return v.shopHas(true, stay...) })
	}
	// When one of three is deleted, the others change. An operator that has dropped the error of a read gets no other
	// information about which ones these are.
	v.RefusedAtFirst(v.Ctx, v.T, faults.ServerError, faults.Read, func() {
		v.OK(v.T, "deleting an icecream", v.Shop.Delete(v.Ctx, stay[0]))
	})
	v.await("two of salak stay, and are not sold out, also if the API server refuses what the operator asks for at first",
		func() (string, bool) { return v.shopHas(false, stay[1:]...) })
	v.OK(v.T, "emptying the shop", v.Shop.Empty(v.Ctx))
}

// scenario is a busy minute in the shop, in short: three icecreams of a flavour exist, a fourth is created, the first
// is deleted, and the topping of another changes. The fourth may be deleted while there are four, and must stay when
// there are not.
func scenario(v visit) {
	for _, name := range []string{"quince-1", "quince-2", "quince-3"} {
		v.Make(name, "quince")
	}
	v.await("three of quince stay, and are sold out", func() (string, bool) {
		return v.shopHas(true, "quince-1", "quince-2", "quince-3")
	})
	before := v.Audit.Now()
	v.Make("quince-4", "quince")
	v.OK(v.T, "deleting an icecream", v.Shop.Delete(v.Ctx, "quince-1"))
	freed := time.Now()
	v.OK(v.T, "changing toppings", v.Shop.Patch(v.Ctx, "quince-2", `{"spec":{"topping":["cream","nuts"]}}`))
	v.await("quince-4 has the place of quince-1, which was deleted, unless it had gone before", func() (string, bool) {
		if _, exists := v.Shop.Get("quince-4"); !exists {
			return v.shopHas(false, "quince-2", "quince-3")
		}
		return v.shopHas(true, "quince-2", "quince-3", "quince-4")
	})
	v.Settle(v.Ctx, v.T)
	v.notOnStaleCache(before, freed)
}

// await waits patiently for the end of the scenario.
func (v visit) await(expected string, look func() (string, bool)) {
	v.T.Helper()
	v.EventuallyWithin(v.Ctx, v.T, expected, scenarioPatience, v.Shop.Changed, look)
}

// shopHas reports whether exactly these icecreams exist, with the expected status.
func (v visit) shopHas(soldOut bool, names ...string) (observed string, ok bool) {
	var existing []string
	wrong := ""
	for _, i := range v.Shop.All() {
		existing = append(existing, i.Name)
		if status := (compare.Fields{i.CountIs(int64(len(i.Topping))), i.SoldOutIs(soldOut)}); !status.Same() {
			wrong = status.Observed()
		}
	}
	slices.Sort(existing)
	if !slices.Equal(existing, names) {
		return "there are " + places.List(existing), false
	}
	return wrong, wrong == "" && !v.Shop.Behind()
}

// staleAge is the age from which the operator's knowledge counts as out of date. It is far more than the lag of a watch
// on a good day.
const staleAge = 150 * time.Millisecond

// notOnStaleCache fails an operator that deleted quince-4 long after its place was free, and had not asked the API
// server before, which means that its cache was stale. A change between the read and the deletion is no mistake.
func (v visit) notOnStaleCache(since audit.Mark, freed time.Time) {
	v.T.Helper()
	resource := icecream.Resource.GroupResource()
	requests := v.OperatorRequests().And(audit.On(resource.Group, resource.Resource))
	deletions := v.Audit.Since(since, requests.And(func(e audit.Event) bool {
		return e.Verb == "delete" && e.Name == "quince-4" && e.Code < 300 && e.Time.Sub(freed) > staleAge
	}))
	if len(deletions) == 0 {
		return
	}
	asked := v.Audit.Since(since, requests.And(func(e audit.Event) bool {
		return (e.Verb == "list" || e.Verb == "get") && e.Time.Before(deletions[0].Time)
	}))
	if len(asked) == 0 {
		v.Fail(v.T, "an icecream is deleted only if the API server, and not just the cache, says that it has no place",
			"quince-4 was deleted after quince-1 had gone, without a question to the API server: the cache was behind")
	}
}
