// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
)

// shrinkTime limits how long a failed story is shrunk.
const shrinkTime = 8 * time.Second

// Check is a check that plays the story of the run's seed, and compares every icecream with the model after each phase.
// If the suite plays more stories, it plays those of the next seeds as well.
func Check(rules Rules, shop func(context.Context) *icecream.Shop) types.Feature {
	return features.New("a story from the run's seed").
		Assess("ends as the rules say, for every icecream",
			check.Assess(func(ctx context.Context, t *testing.T, c *check.Check) {
				t.Helper()
				player := &player{Check: c, Rules: rules, shop: shop(ctx)}
				for n := range max(1, c.Stories) {
					player.play(ctx, t, c.Seed+uint32(n))
				}
			})).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Operator.Start(ctx) })).Feature()
}

// player plays stories, and reports the smallest one that fails.
type player struct {
	*check.Check
	Rules
	shop *icecream.Shop
}

// attempt is the result of a story that was played.
type attempt struct {
	story   Story
	failure *check.Failure
	wrong   mismatch
}

func (k *player) play(ctx context.Context, t *testing.T, seed uint32) {
	t.Helper()
	whole := Draw(seed)
	failed := k.try(ctx, t, whole, patience)
	if failed.failure == nil {
		return
	}
	tries, end := 0, time.Now().Add(shrinkTime)
	fails := func(smaller Story) bool {
		if time.Now().After(end) || ctx.Err() != nil || len(smaller) == 0 {
			return false
		}
		tries++
		again := k.try(ctx, t, smaller, hurry)
		if again.failure == nil {
			return false
		}
		failed = again
		return true
	}
	shorten(whole, failed.wrong.name, fails)
	evidence := append([]string{fmt.Sprintf("the story of seed %d has %d steps; "+
		"this is the shortest part of it that was found to fail, in %d tries",
		seed, whole.countActions(), tries)}, failed.failure.Evidence...)
	expected, observed := failed.wrong.expected, failed.failure.Observed
	if expected == "" { // it failed before the comparison
		expected = failed.failure.Expected
	}
	k.Fail(t, fmt.Sprintf("%s: then %s", failed.story, expected), observed, evidence...)
}

// shorten looks for a part of a story that also fails. It begins with the actions that concern one icecream.
func shorten(story Story, name string, fails func(Story) bool) {
	if slices.Contains(story.names(), name) {
		var kin []string
		for _, other := range story.names() {
			if other == name || slices.ContainsFunc(story.flavours(other), func(f string) bool {
				return slices.Contains(story.flavours(name), f)
			}) {
				kin = append(kin, other)
			}
		}
		for _, names := range [][]string{{name}, kin} {
			if part := story.about(names); fails(part) {
				story = part
				break
			}
		}
	}
	names := shrink(story.names(), func(names []string) bool { return fails(story.about(names)) })
	story = story.about(names)
	var actions []*Action
	for _, phase := range story {
		for i := range phase.Actions {
			actions = append(actions, &phase.Actions[i])
		}
	}
	only := func(kept []*Action) Story {
		var part Story
		for _, phase := range story {
			smaller := Phase{Away: phase.Away, Later: phase.Later}
			for i := range phase.Actions {
				if slices.Contains(kept, &phase.Actions[i]) {
					smaller.Actions = append(smaller.Actions, phase.Actions[i])
				}
			}
			if len(smaller.Actions) > 0 {
				part = append(part, smaller)
			}
		}
		return part
	}
	shrink(actions, func(kept []*Action) bool { return fails(only(kept)) })
}

// try plays a story in a shop that is empty before and after it.
func (k *player) try(ctx context.Context, t *testing.T, story Story, patience time.Duration) attempt {
	t.Helper()
	p := &play{Rules: k.Rules, shop: k.shop, patience: patience, world: newWorld()}
	failure := k.Try(ctx, t, fmt.Sprintf("%d steps", story.countActions()),
		func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			p.Check, p.ctx, p.t = c, ctx, t
			p.story(story)
		})
	k.OK(t, "emptying the shop", errors.Join(p.end(ctx)))
	return attempt{story: story, failure: failure, wrong: p.wrong}
}
