// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order

import "slices"

// Menu are the flavours that the shop of lab 04 sells.
var Menu = []string{"vanilla", "chocolate", "strawberry"}

// Answer is what lab 04 says to an order or a change that the schema allows.
type Answer struct {
	// Refused are the flavours because of which it is denied. None: it is accepted.
	Refused []string
	// Spec is what is stored, with what was filled in.
	Spec Spec
	// Warning says that it comes with a warning, Silent that it comes with none. Neither: both are right.
	Warning, Silent bool
}

// Denied says whether it is denied.
func (a Answer) Denied() bool { return len(a.Refused) > 0 }

// Ordered is the answer to an order.
func Ordered(s Spec) Answer {
	s = s.Defaulted()
	answer := Answer{Spec: s, Refused: s.OffMenu()}
	if !answer.Denied() {
		answer.Warning = len(s.Flavour) == len(Menu) // they are on the menu, and none is there twice
		answer.Silent = !answer.Warning
	}
	return answer
}

// Changed is the answer to a change of the spec from one to another, or of something else.
func Changed(from, to Spec) Answer {
	answer := Ordered(to)
	if from.Equal(to) { // something else has changed
		answer.Spec = to
	}
	if SameFlavours(from, answer.Spec) {
		return Answer{Spec: answer.Spec, Silent: answer.Silent}
	}
	return answer
}

// Defaulted is a spec with what is filled in where it says nothing.
func (s Spec) Defaulted() Spec {
	defaulted := Spec{Flavour: slices.Clone(s.Flavour), Topping: slices.Clone(s.Topping)}
	if len(s.Flavour) == 0 {
		defaulted.Flavour = []string{"vanilla"}
	}
	if len(s.Topping) == 0 {
		defaulted.Topping = []string{"wafer"}
	}
	return defaulted
}

// OffMenu are the flavours that the shop does not sell.
func (s Spec) OffMenu() (refused []string) {
	for _, flavour := range s.Flavour {
		if !slices.Contains(Menu, flavour) {
			refused = append(refused, flavour)
		}
	}
	return refused
}

// SameFlavours reports whether two specs have the same flavours, in whatever order: flavours are a set.
func SameFlavours(one, other Spec) bool {
	a, b := slices.Sorted(slices.Values(one.Flavour)), slices.Sorted(slices.Values(other.Flavour))
	return slices.Equal(a, b)
}
