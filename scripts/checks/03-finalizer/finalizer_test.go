// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package finalizer_test holds the checks of lab 03: what an icecream takes out of the freezer goes back before the
// icecream does, whatever goes wrong; and a zombie is found and freed by hand. Each check has icecreams of its own and
// begins with an empty parlour. See the lab's README for the rules.
package finalizer_test

import (
	"context"
	"testing"

	"lva.io/operators/scripts/checks/check"
)

func TestFinalizer(t *testing.T) {
	check.Run(t, check.Features{
		"finalizer-added":   finalizerAdded(),
		"taken":             taken(),
		"finalizer-first":   finalizerFirst(),
		"returned":          returned(),
		"toppings-first":    toppingsFirst(),
		"freezer-down":      freezerDown(),
		"backs-off":         backsOff(),
		"condition":         condition(),
		"no-answer":         noAnswer(),
		"killed-between":    killedBetween(),
		"two-at-once":       twoAtOnce(),
		"dying-untouched":   dyingUntouched(),
		"foreign-finalizer": foreignFinalizer(),
		"bad-day":           check.BadDay(assess(scenario)),
		"zombie-explained":  zombieExplained(),
		"zombie-freed":      zombieFreed(),
	}, check.Options{
		Scenario: assess(scenario), Writes: 20, Reads: 10,
		Prepare: func(ctx context.Context, suite *check.Suite) (context.Context, error) {
			p, err := open(ctx, suite.Config)
			if err != nil {
				return nil, err
			}
			suite.Lag = p.Lag
			return context.WithValue(ctx, parlourKey{}, p), nil
		},
		CleanUp: func(ctx context.Context) error { return parlourOf(ctx).Empty(ctx) },
	})
}

type parlourKey struct{}

func parlourOf(ctx context.Context) *parlour { return ctx.Value(parlourKey{}).(*parlour) }
