// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"slices"

	"lva.io/operators/scripts/checks/icecream"
)

// PerFlavour is how many icecreams of a flavour have a place.
const PerFlavour = 3

// Places records which icecreams have a place. This is the model of lab 02.
type Places struct {
	holders map[string]bool
	taken   map[string][]string // the names of the icecreams with a place, by flavour
}

// Assign gives places to icecreams that are not being deleted, the oldest first, and by name within the same second. An
// icecream has a place if in each of its flavours fewer than three older ones have one. An icecream without a place
// takes none.
func Assign(living []icecream.Icecream) Places {
	p := Places{holders: map[string]bool{}, taken: map[string][]string{}}
	for _, i := range slices.SortedFunc(slices.Values(living), icecream.Older) {
		if p.SoldOut(i.Flavour) {
			continue
		}
		p.holders[i.Name] = true
		for _, flavour := range i.Flavour {
			p.taken[flavour] = append(p.taken[flavour], i.Name)
		}
	}
	return p
}

// Has reports whether an icecream has a place.
func (p Places) Has(name string) bool { return p.holders[name] }

// Holders returns the names of the icecreams that have a place, sorted.
func (p Places) Holders() (names []string) {
	for name := range p.holders {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// SoldOut reports whether no place is left in one of these flavours.
func (p Places) SoldOut(flavours []string) bool { return p.full(flavours) != "" }

// full returns the first of these flavours in which no place is left. It is empty if there is none.
func (p Places) full(flavours []string) string {
	for _, flavour := range flavours {
		if len(p.taken[flavour]) >= PerFlavour {
			return flavour
		}
	}
	return ""
}
