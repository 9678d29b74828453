// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reconciler_test

import (
	"slices"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func toppingsCount() types.Feature {
	return features.New("status.toppingsCount is the number of toppings").
		Assess("of a new icecream", check.Assess(assess(func(v visit) {
			_, err := v.Shop.Create(v.Ctx, "sundae", []string{"vanilla"}, "cream", "cherry")
			v.OK(v.T, "creating an icecream", err)
			v.ToppingsCount("sundae", 2)
		}))).
		Assess("of one whose toppings change", check.Assess(assess(func(v visit) {
			v.OK(v.T, "adding a topping", v.Shop.Patch(v.Ctx, "sundae", `{"spec":{"topping":["cream","cherry","nuts"]}}`))
			v.ToppingsCount("sundae", 3)
		}))).
		Assess("of one that has no toppings any more", check.Assess(assess(func(v visit) {
			v.OK(v.T, "removing all toppings", v.Shop.Patch(v.Ctx, "sundae", `{"spec":{"topping":null}}`))
			v.ToppingsCount("sundae", 0)
		}))).Feature()
}

func soldOut() types.Feature {
	return features.New("soldOut is true when no place is left").
		Assess("not while there are two", check.Assess(assess(func(v visit) {
			v.Make("kiwi-1", "kiwi")
			v.Make("kiwi-2", "kiwi")
			v.Make("lime-1", "lime")
			v.Remain("two icecreams of kiwi and one of lime stay", "kiwi-1", "kiwi-2", "lime-1")
			v.soldOut("soldOut is false while a flavour has a place left", false, "kiwi-1", "kiwi-2", "lime-1")
		}))).
		Assess("on all three, also on one of two flavours", check.Assess(assess(func(v visit) {
			v.Make("kiwi-lime", "kiwi", "lime")
			v.soldOut("with three icecreams of kiwi, soldOut is true on all of them, the one of kiwi and lime included",
				true, "kiwi-1", "kiwi-2", "kiwi-lime")
			v.soldOut("lime has a place left, so soldOut is false on the icecream of lime alone", false, "lime-1")
		}))).
		Assess("on the three that remain when a fourth went", check.Assess(assess(func(v visit) {
			v.Make("kiwi-4", "kiwi")
			// Other checks report which of them is deleted. lime-1 is unrelated to it.
			v.RemainCount("of four icecreams of kiwi one is deleted", 4)
			for _, i := range v.Shop.All() {
				if slices.Contains(i.Flavour, "kiwi") {
					v.soldOut("soldOut is true on the three icecreams of kiwi that remain", true, i.Name)
				}
			}
		}))).Feature()
}

func placeFrees() types.Feature {
	return features.New("soldOut is false again when a place frees").
		Assess("after one of three was deleted", check.Assess(assess(func(v visit) {
			for _, name := range []string{"melon-1", "melon-2", "melon-3"} {
				v.Make(name, "melon")
			}
			v.soldOut("with three icecreams of melon, soldOut is true", true, "melon-1", "melon-2", "melon-3")
			// The operator's remaining work would hide that it has not seen the deletion.
			v.Settle(v.Ctx, v.T)
			v.OK(v.T, "deleting an icecream", v.Shop.Delete(v.Ctx, "melon-2"))
			v.soldOut("when one of three is deleted, soldOut is false on the other two", false, "melon-1", "melon-3")
		}))).
		Assess("and the place can be taken", check.Assess(assess(func(v visit) {
			v.Make("melon-4", "melon")
			v.Remain("the new third icecream stays", "melon-1", "melon-3", "melon-4")
			v.soldOut("soldOut is true again on all three", true, "melon-1", "melon-3", "melon-4")
		}))).
		Assess("also while the one that was deleted is kept from going", check.Assess(assess(func(v visit) {
			// The finalizer of another controller keeps the icecream in the cluster, with a deletionTimestamp.
			v.OK(v.T, "adding a finalizer", v.Shop.Patch(v.Ctx, "melon-4", `{"metadata":{"finalizers":["example.com/keep"]}}`))
			v.OK(v.T, "deleting an icecream", v.Shop.Delete(v.Ctx, "melon-4"))
			v.soldOut("melon-4 is being deleted and has no place any more, so soldOut is false on the other two",
				false, "melon-1", "melon-3")
			v.OK(v.T, "removing the finalizer", v.Shop.Patch(v.Ctx, "melon-4", `{"metadata":{"finalizers":null}}`))
		}))).Feature()
}
