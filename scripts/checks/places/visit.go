// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package places

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/compare"
	"lva.io/operators/scripts/checks/icecream"
)

// Visit is a check in the shop. Its methods are the vocabulary of checks about places.
type Visit struct {
	*check.Check
	Ctx  context.Context
	T    *testing.T
	Shop *icecream.Shop
}

// Make creates an icecream without toppings, of the given flavours.
func (v *Visit) Make(name string, flavours ...string) icecream.Icecream {
	v.T.Helper()
	created, err := v.Shop.Create(v.Ctx, name, flavours, "sprinkles")
	v.OK(v.T, "creating an icecream", err)
	return created
}

// Remain waits until the shop has exactly these icecreams, each of them reconciled, and then waits for a while in which
// no other icecream may be deleted. It returns false if the operator never comes to rest.
func (v *Visit) Remain(expected string, names ...string) (settled bool) {
	v.T.Helper()
	slices.Sort(names)
	return v.Hold(expected, func(existing []string) bool { return slices.Equal(existing, names) })
}

// RemainBeside is Remain for names that include a crowd. It mentions an icecream of the crowd only if it is gone.
func (v *Visit) RemainBeside(crowd []string, expected string, names ...string) {
	v.T.Helper()
	slices.Sort(names)
	v.HoldBeside(crowd, expected, func(existing []string) bool { return slices.Equal(existing, names) })
}

// RemainCount is Remain if it does not matter which icecreams they are.
func (v *Visit) RemainCount(expected string, count int) {
	v.T.Helper()
	v.Hold(expected, func(existing []string) bool { return len(existing) == count })
}

// Hold is Remain with a function that decides by the names of the existing icecreams.
func (v *Visit) Hold(expected string, want func(existing []string) bool) (settled bool) {
	v.T.Helper()
	return v.HoldBeside(nil, expected, want)
}

// HoldBeside is Hold for names that include a crowd. It mentions an icecream of the crowd only if it is gone.
func (v *Visit) HoldBeside(crowd []string, expected string, want func(existing []string) bool) (settled bool) {
	v.T.Helper()
	look := func() (string, bool) {
		var existing []string
		for _, i := range v.Shop.All() {
			if count := (compare.Fields{i.CountIs(int64(len(i.Topping)))}); !count.Same() {
				return fmt.Sprintf("%s, for %d toppings", count.Observed(), len(i.Topping)), false
			}
			existing = append(existing, i.Name)
		}
		slices.Sort(existing)
		observed := "there are " + List(without(existing, crowd))
		if missing := without(crowd, existing); len(missing) > 0 {
			observed += "; gone are " + List(missing)
		}
		return observed, !v.Shop.Behind() && want(existing)
	}
	v.Eventually(v.Ctx, v.T, expected, v.Shop.Changed, look)
	settled = v.Settle(v.Ctx, v.T)
	if observed, ok := look(); !ok {
		v.Fail(v.T, expected+", and it stays so", observed)
	}
	return settled
}

// ToppingsCount waits until the status has the number of toppings.
func (v *Visit) ToppingsCount(name string, want int64) {
	v.T.Helper()
	wanted := func(i icecream.Icecream) compare.Fields { return compare.Fields{i.CountIs(want)} }
	v.Eventually(v.Ctx, v.T, wanted(icecream.Icecream{Name: name}).Expected(), v.Shop.Changed, func() (string, bool) {
		i, exists := v.Shop.Get(name)
		if !exists {
			return name + " is gone", false
		}
		return wanted(i).Observed(), wanted(i).Same()
	})
}

// NoErrorsForDeletions fails the check if Reconcile returns an error for each icecream that the operator deletes
// because it has no place, although nothing has failed. Other checks test whether and which icecreams are deleted.
func (v *Visit) NoErrorsForDeletions(flavour string) {
	v.T.Helper()
	began, logged := v.Audit.Now(), v.Logged(v.Ctx, v.T)
	var created, gone []string
	for n := range 5 {
		created = append(created, v.Make(fmt.Sprintf("%s-%d", flavour, n+1), flavour).Name)
	}
	v.Settle(v.Ctx, v.T)
	for _, name := range created {
		if deletion := v.deletion(began, name); deletion != nil {
			gone = append(gone, name)
		}
	}
	if len(gone) > 1 {
		v.ErrorsHaveCauses(v.Ctx, v.T, logged, began, gone...)
	}
}

// without returns the names that are not among the others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// List lists the names of icecreams for the observation of a check.
func List(names []string) string {
	if len(names) == 0 {
		return "no icecreams"
	}
	return strings.Join(names, ", ")
}
