// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reconciler_test

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/places"
	"lva.io/operators/scripts/checks/story"
)

func threePerFlavour() types.Feature {
	return features.New("three of a flavour stay").
		Assess("after three were made", check.Assess(assess(func(v visit) {
			v.Make("hazel-1", "hazelnut")
			v.Make("hazel-2", "hazelnut")
			v.Make("hazel-3", "hazelnut")
			v.Remain("the three hazelnut icecreams stay: hazel-1, hazel-2, hazel-3", "hazel-1", "hazel-2", "hazel-3")
		}))).Feature()
}

func newestDeleted() types.Feature {
	return features.New("of four the newest is deleted").
		Assess("though its name sorts first, and in a crowd", check.Assess(assess(func(v visit) {
			crowd := v.crowd()
			// There are three flavours, with others around them: an operator that deletes the last icecream of its list can't
			// pass by chance.
			flavours := []string{"guava", "mango", "papaya"}
			var last icecream.Icecream
			stay := slices.Clone(crowd)
			for _, flavour := range flavours {
				for _, letter := range []string{"-c", "-b", "-d"} {
					last = v.Make(flavour+letter, flavour)
					stay = append(stay, last.Name)
				}
			}
			v.nextSecond(last)
			for _, flavour := range flavours {
				v.Make(flavour+"-a", flavour)
			}
			v.RemainBeside(crowd, "of four icecreams of guava, of mango and of papaya the newest is deleted, "+
				"guava-a, mango-a and papaya-a, and all others stay", stay...)
		}))).Feature()
}

// crowd creates icecreams that each have their own flavour, so that all of them stay.
func (v visit) crowd() (names []string) {
	v.T.Helper()
	for n := range 9 {
		// Some names sort before those of the others, and some sort after them.
		name := fmt.Sprintf("%s-guest-%d", []string{"a", "h", "z"}[n%3], n)
		v.Make(name, name)
		names = append(names, name)
	}
	return names
}

func tiesByName() types.Feature {
	return features.New("of equal age the last names go").
		Assess("though they were made first", check.Assess(assess(func(v visit) {
			// All icecreams must be created within one second. If the clock ticks in between, the attempt is repeated.
			for attempt := range 10 {
				name := func(flavour string, n int) string { return fmt.Sprintf("%s-%d-%d", flavour, attempt, n) }
				var first, last icecream.Icecream
				var stay []string
				for n := 6; n > 0; n-- {
					for _, flavour := range []string{"lemon", "lime"} {
						last = v.Make(name(flavour, n), flavour)
						if first.Name == "" {
							first = last
						}
						if n <= story.PerFlavour {
							stay = append(stay, last.Name)
						}
					}
				}
				if last.Created.Equal(first.Created) {
					v.Remain("of six icecreams of lemon and six of lime, all made in the same second, "+
						"the three of each stay whose names sort first: "+
						places.List(slices.Sorted(slices.Values(stay))), stay...)
					return
				}
				v.OK(v.T, "emptying the shop", v.Shop.Empty(v.Ctx))
			}
			v.Fail(v.T, "twelve icecreams can be made within a second", "ten times they could not: the machine is too busy")
		}))).Feature()
}

func perFlavour() types.Feature {
	return features.New("each flavour is counted on its own").
		Assess("three of one and two of another stay", check.Assess(assess(func(v visit) {
			names := []string{"date-1", "date-2", "date-3", "olive-1", "olive-2"}
			for _, name := range names {
				v.Make(name, name[:len(name)-2])
			}
			v.Remain("three icecreams of date and two of olive stay, since each flavour is counted on its own", names...)
		}))).Feature()
}

func twoFlavours() types.Feature {
	return features.New("an icecream of two flavours counts for both").
		Assess("it takes a place of each", check.Assess(assess(func(v visit) {
			// The icecream with both flavours is neither the first nor the last by name. So it stays in whatever order icecreams
			// of the same second get places: other checks judge that order.
			five := []string{"a-fig", "a-plum", "c-plum-fig", "d-fig", "d-plum"}
			for _, name := range five {
				v.Make(name, strings.Split(name, "-")[1:]...)
			}
			v.Remain("two of plum, two of fig and one of both stay", five...)
			v.Make("y-plum", "plum")
			v.Make("z-fig", "fig")
			v.Hold("c-plum-fig takes a place of plum and one of fig, so one of four of plum is deleted, and one of four of fig",
				func(existing []string) bool {
					return len(existing) == 5 && slices.Contains(existing, "c-plum-fig") &&
						countFlavour(existing, "plum") == story.PerFlavour &&
						countFlavour(existing, "fig") == story.PerFlavour
				})
		}))).Feature()
}

// countFlavour counts the icecreams with the flavour in their names.
func countFlavour(names []string, flavour string) (count int) {
	for _, name := range names {
		if strings.Contains(name, flavour) {
			count++
		}
	}
	return count
}

func burst() types.Feature {
	const icecreams, flavours = 30, 5
	return features.New("thirty at once end right").
		Assess("three of each flavour are left", check.Assess(assess(func(v visit) {
			created := make([]icecream.Icecream, icecreams)
			var all errgroup.Group
			for n := range icecreams {
				all.Go(func() (err error) {
					// The names sort in another order than that of creation.
					name := fmt.Sprintf("burst-%02d", (n*7)%icecreams)
					created[n], err = v.Shop.Create(v.Ctx, name, []string{fmt.Sprintf("burst-flavour-%d", n%flavours)}, "sprinkles")
					return err
				})
			}
			v.OK(v.T, "creating thirty icecreams at once", all.Wait())
			v.Remain("of six icecreams of each of five flavours the three oldest stay (of the same second, by name)",
				story.Assign(created).Holders()...)
		}))).Feature()
}
