// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// stream distinguishes the sequence of stories from others that are made from the same seed.
const stream = 2

// Draw returns the story of a seed, always the same one. Stories differ in names, flavours, toppings, and the order of
// their actions. Each story has
//
//   - a crowd of more than twenty icecreams, most of them of other flavours than those that are sold out;
//   - flavours that differ only in case or in a space, or of which one begins with the other, or that are more than a
//     word;
//   - a newest icecream whose name is not the last, and in another flavour one whose name is;
//   - icecreams without a place, whose other flavours have three younger ones each;
//   - icecreams that are created, changed or deleted, or whose status is written, while the operator is stopped;
//   - an older icecream that takes the place of a younger one by changing its flavour, and one that loses its own;
//   - places that become free, and are taken again; one deletion alone makes six others not sold out;
//   - finalizers of others, in front of the operator's and behind it;
//   - an icecream without a place because a second one has one, which has one because a third has none, so that an
//     operator that is wrong about one is wrong about all;
//   - flavours of one icecream that differ only in a sign, one whose name is almost too long for the freezer, and a
//     topping with the same name as one of them;
//   - names that are used again: of an icecream that was deleted, and of two without a place, one of which now has one.
//
// The outcome of a phase must not depend on the operator's actions during the phase. It does not if every icecream that
// has no place at one moment also has none at the end of the phase. See TestStoriesHaveOneOutcome. So, while the
// operator runs, icecreams with one flavour are created in any order, and those with several in the order of their
// names. Flavours change one at a time.
func Draw(seed uint32) Story {
	d := &draw{dice: rand.New(rand.NewPCG(uint64(seed), stream))}
	d.names = shuffled(d, names())
	d.flavours = shuffled(d, slices.Clone(stems))
	return d.story()
}

type draw struct {
	dice            *rand.Rand
	names, flavours []string // the remaining ones
}

// stems are flavours. All begin with a letter, so that a name can differ from it only in case.
var stems = []string{
	"vanilla", "matcha", "lemon", "mocha", "pear", "hazelnut",
	"crème brûlée", "mint/choc", "salt & honey", "pecan", "yuzu", "rum+raisin",
	"black sesame", "cherry", "tonka", "kinako", "dulce de leche", "fig", "basil", "ginger", "melon", "sea salt", "plum",
}

var toppings = []string{
	"cream", "Cream", "nuts", "nut", "wafer", "hot fudge", "cherry", "matcha", "crème fraîche", "1/2 banana",
}

// names returns names of icecreams. Many of them begin with another one.
func names() (all []string) {
	for _, stem := range []string{
		"ann", "anna", "bo", "bob", "cy", "di", "dina", "ed", "eve", "flo",
		"gil", "ian", "jo", "joan", "kim", "leo", "liv", "mia", "nia", "oz",
	} {
		for _, suffix := range []string{"", "-2", "-10", ".x"} {
			all = append(all, stem+suffix)
		}
	}
	return all
}

func shuffled[T any](d *draw, items []T) []T {
	d.dice.Shuffle(len(items), func(a, b int) { items[a], items[b] = items[b], items[a] })
	return items
}

// fresh returns names that no icecream has had, in any order.
func (d *draw) fresh(count int) []string {
	taken := d.names[:count:count]
	d.names = d.names[count:]
	return taken
}

// ascending returns names that no icecream has had, sorted.
func (d *draw) ascending(count int) []string { return slices.Sorted(slices.Values(d.fresh(count))) }

// flavour returns a flavour that no icecream has had.
func (d *draw) flavour() string {
	taken := d.flavours[0]
	d.flavours = d.flavours[1:]
	return taken
}

// similar returns five flavours other than the given one: two begin with it, and it begins with another one.
func similar(flavour string) []string {
	letters := []rune(flavour)
	return []string{
		strings.ToUpper(string(letters[:1])) + string(letters[1:]), strings.ToUpper(flavour),
		flavour + "s", string(letters[:len(letters)-1]), flavour + " ",
	}
}

// topping returns up to three toppings, other ones than before.
func (d *draw) topping(before ...string) []string {
	for {
		some := shuffled(d, slices.Clone(toppings))[:d.dice.IntN(4)]
		if !slices.Equal(slices.Sorted(slices.Values(some)), slices.Sorted(slices.Values(before))) {
			return some
		}
	}
}

func (d *draw) create(name string, flavour ...string) Action {
	return Action{Do: Create, Name: name, Flavour: flavour, Topping: d.topping()}
}

