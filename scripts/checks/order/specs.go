// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// The task does not limit the number of flavours or the length of names. The specs go up to these values.
const (
	ManyFlavours = 1000
	LongName     = 1000
)

// limits are specs at the limits of what is allowed.
var limits = []func(*rand.Rand) Spec{
	func(random *rand.Rand) Spec { return Spec{Flavour: names(random, 1)} },
	func(random *rand.Rand) Spec { return Spec{Flavour: names(random, 1), Topping: []string{}} },
	func(random *rand.Rand) Spec { return Spec{Flavour: names(random, 1), Topping: names(random, 1)} },
	func(random *rand.Rand) Spec { return Spec{Flavour: names(random, 2), Topping: names(random, 2)} },
	func(random *rand.Rand) Spec {
		return Spec{Flavour: names(random, 4), Topping: names(random, MaxToppings)}
	},
	func(random *rand.Rand) Spec { return Spec{Flavour: names(random, 64)} },
	func(random *rand.Rand) Spec {
		return Spec{Flavour: names(random, ManyFlavours), Topping: names(random, MaxToppings)}
	},
	func(*rand.Rand) Spec {
		return Spec{Flavour: []string{strings.Repeat("a", LongName)}, Topping: []string{"cream"}}
	},
	func(*rand.Rand) Spec {
		return Spec{Flavour: []string{"vanilla"}, Topping: []string{strings.Repeat("é", LongName)}}
	},
	func(*rand.Rand) Spec {
		return Spec{
			Flavour: []string{"vanilla", "Vanilla", "VANILLA", "vanill", "vanilla 2", "vanilla "},
			Topping: []string{"cream", "Cream", "creamy"},
		}
	},
	func(*rand.Rand) Spec {
		return Spec{Flavour: []string{"cherry", "mango"}, Topping: []string{"mango", "cherry"}}
	},
	func(*rand.Rand) Spec {
		return Spec{Flavour: []string{"b", "c", "a"}, Topping: []string{"z", "x", "y"}}
	},
	func(*rand.Rand) Spec {
		return Spec{Flavour: []string{"a", "b", "c"}, Topping: []string{"x", "y", "z"}}
	},
}

// fixed is how many of the specs that Valid draws are the same kind for each seed.
var fixed = len(limits) + (len(unusual)+perSpec-1)/perSpec

// perSpec is how many unusual names are tried in one spec.
const perSpec = 3

// ValidSpecs is how many specs must be drawn, so that they include all limits and all unusual names.
var ValidSpecs = fixed + 20

// Valid draws a spec that breaks no rule of lab 01. The number decides which limit or which unusual names the spec has.
func Valid(random *rand.Rand, number int) Spec {
	switch rest := number - len(limits); {
	case rest < 0:
		return limits[number](random)
	case number < fixed:
		chosen := slices.Clone(unusual[perSpec*rest : min(perSpec*(rest+1), len(unusual))])
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		return Spec{Flavour: chosen, Topping: slices.Clone(chosen)}
	}
	drawn := Spec{Flavour: names(random, 1+random.IntN(12))}
	if toppings := random.IntN(MaxToppings+2) - 1; toppings >= 0 {
		drawn.Topping = names(random, toppings)
	}
	return drawn
}

// Breakings is how many specs must be drawn for a rule, so that they break it in all possible forms.
const Breakings = 27

// Breaking draws a spec that breaks one rule of lab 01 and no other, by as little as possible or by much.
func Breaking(random *rand.Rand, number int, rule Rule) Spec {
	s := Spec{Flavour: names(random, 1+random.IntN(4)), Topping: names(random, random.IntN(MaxToppings+1))}
	switch rule {
	case FlavourRequired:
		empties := []Spec{{Flavour: []string{}}, {}, {Absent: true}}
		spec := empties[number%len(empties)]
		if !spec.Absent && random.IntN(3) > 0 {
			spec.Topping = s.Topping
		}
		return spec
	case FlavoursUnique:
		counts := []int{2, 3, 3, 4, 5, 10, 64, ManyFlavours, 2 + random.IntN(30)}
		s.Flavour = names(random, counts[number%len(counts)])
		repeat(random, s.Flavour, number/len(counts))
	case ToppingsMax:
		counts := []int{MaxToppings + 1, MaxToppings + 1, MaxToppings + 2, 6 + random.IntN(10), 100}
		s.Topping = names(random, counts[number%len(counts)])
	case ToppingsUnique:
		s.Topping = names(random, 2+number%2)
		repeat(random, s.Topping, number/2)
	}
	return s
}

// repeat makes one item of a list equal to another: its neighbour, the last one to the first, or any two.
func repeat(random *rand.Rand, list []string, form int) {
	last := len(list) - 1
	one := random.IntN(last)
	switch form % 3 {
	case 0:
		list[last] = list[0]
	case 1:
		list[one+1] = list[one]
	case 2:
		list[one+1+random.IntN(last-one)] = list[one]
	}
}

// Smaller returns simpler specs: with fewer names, and with shorter and plainer ones. Equal names stay equal.
func (s Spec) Smaller() (smaller []Spec) {
	if s.Absent {
		return nil
	}
	if s.Topping != nil {
		smaller = append(smaller, Spec{Flavour: s.Flavour})
	}
	if s.Flavour != nil && len(s.Flavour) == 0 {
		smaller = append(smaller, Spec{Topping: s.Topping})
	}
	for _, less := range fewer(s.Topping) {
		smaller = append(smaller, Spec{Flavour: s.Flavour, Topping: less})
	}
	for _, less := range fewer(s.Flavour) {
		smaller = append(smaller, Spec{Flavour: less, Topping: s.Topping})
	}
	return append(smaller, s.plainer()...)
}

// fewer returns parts of a list. For a long list it leaves out only the first, the middle and the last part of each
// length.
func fewer(list []string) (parts [][]string) {
	const long = 70
	for size := len(list); size > 0; size /= 2 {
		last := len(list) - size
		starts := []int{0, last / 2, last}
		if len(list) <= long {
			starts = nil
			for start := 0; start <= last; start += size {
				starts = append(starts, start)
			}
		}
		for _, start := range slices.Compact(starts) {
			parts = append(parts, slices.Delete(slices.Clone(list), start, start+size))
		}
	}
	return parts
}

// plainer returns specs in which one name is replaced everywhere by a simpler one.
func (s Spec) plainer() (plainer []Spec) {
	all := distinct(slices.Concat(s.Flavour, s.Topping))
	free := slices.IndexFunc(simple, func(name string) bool { return !slices.Contains(all, name) })
	for _, name := range all {
		if slices.Contains(simple, name) || len(all) > len(simple) {
			continue
		}
		runes := []rune(name)
		half := len(runes) / 2
		instead := []string{string(runes[:half]), string(runes[half:]), string(runes[:len(runes)-1]), string(runes[1:])}
		if free >= 0 {
			instead = append([]string{simple[free]}, instead...)
		}
		if same := strings.Repeat("a", len(runes)); same != name {
			instead = append(instead, same)
		}
		for _, other := range instead {
			if other != "" && other != name && !slices.Contains(all, other) {
				plainer = append(plainer, Spec{
					Flavour: replaced(s.Flavour, name, other),
					Topping: replaced(s.Topping, name, other),
				})
			}
		}
	}
	return plainer
}

// simple are the simplest names.
var simple = strings.Split("abcdefghijklmnopqrstuvwxyz", "")

func replaced(list []string, name, other string) []string {
	if list == nil {
		return nil
	}
	changed := slices.Clone(list)
	for i, item := range changed {
		if item == name {
			changed[i] = other
		}
	}
	return changed
}
