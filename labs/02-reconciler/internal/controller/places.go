// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"k8s.io/apimachinery/pkg/util/sets"

	demov1 "lva.io/operators/labs/02-reconciler/api/v1"
)

// placesPerFlavour is how often a flavour is sold.
const placesPerFlavour = 3

// places says which icecreams have a place in the shop. Each call of Reconcile computes it from the current icecreams.
// It is never stored, so it can't be wrong after a restart.
type places struct {
	holders sets.Set[string] // the names of the icecreams that have a place
	taken   map[string]int   // how many places of a flavour are taken
}

// assignPlaces gives places to the icecreams, the oldest first. An icecream that gets no place takes none: the younger
// ones are treated as if it did not exist.
func assignPlaces(icecreams []demov1.Icecream) places {
	assigned := places{holders: sets.New[string](), taken: map[string]int{}}
	// TODO(lab): 2. Go through the icecreams, the oldest first (oldestFirst below compares two), and leave out those
	// that are being deleted. One has a place when none of its flavours is sold out: then put its name into holders,
	// and count each of its flavours in taken.
	return assigned
}

// soldOut reports whether one of these flavours has no place left.
func (p places) soldOut(flavours []string) bool {
	// TODO(lab): 2. Is one of the flavours taken placesPerFlavour times?
	return false
}

// oldestFirst compares two icecreams by age. The API server counts whole seconds, so several can be equally old. Then
// the name decides, which is arbitrary, but the same each time and in each process.
func oldestFirst(a, b demov1.Icecream) int {
	// TODO(lab): 2. Less than 0 when a comes before b: by metadata.creationTimestamp, and if that is equal by name.
	return 0
}