// each creates one icecream of the flavour for each name.
func (d *draw) each(names []string, flavour string) (actions []Action) {
	for _, name := range names {
		actions = append(actions, d.create(name, flavour))
	}
	return actions
}

// change changes the toppings of icecreams that were created by the actions.
func (d *draw) change(created []Action) (actions []Action) {
	for _, action := range created {
		actions = append(actions, Action{Do: ChangeTopping, Name: action.Name, Topping: d.topping(action.Topping...)})
	}
	return actions
}

func does(kind Kind, names ...string) (actions []Action) {
	for _, name := range names {
		actions = append(actions, Action{Do: kind, Name: name})
	}
	return actions
}

// Finalizers of others.
const (
	photo = "tasting.example.com/photo"
	label = "labels.example.org/print"
)

func holds(name, finalizer string, front bool) Action {
	return Action{Do: Hold, Name: name, Finalizers: []string{finalizer}, Front: front}
}

func (d *draw) story() Story {
	crowded, full, fading, rising, waiting := d.flavour(), d.flavour(), d.flavour(), d.flavour(), d.flavour()
	shared := []string{d.flavour(), d.flavour(), d.flavour()}

	// Bystanders: one icecream each for some flavours, and at most three for others.
	crowd := d.each(d.fresh(2), crowded)
	first, next := d.orderedNames(3, 9)
	fulls, waiters := d.each(first, full), d.each(next[:3], waiting)
	chained, links, last := d.chain(full, next[3:])
	mover := d.create(d.fresh(1)[0], fading)
	fadings := append(d.each(d.fresh(2), fading), mover)
	var bystanders []Action
	for _, flavour := range similar(full) {
		bystanders = append(bystanders, d.create(d.fresh(1)[0], flavour))
	}
	others := d.each(d.fresh(3), d.flavour())
	held := d.create(d.fresh(1)[0], d.flavour())
	held.Finalizers = []string{photo}
	opening := Phase{Later: true, Actions: shuffled(d, slices.Concat(
		crowd, fulls, waiters, chained, fadings, bystanders, others, []Action{held},
	))}

	// While the operator is stopped, all actions are possible in any order.
	alike := similar(crowded)
	created := slices.Concat(d.each(d.fresh(3), crowded), d.each(d.fresh(2), alike[0]), d.each(d.fresh(1), alike[1]),
		d.each(d.fresh(1), alike[2]), d.each(d.fresh(1), alike[3]), d.wild())
	var changes []Action
	for _, flavour := range shared {
		created = append(created, d.each(d.fresh(PerFlavour), flavour)...)
	}
	created = append(created, last)
	changes = append(changes, links...)
	for _, waiter := range waiters { // they have no place, and take none from younger ones
		changes = append(changes, Action{
			Do:      ChangeFlavour,
			Name:    waiter.Name,
			Flavour: shuffled(d, append([]string{full}, shared...)),
		})
	}
	// Its flavour is sold out, and it changes the flavour before the operator sees it.
	changed := d.create(d.fresh(1)[0], full)
	born := d.create(d.fresh(1)[0], d.flavour())
	born.Finalizers = []string{photo} // it is being deleted before the operator sees it
	forged := d.create(d.fresh(1)[0], d.flavour())
	away := Phase{Away: true, Later: true, Actions: slices.Concat(
		shuffled(d, append(created, changed, born, forged)),
		shuffled(d, slices.Concat(
			changes,
			[]Action{
				{Do: ChangeFlavour, Name: changed.Name, Flavour: []string{d.flavour(), rising}},
				{Do: Label, Name: crowd[0].Name},
			},
			d.change([]Action{bystanders[0], forged, mover}),
			does(Delete, born.Name, bystanders[2].Name),
		)),
		// These are last, so that the forged status is about the spec that the operator will find.
		[]Action{{Do: Forge, Name: others[0].Name, SoldOut: true}},
		does(Forge, forged.Name, bystanders[1].Name), does(Forget, bystanders[3].Name), does(Delete, bystanders[3].Name),
	)}

	// A burst while the operator runs. No other icecream has these flavours, so the burst need not begin in a later
	// second.
	left, right, middle := d.flavour(), d.flavour(), d.flavour()
	several := d.ascending(9)
	hub, younger := several[0], several[7]
	burst := []Action{
		d.create(hub, left, right, middle),
		d.create(several[1], right), d.create(several[2], left), d.create(several[3], middle),
		d.create(several[4], left), d.create(several[5], middle),
		d.create(several[6], left, right), // has no place, and takes none
		d.create(younger, right),
		d.create(several[8], right), // has no place, since the first one has
	}
	twin := d.create(d.fresh(1)[0], signs(d.flavour())...)
	// Later it no longer wants that topping, but the flavour of that name.
	twin.Topping = []string{"cream", twin.Flavour[0]}
	third := Phase{Actions: slices.Concat(
		[]Action{twin},
		d.merge(shuffled(d, d.each(d.fresh(4), rising)), burst),
		shuffled(d, slices.Concat(
			d.change([]Action{fulls[0], held}),
			[]Action{
				holds(fulls[1].Name, label, true), holds(fadings[0].Name, label, false), holds(held.Name, label, false),
				holds(mover.Name, photo, d.dice.IntN(2) == 0),
				{Do: Label, Name: fulls[2].Name},
			},
		)),
	)}

	// An older icecream changes to a flavour without a free place, and leaves another place free.
	fourth := Phase{Actions: slices.Concat(
		[]Action{{Do: ChangeFlavour, Name: mover.Name, Flavour: []string{rising}}}, d.change([]Action{others[0], fadings[1]}),
		[]Action{
			{Do: Release, Name: held.Name, Finalizers: []string{photo}},
			{Do: ChangeTopping, Name: twin.Name, Topping: []string{"nuts"}},
		},
	)}

	// An icecream replaces a flavour that is sold out. No icecream is created or deleted, so no other event triggers the
	// reconciliation of the others.
	gives := Phase{Actions: []Action{{Do: ChangeFlavour, Name: fulls[2].Name, Flavour: []string{fulls[2].Name}}}}

	// An icecream on whose deletion many others depend is deleted, and nothing else happens.
	fifth := Phase{Actions: does(Delete, hub)}

	// A younger icecream changes to a flavour without a free place. Elsewhere places become free, and one is taken at
	// once.
	sixth := Phase{Actions: slices.Concat(
		[]Action{{Do: ChangeFlavour, Name: younger, Flavour: []string{crowded}}},
		shuffled(d, does(Delete, fulls[1].Name, fadings[0].Name, held.Name, mover.Name)),
		[]Action{d.create(d.fresh(1)[0], full)},
		// New icecreams have these names now: one with the same spec again, one that has no place again, and one that has a
		// place now.
		shuffled(d, []Action{burst[0], d.create(several[8], crowded), d.create(several[6], several[6])}),
	)}
	return Story{opening, away, third, fourth, gives, fifth, sixth}
}

