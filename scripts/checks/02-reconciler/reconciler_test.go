// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package reconciler_test has the checks of lab 02. A flavour has three places. See the lab's README for the rules.
// Each check has its own flavours and begins with an empty shop.
package reconciler_test

import (
	"context"
	"testing"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/places"
	"lva.io/operators/scripts/checks/story"
)

func TestReconciler(t *testing.T) {
	check.Run(t, check.Features{
		"served": icecream.Served(),
		"sample": icecream.Sample(),

		"toppings-count":     toppingsCount(),
		"three-stay":         threePerFlavour(),
		"newest-goes":        newestDeleted(),
		"ties-by-name":       tiesByName(),
		"per-flavour":        perFlavour(),
		"two-flavours":       twoFlavours(),
		"sold-out":           soldOut(),
		"place-frees":        placeFrees(),
		"burst":              burst(),
		"restart":            restart(),
		"old-news":           places.OldNews(shopOf),
		"story":              story.Check(story.Rules{}, shopOf),
		"settles":            settles(),
		"status-subresource": statusSubresource(),
		"role-suffices":      check.RoleSuffices(),
		"least-privilege":    icecream.LeastPrivilege(),
		"bad-day":            check.BadDay(assess(scenario), check.Assess(assess(conflicts)), check.Assess(assess(refusals))),
	}, check.Options{
		Scenario: assess(scenario), Writes: 8, Reads: 2,
		Prepare: func(ctx context.Context, suite *check.Suite) (context.Context, error) {
			shop, err := icecream.Open(ctx, suite.Config)
			if err != nil {
				return nil, err
			}
			suite.Lag = shop.Lag
			return context.WithValue(ctx, shopKey{}, shop), nil
		},
		CleanUp: func(ctx context.Context) error { return shopOf(ctx).Empty(ctx) },
	})
}

type shopKey struct{}

func shopOf(ctx context.Context) *icecream.Shop { return ctx.Value(shopKey{}).(*icecream.Shop) }
