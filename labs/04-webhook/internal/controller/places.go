// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	demov1 "lva.io/operators/labs/04-webhook/api/v1"
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
	for _, icecream := range slices.SortedFunc(slices.Values(icecreams), oldestFirst) {
		if !icecream.DeletionTimestamp.IsZero() {
			continue // It is on its way out, and its place is free.
		}
		if assigned.soldOut(icecream.Spec.Flavour) {
			continue
		}
		assigned.holders.Insert(icecream.Name)
		for _, flavour := range icecream.Spec.Flavour {
			assigned.taken[flavour]++
		}
	}
	return assigned
}

// soldOut reports whether one of these flavours has no place left.
func (p places) soldOut(flavours []string) bool {
	return slices.ContainsFunc(flavours, func(flavour string) bool {
		return p.taken[flavour] >= placesPerFlavour
	})
}

// oldestFirst compares two icecreams by age. The API server counts whole seconds, so several can be equally old. Then
// the name decides, which is arbitrary, but the same each time and in each process.
func oldestFirst(a, b demov1.Icecream) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}
