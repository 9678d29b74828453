// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reconciler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/compare"
	"lva.io/operators/scripts/checks/icecream"
)

// visit is a check in the shop: the words in which the checks of this lab are written.
type visit struct {
	*check.Check
	ctx  context.Context
	t    *testing.T
	shop *icecream.Shop
}

// assess makes a step of a feature from what a visitor of the shop does.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		step(visit{Check: c, ctx: ctx, t: t, shop: shopOf(ctx)})
	}
}

// make creates an icecream without toppings, of the given flavours.
func (v visit) make(name string, flavours ...string) icecream.Icecream {
	v.t.Helper()
	made, err := v.shop.Create(v.ctx, name, flavours, "sprinkles")
	v.OK(v.t, "creating an icecream", err)
	return made
}

// nextSecond waits until icecreams made from now on are younger than this one: creation times have whole seconds.
func (v visit) nextSecond(than icecream.Icecream) {
	v.t.Helper()
	select {
	case <-time.After(time.Until(than.Created.Add(time.Second))):
	case <-v.ctx.Done():
		v.OK(v.t, "waiting for the next second", context.Cause(v.ctx))
	}
}

// remain waits until the shop has exactly these icecreams, each of them reconciled, and then for a while during which
// nothing more may go. It reports false if the operator never comes to rest.
func (v visit) remain(expected string, names ...string) (settled bool) {
	v.t.Helper()
	slices.Sort(names)
	return v.hold(expected, func(there []string) bool { return slices.Equal(there, names) })
}

// remainBeside is remain where those of a crowd, which are among the names, are spoken of only if they are gone.
func (v visit) remainBeside(crowd []string, expected string, names ...string) {
	v.t.Helper()
	slices.Sort(names)
	v.holdBeside(crowd, expected, func(there []string) bool { return slices.Equal(there, names) })
}

// remainCount is remain where it does not matter which icecreams they are.
func (v visit) remainCount(expected string, count int) {
	v.t.Helper()
	v.hold(expected, func(there []string) bool { return len(there) == count })
}

func (v visit) hold(expected string, want func(there []string) bool) (settled bool) {
	v.t.Helper()
	return v.holdBeside(nil, expected, want)
}

func (v visit) holdBeside(crowd []string, expected string, want func(there []string) bool) (settled bool) {
	v.t.Helper()
	look := func() (string, bool) {
		var there []string
		for _, i := range v.shop.All() {
			if count := (compare.Fields{i.CountIs(int64(len(i.Topping)))}); !count.Same() {
				return fmt.Sprintf("%s, for %d toppings", count.Observed(), len(i.Topping)), false
			}
			there = append(there, i.Name)
		}
		slices.Sort(there)
		observed := "there are " + list(without(there, crowd))
		if missing := without(crowd, there); len(missing) > 0 {
			observed += "; gone are " + list(missing)
		}
		return observed, !v.shop.Behind() && want(there)
	}
	v.Eventually(v.ctx, v.t, expected, v.shop.Changed, look)
	settled = v.Settle(v.ctx, v.t)
	if observed, ok := look(); !ok {
		v.Fail(v.t, expected+", and it stays so", observed)
	}
	return settled
}

// soldOut waits until soldOut is as wanted on each of these icecreams.
func (v visit) soldOut(expected string, want bool, names ...string) {
	v.t.Helper()
	v.Eventually(v.ctx, v.t, expected, v.shop.Changed, func() (string, bool) {
		for _, name := range names {
			i, there := v.shop.Get(name)
			if !there {
				return name + " is gone", false
			}
			if soldOut := (compare.Fields{i.SoldOutIs(want)}); !soldOut.Same() {
				return soldOut.Observed(), false
			}
		}
		return "", true
	})
}

// without are the names that are not among the others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

func list(names []string) string {
	if len(names) == 0 {
		return "no icecreams"
	}
	return strings.Join(names, ", ")
}
