// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order

import "slices"

// Menu has the flavours that the shop of lab 04 sells.
var Menu = []string{"vanilla", "chocolate", "strawberry"}

// Answer is the answer of lab 04 to an order or a change that the schema allows.
type Answer struct {
	// Refused holds the flavours for which the request is denied. If there are none, it is accepted.
	Refused []string
	// Spec is the stored spec, including its defaults.
	Spec Spec
	// Warning means that the answer has a warning, Silent that it has none. If neither is set, both are correct.
	Warning, Silent bool
}

// Denied reports whether the request is denied.
func (a Answer) Denied() bool { return len(a.Refused) > 0 }

// Ordered returns the answer to an order.
func Ordered(s Spec) Answer {
	s = s.Defaulted()
	answer := Answer{Spec: s, Refused: s.OffMenu()}
	if !answer.Denied() {
		answer.Warning = len(s.Flavour) == len(Menu) // all are on the menu, and none occurs twice
		answer.Silent = !answer.Warning
	}
	return answer
}

// Changed returns the answer to a change of the spec from one to another, or to a change of something else.
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

// Defaulted returns a spec with defaults for its missing fields.
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

// OffMenu returns the flavours that the shop does not sell.
func (s Spec) OffMenu() (refused []string) {
	for _, flavour := range s.Flavour {
		if !slices.Contains(Menu, flavour) {
			refused = append(refused, flavour)
		}
	}
	return refused
}

// SameFlavours reports whether two specs have the same flavours in any order, because flavours are a set.
func SameFlavours(one, other Spec) bool {
	a, b := slices.Sorted(slices.Values(one.Flavour)), slices.Sorted(slices.Values(other.Flavour))
	return slices.Equal(a, b)
}
