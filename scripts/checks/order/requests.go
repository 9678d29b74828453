// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// offMenu holds flavours that the shop does not sell: near misses of the menu, and texts that expressions and formats
// interpret. Each of them is tried for every seed.
var offMenu = []string{
	"matcha", "mud", "v", "Vanilla", "VANILLA", "vaniLla", "vanill", "anilla", "vanillas",
	"vanilla ", " vanilla", " vanilla ", "vanilla\u00a0",
	"van illa", "vanilla.", "vanilla,", "vanilla,chocolate",
	"vanilla chocolate", "vanilla, chocolate, strawberry", "vanilla|chocolate",
	"chocolate chip", "dark chocolate", "choco", "late", "Chocolate",
	"straw", "berry", "Strawberry", "strawberry-2", "ſtrawberry", "vаnilla",
	"ｖanilla", "vanilla\u200b", "van.*", ".*", "(vanilla)", "^vanilla$",
	"vanill.", "[vanilla]", "'vanilla'", `"vanilla"`, `vanilla\`,
	"%s", "50%", "$flavour", "{}", "*", "null", "true", "0", "-", "抹茶", "🍦",
}

// permutations are all lists of flavours of the menu, the shortest first.
var permutations = func() (all [][]string) {
	lists := [][]string{{}}
	for range Menu {
		var longer [][]string
		for _, list := range lists {
			for _, flavour := range Menu {
				if !slices.Contains(list, flavour) {
					longer = append(longer, append(slices.Clone(list), flavour))
				}
			}
		}
		all, lists = append(all, longer...), longer
	}
	return all
}()

// These are the numbers of requests of a kind that must be drawn, so that they include all cases that must not depend
// on chance.
var (
	OnMenus     = len(permutations)
	OffMenus    = UnsoldFlavours + 8
	Incompletes = 2 * len(incomplete)
	Changes     = 4 * ChangeKinds
	// UnsoldFlavours is the number of flavours that are tried and not sold.
	UnsoldFlavours = len(offMenu)
	// ChangeKinds is the number of different kinds of changes of a spec.
	ChangeKinds = len(changes)
)

// OnMenu draws a complete spec that is accepted.
func OnMenu(random *rand.Rand, number int) Spec {
	return Spec{Flavour: slices.Clone(permutations[number%len(permutations)]), Topping: toppings(random)}
}

// toppings returns one to three toppings with any names.
func toppings(random *rand.Rand) []string { return names(random, 1+random.IntN(MaxToppings)) }

// OffMenu draws a complete spec with a flavour that is not sold. The first numbers have each such flavour as the only
// one. Beside another flavour, a webhook that accepts it would go unnoticed. From UnsoldFlavours on, a spec has up to
// that many such flavours.
func OffMenu(random *rand.Rand, number, wrong int) Spec {
	flavours := []string{offMenu[number%len(offMenu)]}
	for more := random.IntN(wrong); number >= UnsoldFlavours && more > 0; more-- {
		if flavour := offMenu[random.IntN(len(offMenu))]; !slices.Contains(flavours, flavour) {
			flavours = append(flavours, flavour)
		}
	}
	flavours = append(flavours, Menu[:random.IntN(len(Menu)+1)]...)
	shuffle(random, flavours)
	return Spec{Flavour: flavours, Topping: toppings(random)}
}

func shuffle(random *rand.Rand, list []string) {
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// incomplete are functions that leave something out of a spec.
var incomplete = []func(*Spec){
	func(s *Spec) { s.Topping = nil },
	func(s *Spec) { s.Topping = []string{} },
	func(s *Spec) { s.Flavour = nil },
	func(s *Spec) { s.Flavour = []string{} },
	func(s *Spec) { s.Flavour, s.Topping = nil, nil },
	func(s *Spec) { s.Flavour, s.Topping = []string{}, []string{} },
	func(s *Spec) { s.Flavour, s.Topping = nil, []string{} },
	func(s *Spec) { *s = Spec{Absent: true} },
}

// Incomplete draws a spec that leaves out a field, or has an empty list.
func Incomplete(random *rand.Rand, number int) Spec {
	s := OnMenu(random, random.IntN(len(permutations)))
	incomplete[number%len(incomplete)](&s)
	return s
}

// changes are functions that change a spec.
var changes = []func(*rand.Rand, Spec) Spec{
	func(_ *rand.Rand, s Spec) Spec { return s }, // perhaps a label changes
	func(random *rand.Rand, s Spec) Spec { return Spec{Flavour: s.Flavour, Topping: toppings(random)} },
	func(_ *rand.Rand, s Spec) Spec { return Spec{Flavour: s.Flavour} },
	func(_ *rand.Rand, s Spec) Spec {
		return Spec{Flavour: slices.Concat(s.Flavour[1:], s.Flavour[:1]), Topping: s.Topping}
	},
	func(random *rand.Rand, s Spec) Spec {
		flavours := slices.Clone(s.Flavour)
		shuffle(random, flavours)
		return Spec{Flavour: flavours, Topping: toppings(random)}
	},
	func(random *rand.Rand, _ Spec) Spec { return OnMenu(random, random.IntN(len(permutations))) },
	func(random *rand.Rand, _ Spec) Spec { return OffMenu(random, random.IntN(len(offMenu)), 3) },
	func(random *rand.Rand, s Spec) Spec { // adds one that is not sold
		more := offMenu[random.IntN(len(offMenu))]
		return Spec{Flavour: distinct(append(slices.Clone(s.Flavour), more)), Topping: s.Topping}
	},
	func(random *rand.Rand, s Spec) Spec { // adds one that is sold
		more := Menu[random.IntN(len(Menu))]
		return Spec{Flavour: distinct(append([]string{more}, s.Flavour...)), Topping: s.Topping}
	},
	func(_ *rand.Rand, s Spec) Spec { // removes one
		return Spec{Flavour: s.Flavour[min(1, len(s.Flavour)-1):], Topping: s.Topping}
	},
	func(random *rand.Rand, s Spec) Spec { // replaces one
		flavours := slices.Clone(s.Flavour)
		flavours[random.IntN(len(flavours))] = offMenu[random.IntN(len(offMenu))]
		return Spec{Flavour: distinct(flavours), Topping: s.Topping}
	},
}

// Change draws the spec after a change. It has a flavour.
func Change(random *rand.Rand, number int, from Spec) Spec {
	return changes[number%len(changes)](random, from)
}

// objectNames are as different as possible. Kubernetes defines the names of objects, and everything that it allows is
// correct.
var objectNames = []Order{
	{Name: "x"},
	{Name: "7-up"},
	{Name: "sundae.with.dots.0"},
	{Name: strings.Repeat("n", 63)},
	{Name: strings.Repeat("n", 64)},
	{Name: strings.Repeat("long-name.", 25) + "end"},
	{Name: "for-anybody-", Generated: true},
}

// Call gives an order a name. Consecutive numbers get different names.
func (o *Order) Call(number int) {
	name := objectNames[number%len(objectNames)]
	o.Name, o.Generated = name.Name, name.Generated
}

// Describe gives an order labels, annotations and a finalizer, or some of them, or none.
func (o *Order) Describe(random *rand.Rand) {
	if random.IntN(2) == 0 {
		o.Labels = map[string]string{"table": strconv.Itoa(random.IntN(20))}
	}
	if random.IntN(3) == 0 {
		o.Annotations = map[string]string{"example.com/for": text(random)}
	}
	if random.IntN(4) == 0 {
		o.Finalizers = []string{"example.com/keep"}
	}
}

// Plainer returns orders with less content besides the spec.
func (o Order) Plainer() (plainer []Order) {
	for _, remove := range []func(*Order){
		func(o *Order) { o.Labels = nil },
		func(o *Order) { o.Annotations = nil },
		func(o *Order) { o.Finalizers = nil },
	} {
		less := o
		remove(&less)
		if len(less.Labels) != len(o.Labels) ||
			len(less.Annotations) != len(o.Annotations) || len(less.Finalizers) != len(o.Finalizers) {
			plainer = append(plainer, less)
		}
	}
	return plainer
}
