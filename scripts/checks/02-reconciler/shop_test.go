// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reconciler_test

import (
	"context"
	"testing"
	"time"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/compare"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/places"
)

// visit is a check in the shop, with the methods that only this lab needs.
type visit struct{ *places.Visit }

// assess makes a step of a feature from a function that uses the shop.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		step(visit{&places.Visit{Check: c, Ctx: ctx, T: t, Shop: shopOf(ctx)}})
	}
}

// nextSecond waits until icecreams that are created from now on are younger than this one, because creation times have
// whole seconds.
func (v visit) nextSecond(than icecream.Icecream) {
	v.T.Helper()
	v.Pause(v.Ctx, v.T, time.Until(than.Created.Add(time.Second)))
}

// soldOut waits until soldOut is as wanted on each of these icecreams.
func (v visit) soldOut(expected string, want bool, names ...string) {
	v.T.Helper()
	v.Eventually(v.Ctx, v.T, expected, v.Shop.Changed, func() (string, bool) {
		for _, name := range names {
			i, exists := v.Shop.Get(name)
			if !exists {
				return name + " is gone", false
			}
			if soldOut := (compare.Fields{i.SoldOutIs(want)}); !soldOut.Same() {
				return soldOut.Observed(), false
			}
		}
		return "", true
	})
}
