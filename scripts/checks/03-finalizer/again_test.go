// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/places"
	"lva.io/operators/scripts/checks/story"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/freezer"
)

// movementID checks the ids of repeated attempts. The freezer may still book an attempt that the operator has given up
// on. With another id, the next attempt would then book a second time. Such a delay can't be reproduced reliably, so
// the check compares the ids of the attempts. The first of two movements succeeds. After that the other one is no
// longer the second missing movement, but it is the same movement.
func movementID() types.Feature {
	return feature("a movement has one id", "each time that it is tried", func(v visit) {
		const expected = "a movement that is tried again has the same id as before, also after the operator was killed"
		attempts := []faults.Fault{
			{Kind: faults.Unavailable, Class: faults.Write, Service: freezer.Service, At: 2},
			{Kind: faults.KillBefore, Class: faults.Write, Service: freezer.Service, At: 3},
		}
		v.arm(attempts...)
		o := v.createIcecream("kumquat", []string{"kumquat"}, "cream")
		v.has("the ingredients of kumquat are taken, "+
			"although the freezer refuses the second booking, and at the third the operator is killed",
			scenarioPatience, o, "flavour kumquat", "topping cream")
		v.oneID(expected, o, freezer.Out)
		v.arm(attempts...)
		v.delete(o)
		// Other checks report whether everything is returned before kumquat is deleted.
		v.until("an ingredient of kumquat is returned again "+
			"after the freezer refused it", scenarioPatience, func() (string, bool) {
			_, exists := v.find(o)
			again := slices.ContainsFunc(slices.Collect(maps.Values(v.attempts(o, freezer.In))), func(ids []string) bool {
				return len(ids) > 1
			})
			return "kumquat is still there, and nothing has been returned twice", !exists || again
		})
		v.oneID(expected, o, freezer.In)
		v.disarm()
	})
}

// attempts returns the ids of the requests to book a movement of an icecream in one direction, by ingredient, in the
// order in which they were sent.
func (v visit) attempts(o order, direction string) map[string][]string {
	v.t.Helper()
	ids := map[string][]string{}
	for _, e := range v.log() {
		if what, _, found := strings.Cut(e.About, fmt.Sprintf(" %s for %s,", direction, o.uid)); found {
			ids[what] = append(ids[what], e.Name)
		}
	}
	return ids
}

// oneID fails an operator that tried one movement of an icecream under several ids.
func (v visit) oneID(expected string, o order, direction string) {
	v.t.Helper()
	for what, ids := range v.attempts(o, direction) {
		slices.Sort(ids)
		ids = slices.Compact(ids)
		if len(ids) > 1 {
			v.fail(expected,
				fmt.Sprintf("of %s, the %s %s was tried under %d ids: %s", o.name, what, direction, len(ids), story.List(ids)))
		}
	}
}

func settles() types.Feature {
	return feature("at rest once right", "when something changes that does not matter", func(v visit) {
		var orders []order
		names := []string{"satsuma", "sorrel", "sumac"}
		began, logged := v.Audit.Now(), v.Logged(v.ctx, v.t)
		for _, name := range names {
			orders = append(orders, v.createIcecream(name, []string{name}, "cream"))
		}
		for _, o := range orders {
			v.has("the ingredients of "+o.name+" are taken", patience, o, "flavour "+o.name, "topping cream")
		}
		v.Idle(v.ctx, v.t)
		v.ErrorsHaveCauses(v.ctx, v.t, logged, began, names...)
		began, logged = v.Audit.Now(), v.Logged(v.ctx, v.t)
		for _, o := range orders {
			v.change(o, `{"metadata":{"labels":{"table":"4"}}}`)
		}
		// A change that matters comes last: when the operator has dealt with it, it has seen the others.
		v.change(orders[2], `{"spec":{"topping":["cream","nuts"]}}`)
		v.has("when sumac gets nuts as well, they are taken",
			patience, orders[2], "flavour sumac", "topping cream", "topping nuts")
		v.Settle(v.ctx, v.t)
		resource := icecream.Resource.GroupResource()
		writes := v.Audit.Since(began,
			v.OperatorRequests().And(audit.Writes, audit.On(resource.Group, resource.Resource), func(e audit.Event) bool {
				return e.Name != orders[2].name
			}))
		if len(writes) > 0 {
			v.fail("the operator writes nothing for satsuma and sorrel, of which only a label changed",
				fmt.Sprintf("it sent %d writes that change nothing, the first for %s", len(writes), writes[0].Name))
		}
		v.NoErrors(v.ctx, v.t, logged, "satsuma", "sorrel")
		began, logged = v.Audit.Now(), v.Logged(v.ctx, v.t)
		for _, o := range orders {
			v.change(o, `{"spec":{"topping":["cream","fudge","wafer"]}}`)
			v.has("when "+o.name+" gets fudge and a wafer, they are taken", patience, o,
				"flavour "+o.name, "topping cream", "topping fudge", "topping wafer")
		}
		v.Settle(v.ctx, v.t)
		v.ErrorsHaveCauses(v.ctx, v.t, logged, began, names...)
		began, logged = v.Audit.Now(), v.Logged(v.ctx, v.t)
		v.delete(orders[1])
		v.awaitDeleted("when sorrel is deleted, its ingredients are returned, and it is gone", patience, orders[1])
		v.AtRest(v.ctx, v.t)
		v.NoErrors(v.ctx, v.t, logged, names...)
		for _, o := range []order{orders[0], orders[2]} {
			v.delete(o)
			v.awaitDeleted("when "+o.name+" is deleted, its ingredients are returned, and it is gone", patience, o)
		}
		v.Settle(v.ctx, v.t)
		v.ErrorsHaveCauses(v.ctx, v.t, logged, began, names...)
		(&places.Visit{Check: v.Check, Ctx: v.ctx, T: v.t, Shop: v.Shop}).NoErrorsForDeletions("tamarind")
	})
}

// logged returns how much the operator has logged.
