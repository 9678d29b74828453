// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"slices"

	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/services/freezer"
)

// Account has the freezer's movements for one icecream, in the order in which they were booked.
type Account []freezer.Movement

// Describe formats an ingredient for a sentence: "topping cream".
func Describe(i freezer.Ingredient) string { return i.Kind + " " + i.Ingredient }

// Out returns what was taken and not returned, sorted.
func (a Account) Out() (out []string) {
	for what, count := range a.counts(nil) {
		for range count {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return out
}

// Wrong describes the movements that are incorrect whatever follows. It is empty if there are none.
func (a Account) Wrong() (wrong string) {
	a.counts(func(m freezer.Movement, count int) {
		switch {
		case wrong != "":
		case count > 1:
			wrong = Describe(m.Ingredient) + " was taken twice"
		case count < 0:
			wrong = Describe(m.Ingredient) + " was returned once more than it was taken"
		}
	})
	return wrong
}

// counts counts how much of each ingredient is out of the freezer, and passes the count after each movement to each.
func (a Account) counts(each func(freezer.Movement, int)) map[string]int {
	counts := map[string]int{}
	for _, m := range a {
		if m.Direction == freezer.Out {
			counts[Describe(m.Ingredient)]++
		} else {
			counts[Describe(m.Ingredient)]--
		}
		if each != nil {
			each(m, counts[Describe(m.Ingredient)])
		}
	}
	return counts
}

// FlavourFirst finds a flavour that was returned before a topping. It is empty if there is none. If something is taken
// in between, it starts again, because an ingredient was exchanged.
func (a Account) FlavourFirst() (flavour, topping string) {
	for _, m := range a {
		switch {
		case m.Direction == freezer.Out:
			flavour = ""
		case m.Kind == freezer.Flavour:
			flavour = Describe(m.Ingredient)
		case flavour != "":
			return flavour, Describe(m.Ingredient)
		}
	}
	return "", ""
}

// Movements returns the movements of an account as words: "out topping cream".
func (a Account) Movements() (words []string) {
	for _, m := range a {
		words = append(words, m.Direction+" "+Describe(m.Ingredient))
	}
	return words
}

// Wanted returns what an icecream with a place should have out of the freezer, sorted. This is the model of lab 03.
func Wanted(i icecream.Icecream) (wanted []string) {
	for _, flavour := range i.Flavour {
		wanted = append(wanted, freezer.Flavour+" "+flavour)
	}
	for _, topping := range i.Topping {
		wanted = append(wanted, freezer.Topping+" "+topping)
	}
	slices.Sort(wanted)
	return wanted
}

// Due returns the movements that are due if out is out of the freezer and wanted is needed, each once: "in topping
// cream". There must be no other movements.
func Due(out, wanted []string) (due []string) {
	for _, what := range out {
		if !slices.Contains(wanted, what) {
			due = append(due, freezer.In+" "+what)
		}
	}
	for _, what := range wanted {
		if !slices.Contains(out, what) {
			due = append(due, freezer.Out+" "+what)
		}
	}
	return due
}
