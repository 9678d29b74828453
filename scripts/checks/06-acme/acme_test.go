// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package acme_test has the checks of lab 06: the student proves names by hand, cert-manager proves one, and the
// student's script reports the objects that cert-manager creates in the meantime. ACME is slow, so everything is
// ordered before the first check: see open.
package acme_test

import (
	"context"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func TestACME(t *testing.T) {
	check.Run(t, check.Features{
		"reached":            feature(reached),
		"key-authorizations": feature(keyAuthorizations),
		"authorized":         feature(authorized),
		"issuer":             feature(issuer),
		"issued":             feature(issued),
		"page":               feature(page),
		"explained":          feature(explained),
		"order-found":        feature(orderFound),
		"solver-found":       feature(solverFound),
		"account-found":      feature(accountFound),
		"second-order":       feature(secondOrder),
		"failing-name":       feature(failingName),
	}, check.Options{Prepare: open})
}

// visit is a check of the scene.
type visit struct {
	*check.Check
	*scene
	ctx context.Context
	t   *testing.T
}

func feature(step func(visit)) types.Feature {
	return features.New("of the lab").
		Assess("as the task says", check.Assess(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			step(visit{Check: c, scene: ctx.Value(sceneKey{}).(*scene), ctx: ctx, t: t})
		})).Feature()
}
