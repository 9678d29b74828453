// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Part is a part of the proof.
type Part struct {
	// Name is the name by which a user selects the part, such as certify-02. The parts with the same Family can be
	// selected together by its name.
	Name, Family string
	// Proves completes the sentence "The part proves that …".
	Proves string
	// Commands run one after the other in the root of the checkout, until one fails.
	Commands []Command
	// Inputs are everything that decides the result.
	Inputs Inputs
	// Usual is the expected duration of the part before a record has it, on two cores with warm caches.
	Usual time.Duration
	// Counts extract from the output how much was proven. A part with Counts that has counted nothing is not proven. Nil:
	// nothing is counted.
	Counts []Count
	// Committed reports that the part tests the committed files, as in a clone. It fails if the work tree differs from
	// them, because its inputs are read from the work tree.
	Committed bool
	// Shows are patterns that the output must match, whatever the exit codes are. Nil: nothing.
	Shows *Sign
}

// Sign is a pattern that the output must match for its part to be proven.
type Sign struct {
	Pattern *regexp.Regexp
	// Missing is a sentence that explains what it means if the pattern does not match.
	Missing string
}

// Command is a program with its arguments. A name without a slash is looked up in PATH. Env has additional variables,
// as NAME=value.
type Command struct {
	Args []string
	Env  []string
}

// Count counts something in the output of a part. Pattern matches a line. The number in its first group is added, or 1
// if it has no group.
type Count struct {
	Unit    string // in the plural, as "tests"
	Pattern *regexp.Regexp
}

// counted returns how much an output proves: "48 submissions". It is empty if nothing was counted.
func (p Part) counted(output string) string {
	var all []string
	for _, count := range p.Counts {
		sum := 0
		for _, match := range count.Pattern.FindAllStringSubmatch(output, -1) {
			n := 1
			if len(match) > 1 {
				n, _ = strconv.Atoi(match[1]) // the pattern has matched digits
			}
			sum += n
		}
		switch {
		case sum == 1:
			all = append(all, "1 "+strings.TrimSuffix(count.Unit, "s"))
		case sum > 1:
			all = append(all, fmt.Sprintf("%d %s", sum, count.Unit))
		}
	}
	return strings.Join(all, ", ")
}

// decides returns the inputs of the part, including its commands.
func (p Part) decides() Inputs {
	in := p.Inputs
	in.Values = append(slices.Clone(in.Values), fmt.Sprintf("%q", p.Commands))
	return in
}

// check returns why an output proves nothing, although no command failed.
func (p Part) check(output string) error {
	switch {
	case p.Shows != nil && !p.Shows.Pattern.MatchString(output):
		return &verdict{errors.New(p.Shows.Missing)}
	case len(p.Counts) > 0 && p.counted(output) == "":
		var units []string
		for _, count := range p.Counts {
			units = append(units, count.Unit)
		}
		return &verdict{fmt.Errorf("its output counts no %s: nothing was tried, "+
			"or scripts/proving/proof/parts.go looks for other words",
			strings.Join(units, " and no "))}
	}
	return nil
}

// choose returns the parts with these names and families, in the order of the list. Without names it returns all parts.
func choose(parts []Part, names []string) ([]Part, error) {
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p Part) bool { return p.is(name) }) {
			return nil, fmt.Errorf("the proof has no part %q: there are %s, and `lab prove --list` shows the parts of each",
				name, strings.Join(shortened(parts, parts), ", "))
		}
	}
	if len(names) == 0 {
		return parts, nil
	}
	return slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return !slices.ContainsFunc(names, p.is) }), nil
}

func (p Part) is(name string) bool { return p.Name == name || p.Family == name }

// shortened returns the names of some of all parts. The name of a family replaces its parts if all of them are
// included.
func shortened(all, some []Part) (names []string) {
	in := func(some []Part, family string) (n int) {
		for _, p := range some {
			if p.Family == family {
				n++
			}
		}
		return n
	}
	for _, p := range some {
		name := p.Name
		if p.Family != "" && in(some, p.Family) == in(all, p.Family) {
			name = p.Family
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