// signs returns flavours that are equal to code that compares only letters and digits, and one whose name is almost as
// long as the freezer allows.
func signs(flavour string) []string {
	return []string{
		flavour + "-1", flavour + " 1", flavour + "/1", strings.TrimSpace(strings.Repeat(flavour+" ", 180/(len(flavour)+1))),
	}
}

// chain returns changes after which the first icecream has no place, therefore the second has one, therefore the third
// has none, and therefore the last, which is created later, has one. Within one second they are ordered by name, and
// the last one's name sorts before the others: an operator that begins with it finds all of them there.
func (d *draw) chain(full string, names []string) (opening, changes []Action, last Action) {
	names = slices.Sorted(slices.Values(names))
	a, b, c := d.flavour(), d.flavour(), d.flavour()
	for _, name := range names[1:3] {
		opening = append(opening, d.create(name, a, b, c))
	}
	for n, flavours := range [][]string{{full, a}, {a, b}, {b, c}} {
		name := names[3+n]
		opening = append(opening, d.create(name, name))
		changes = append(changes, Action{Do: ChangeFlavour, Name: name, Flavour: flavours})
	}
	return opening, changes, d.create(names[0], c)
}

// orderedNames returns two lists of names that no icecream has had. The names of the second list sort after those of
// the first.
func (d *draw) orderedNames(first, second int) (a, b []string) {
	all := d.ascending(first + second)
	return shuffled(d, all[:first]), shuffled(d, all[first:])
}

// wild creates icecreams of one or two of three flavours, in any order. It is for phases in which the operator does not
// run.
func (d *draw) wild() (actions []Action) {
	pool := []string{d.flavour(), "Wild", "wild"}
	for _, name := range d.fresh(3 + d.dice.IntN(3)) {
		actions = append(actions, d.create(name, shuffled(d, slices.Clone(pool))[:1+d.dice.IntN(2)]...))
	}
	return actions
}

// merge merges two lists, and keeps the order of each.
func (d *draw) merge(a, b []Action) (merged []Action) {
	for len(a) > 0 && len(b) > 0 {
		from := &a
		if d.dice.IntN(2) == 0 {
			from = &b
		}
		merged, *from = append(merged, (*from)[0]), (*from)[1:]
	}
	return slices.Concat(merged, a, b)
}
