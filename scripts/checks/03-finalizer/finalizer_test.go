// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package finalizer_test has the checks of lab 03, which test that an operator returns all ingredients to the freezer
// before an icecream is deleted, despite all failures, and that the student finds and frees a zombie by hand. Each
// check has its own icecreams and begins with an empty parlour. See the lab's README for the rules.
package finalizer_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/places"
	"lva.io/operators/scripts/checks/story"
)

func TestFinalizer(t *testing.T) {
	check.Run(t, check.Features{
		"served": icecream.Served(),
		"sample": icecream.Sample(),

		"finalizer-added":   finalizerAdded(),
		"taken":             ingredientsTaken(),
		"movement-id":       movementID(),
		"finalizer-first":   finalizerFirst(),
		"returned":          returned(),
		"toppings-first":    toppingsFirst(),
		"freezer-down":      freezerDown(),
		"backs-off":         backsOff(),
		"condition":         condition(),
		"no-answer":         noAnswer(),
		"killed-between":    killedBetween(),
		"settles":           settles(),
		"two-at-once":       twoAtOnce(),
		"dying-untouched":   dyingUntouched(),
		"foreign-finalizer": foreignFinalizer(),
		"old-news":          places.OldNews(shopOf),
		"story":             story.Check(rules, shopOf),
		"bad-day":           check.BadDay(assess(scenario), check.Assess(assess(refusals))),
		"least-privilege":   icecream.RoleFits("update", "patch"),
		"zombie-explained":  zombieExplained(),
		"zombie-freed":      zombieFreed(),
	}, check.Options{
		Scenario: assess(scenario), Writes: 20, Reads: 10,
		Scenes: []check.Scene{{Name: "the operator starts with an old list", Play: assess(oldList)}},
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

// rules are the requirements of this lab for each icecream of a story.
var rules = story.Rules{
	Finalizer: finalizer,
	Books:     true,
	Also: func(object *unstructured.Unstructured) (expected, observed string) {
		now := view(object)
		condition := settledIs(metav1.ConditionTrue, now)
		place := fmt.Sprintf("in the condition Settled of %s, ", now.name)
		if condition.Same() {
			return "", ""
		}
		return place + condition.Expected(), place + condition.Observed()
	},
}

type parlourKey struct{}

func parlourOf(ctx context.Context) *parlour { return ctx.Value(parlourKey{}).(*parlour) }

func shopOf(ctx context.Context) *icecream.Shop { return parlourOf(ctx).Shop }
