// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/services/freezer"
)

func TestAssign(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		icecreams string // in the order of age; a hyphen separates two of the same second
		holders   string
		soldOut   string
	}{
		{name: "nobody"},
		{name: "three stay", icecreams: "a:v b:v c:v", holders: "a b c", soldOut: "v"},
		{name: "of four the newest is deleted", icecreams: "d:v c:v b:v a:v", holders: "b c d", soldOut: "v"},
		{name: "of one second the last by name is deleted", icecreams: "d:v-c:v-b:v-a:v", holders: "a b c", soldOut: "v"},
		{name: "whole names are compared", icecreams: "a:v b:v c:v d:V e:vv", holders: "a b c d e", soldOut: "v"},
		{name: "several flavours need a place in each", icecreams: "a:v b:v c:v d:m,v", holders: "a b c", soldOut: "v"},
		{
			name:      "without a place none is taken",
			icecreams: "a:v b:v c:v d:m,v e:m f:m g:m",
			holders:   "a b c e f g",
			soldOut:   "m v",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var icecreams []icecream.Icecream
			for second, group := range strings.Fields(test.icecreams) {
				for one := range strings.SplitSeq(group, "-") {
					name, flavours, _ := strings.Cut(one, ":")
					icecreams = append(icecreams, icecream.Icecream{
						Name: name, Created: time.Unix(int64(second), 0), Flavour: strings.Split(flavours, ","),
					})
				}
			}
			rand.Shuffle(len(icecreams), func(a, b int) { icecreams[a], icecreams[b] = icecreams[b], icecreams[a] })
			places := Assign(icecreams)
			if got := places.Holders(); !slices.Equal(got, strings.Fields(test.holders)) {
				t.Errorf("Holders() = %v, want %s", got, test.holders)
			}
			for _, flavour := range []string{"m", "v", "V", "vv"} {
				if got := places.SoldOut([]string{"x", flavour}); got != slices.Contains(strings.Fields(test.soldOut), flavour) {
					t.Errorf("SoldOut(%s) = %t", flavour, got)
				}
			}
		})
	}
}

func TestBooks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, moved, out, wrong, flavourFirst string
	}{
		{name: "nothing"},
		{name: "taken", moved: "out topping cream;out flavour cream", out: "flavour cream;topping cream"},
		{name: "returned", moved: "out topping cream;in topping cream"},
		{name: "taken again", moved: "out topping cream;in topping cream;out topping cream", out: "topping cream"},
		{
			name: "taken twice", moved: "out topping cream;out topping cream",
			out: "topping cream;topping cream", wrong: "topping cream was taken twice",
		},
		{
			name: "returned twice", moved: "out topping cream;in topping cream;in topping cream",
			wrong: "topping cream was returned once more than it was taken",
		},
		{
			name:         "flavours first",
			moved:        "out topping a;out flavour b;in flavour b;in topping a",
			flavourFirst: "flavour b before topping a",
		},
		{name: "exchanged before", moved: "out flavour b;in flavour b;out topping a;in topping a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var account Account
			for _, words := range split(test.moved) {
				part := strings.Fields(words)
				account = append(account, freezer.Movement{
					Direction:  part[0],
					Ingredient: freezer.Ingredient{Kind: part[1], Ingredient: part[2]},
				})
			}
			if got := account.Out(); !slices.Equal(got, split(test.out)) {
				t.Errorf("Out() = %q, want %q", got, test.out)
			}
			if got := account.Wrong(); got != test.wrong {
				t.Errorf("Wrong() = %q, want %q", got, test.wrong)
			}
			got := ""
			if flavour, topping := account.FlavourFirst(); flavour != "" {
				got = flavour + " before " + topping
			}
			if got != test.flavourFirst {
				t.Errorf("FlavourFirst() = %q, want %q", got, test.flavourFirst)
			}
			if got := account.Movements(); !slices.Equal(got, split(test.moved)) {
				t.Errorf("Movements() = %q", got)
			}
		})
	}
	due := Due([]string{"flavour v", "topping a"}, []string{"flavour v", "topping b"})
	if want := []string{"in topping a", "out topping b"}; !slices.Equal(due, want) {
		t.Errorf("Due() = %q, want %q", due, want)
	}
	// A topping and a flavour with the same name are two ingredients.
	wanted := Wanted(icecream.Icecream{Flavour: []string{"v", "cream"}, Topping: []string{"cream"}})
	if want := []string{"flavour cream", "flavour v", "topping cream"}; !slices.Equal(wanted, want) {
		t.Errorf("Wanted() = %q, want %q", wanted, want)
	}
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ";")
}

func TestSeedRepeatsStory(t *testing.T) {
	t.Parallel()
	if !reflect.DeepEqual(Draw(7), Draw(7)) {
		t.Error("Draw() of one seed returns two stories")
	}
	if Draw(7).String() == Draw(8).String() {
		t.Error("Draw() of two seeds returns the same story")
	}
}

// rehearse plays a story without an operator. Its clock advances by a second at each create for which tick returns
// true. rehearse calls seen with the model after each action of a phase in which the operator runs, and after each
// phase.
func rehearse(story Story, tick func() bool, seen func(w *World, phase, action int)) *World {
	w, now := newWorld(), time.Unix(0, 0)
	for n, phase := range story {
		if phase.Later {
			now = now.Add(time.Second)
		}
		for i, action := range phase.Actions {
			if !w.possible(action) {
				continue
			}
			if action.Do == Create {
				if tick() {
					now = now.Add(time.Second)
				}
				w.create(action, fmt.Sprintf("uid-%s", action.Name), now)
			} else {
				w.change(action)
			}
			if !phase.Away {
				seen(w, n, i)
			}
		}
		w.settle(phase.Away)
		seen(w, n, -1)
	}
	return w
}

