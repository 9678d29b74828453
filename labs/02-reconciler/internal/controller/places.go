// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"k8s.io/apimachinery/pkg/util/sets"

	demov1 "lva.io/operators/labs/02-reconciler/api/v1"
)

// placesPerFlavour is how often a flavour is sold.
const placesPerFlavour = 3

// places says who has a place in the shop. It is worked out anew whenever somebody asks, from the icecreams that there
// are: what is not remembered cannot be wrong after a restart.
type places struct {
	holders sets.Set[string] // the names of the icecreams that have a place
	taken   map[string]int   // how many places of a flavour are taken
}

// assignPlaces lets the icecreams in, the oldest first. One that finds no place takes none away: those behind it are
// let in as if it had not been there.
func assignPlaces(icecreams []demov1.Icecream) places {
	assigned := places{holders: sets.New[string](), taken: map[string]int{}}
	// TODO(lab): 2. Go through the icecreams, the oldest first (oldestFirst below compares two), and leave out those
	// that are being deleted. One has a place when none of its flavours is sold out: then put its name into holders,
	// and count each of its flavours in taken.
	return assigned
}

// soldOut tells whether no place is left in one of these flavours.
func (p places) soldOut(flavours []string) bool {
	// TODO(lab): 2. Is one of the flavours taken placesPerFlavour times?
	return false
}

// oldestFirst compares two icecreams by age. The API server counts whole seconds, so several can be equally old: then
// the name decides, which is arbitrary, but the same each time and for everybody who works it out.
func oldestFirst(a, b demov1.Icecream) int {
	// TODO(lab): 2. Less than 0 when a comes before b: by metadata.creationTimestamp, and if that is equal by name.
	return 0
}
