// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package webhook_test has the checks of lab 04, which test how requests are defaulted and validated before they are
// stored. Most requests are dry runs, so that the rules of lab 02 do not affect them.
package webhook_test

import (
	"context"
	"errors"
	"testing"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
)

func TestWebhook(t *testing.T) {
	check.Run(t, check.Features{
		"served": icecream.Served(),
		"sample": icecream.Sample(),

		"denies":       denies(),
		"allows":       allows(),
		"names":        names(),
		"all-at-once":  allAtOnce(),
		"on-update":    onUpdate(),
		"defaults":     defaults(),
		"keeps":        keeps(),
		"idempotent":   idempotent(),
		"warns":        warns(),
		"old-objects":  oldObjects(),
		"dry-run":      dryRun(),
		"fails-closed": failsClosed(),
		"policy":       policy(),
		"bad-day":      check.BadDay(assess(scenario)),

		"least-privilege": icecream.LeastPrivilege(),
	}, check.Options{Prepare: prepare, CleanUp: cleanUp, Scenario: assess(scenario), Writes: 9, Reads: 2})
}

// clients are the clients of these checks for the API server.
type clients struct {
	shop      *icecream.Shop
	admission *admission.Client
}

type clientsKey struct{}

func clientsOf(ctx context.Context) clients { return ctx.Value(clientsKey{}).(clients) }

func prepare(ctx context.Context, suite *check.Suite) (context.Context, error) {
	shop, err := icecream.Open(ctx, suite.Config)
	if err != nil {
		return nil, err
	}
	suite.Lag = shop.Lag
	client, err := admission.NewClient(suite.Config)
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, clientsKey{}, clients{shop: shop, admission: client}), nil
}

// cleanUp empties the shop. If webhooks would block the deletion of an icecream, it removes them.
func cleanUp(ctx context.Context) error {
	c := clientsOf(ctx)
	if c.shop.Empty(ctx) == nil {
		return nil
	}
	webhooks, err := c.admission.Webhooks(ctx, icecream.Resource.GroupResource())
	if err != nil {
		return err
	}
	return errors.Join(c.admission.Withdraw(ctx, webhooks), c.shop.Empty(ctx), c.admission.Register(ctx, webhooks))
}