// TestStoriesHaveOneOutcome checks that an icecream without a place at one moment of a phase has none at the end of the
// phase. So it does not matter when the operator looks: it may delete only icecreams that are deleted anyway, and since
// these take no places, their absence gives no other icecream a place.
func TestStoriesHaveOneOutcome(t *testing.T) {
	t.Parallel()
	for seed := range uint32(400) {
		story := Draw(seed)
		if seed%3 == 1 { // parts of stories must have one outcome, too
			story = story.about(slices.DeleteFunc(story.names(), func(name string) bool { return len(name)%2 == 0 }))
		}
		dice := rand.New(rand.NewPCG(uint64(seed), 0))
		tick := func() bool { return dice.IntN(12) == 0 }
		if seed%2 == 0 {
			tick = func() bool { return false }
		}
		var without []string
		rehearse(story, tick, func(w *World, phase, action int) {
			var now []string
			places := Assign(w.living())
			for _, i := range w.living() {
				if !places.Has(i.Name) {
					now = append(now, i.Name)
				}
			}
			for _, name := range without {
				if action >= 0 && !slices.Contains(now, name) {
					t.Fatalf("seed %d, phase %d: %s had no place, and has one after: %s",
						seed, phase, name, story[phase].Actions[action])
				}
			}
			without = now
		})
	}
}

// TestStoriesCoverAllActions checks that each story has all the situations that stories must cover.
func TestStoriesCoverAllActions(t *testing.T) {
	t.Parallel()
	for seed := range uint32(200) {
		story := Draw(seed)
		lost, most, dyingHeld := 0, 0, 0
		rehearse(story, func() bool { return false }, func(w *World, _, action int) {
			if action >= 0 {
				return
			}
			most = max(most, len(w.living()))
			lost, dyingHeld = 0, 0
			for _, o := range w.sorted() {
				if o.why != "" {
					lost++
				}
				if o.state == dying {
					dyingHeld++
				}
			}
		})
		if most <= 26 || lost < 8 || dyingHeld < 4 {
			t.Errorf("seed %d: at most %d icecreams live at once, %d lose their place, %d are held in the end",
				seed, most, lost, dyingHeld)
		}
		for _, kind := range []Kind{Create, ChangeFlavour, ChangeTopping, Label, Delete, Hold, Release, Forge, Forget} {
			if !slices.ContainsFunc(slices.Concat(actionsOf(story)...), func(d Action) bool { return d.Do == kind }) {
				t.Errorf("seed %d: the story has no action of this kind: %s", seed, kind)
			}
		}
	}
}

func actionsOf(story Story) (actions [][]Action) {
	for _, phase := range story {
		actions = append(actions, phase.Actions)
	}
	return actions
}

func TestShrinkFindsTheSmallestPart(t *testing.T) {
	t.Parallel()
	var all []int
	for n := range 60 {
		all = append(all, n)
	}
	tries := 0
	got := shrink(all, func(part []int) bool {
		tries++
		return slices.Contains(part, 7) && slices.Contains(part, 8) && slices.Contains(part, 51)
	})
	if !slices.Equal(got, []int{7, 8, 51}) || tries > 80 {
		t.Errorf("shrink() after %d tries = %v", tries, got)
	}
	if got := shrink(all, func([]int) bool { return false }); !slices.Equal(got, all) {
		t.Errorf("shrink() = %v, want all items", got)
	}
}

func TestShortenKeepsFailure(t *testing.T) {
	t.Parallel()
	// This operator treats flavours that differ only in case as one. With four such icecreams, it deletes one that has a
	// place.
	fails := func(part Story) bool {
		w := rehearse(part, func() bool { return false }, func(*World, int, int) {})
		counts := map[string]int{}
		for _, i := range w.living() {
			for _, flavour := range i.Flavour {
				counts[strings.ToLower(flavour)]++
			}
		}
		for _, count := range counts {
			if count > PerFlavour {
				return true
			}
		}
		return false
	}
	shortened := func(seed uint32) (shortest Story) {
		story := Draw(seed)
		if !fails(story) {
			t.Fatalf("the story of seed %d does not fail", seed)
		}
		shorten(story, "", func(part Story) bool {
			if !fails(part) {
				return false
			}
			shortest = part
			return true
		})
		return shortest
	}
	// The remaining steps depend on the story: an icecream may be created with the flavour, or change to it. But each step
	// is necessary.
	for seed := range uint32(60) {
		shortest := shortened(seed)
		for n := range shortest.countActions() {
			left := -1
			if less := shortest.keep(func(Action) bool { left++; return left != n }); fails(less) {
				t.Errorf("seed %d: step %d of %s is not needed", seed, n+1, shortest)
			}
		}
	}
	shortest := shortened(5)
	if got := shortest.countActions(); got != PerFlavour+1 {
		t.Errorf("the shortest story has %d steps, want four: %s", got, shortest)
	}
	if text := shortest.String(); strings.Count(text, "create ") != PerFlavour+1 {
		t.Errorf("the shortest story is %s", text)
	}
}
