// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order

import "slices"

// Rule is a rule of lab 01 about a spec.
type Rule string

// These are the rules. A spec that breaks none of them is allowed.
const (
	FlavourRequired Rule = "at least one flavour"
	FlavoursUnique  Rule = "no flavour twice"
	ToppingsMax     Rule = "at most three toppings"
	ToppingsUnique  Rule = "no topping twice"
)

// MaxToppings is the largest number of toppings.
const MaxToppings = 3

// Breaks returns the rules that a spec breaks.
func (s Spec) Breaks() (broken []Rule) {
	if len(s.Flavour) == 0 {
		broken = append(broken, FlavourRequired)
	}
	if len(distinct(s.Flavour)) < len(s.Flavour) {
		broken = append(broken, FlavoursUnique)
	}
	if len(s.Topping) > MaxToppings {
		broken = append(broken, ToppingsMax)
	}
	if len(distinct(s.Topping)) < len(s.Topping) {
		broken = append(broken, ToppingsUnique)
	}
	return broken
}

// Repaired returns the most similar spec that breaks no rule.
func (s Spec) Repaired() Spec {
	repaired := Spec{Flavour: distinct(s.Flavour), Topping: distinct(s.Topping)}
	if len(repaired.Flavour) == 0 {
		repaired.Flavour = []string{"vanilla"}
	}
	if len(repaired.Topping) > MaxToppings {
		repaired.Topping = repaired.Topping[:MaxToppings]
	}
	return repaired
}

// distinct returns the items of a list, each at its first position.
func distinct(list []string) []string {
	if list == nil {
		return nil
	}
	once := make([]string, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, item := range list {
		if !seen[item] {
			seen[item] = true
			once = append(once, item)
		}
	}
	return slices.Clip(once)
}
