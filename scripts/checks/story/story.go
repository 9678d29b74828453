// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is a change of an icecream by a client.
type Kind string

const (
	// Create creates the icecream, with Flavour, Topping and Finalizers.
	Create Kind = "create"
	// ChangeFlavour changes one field of the spec.
	ChangeFlavour Kind = "change the flavour of"
	// ChangeTopping changes only the other field of the spec.
	ChangeTopping Kind = "change the topping of"
	// Label adds a label, which does not matter to the rules.
	Label Kind = "label"
	// Delete deletes the icecream.
	Delete Kind = "delete"
	// Hold adds a finalizer of another controller, in front of the others or behind them.
	Hold Kind = "hold"
	// Release removes a finalizer of another controller.
	Release Kind = "release"
	// Forge writes a status that claims that all work is done. It is used only while the operator is stopped.
	Forge Kind = "forge the status of"
	// Forget removes the status, as a restored backup would. It is used only while the operator is stopped.
	Forget Kind = "remove the status of"
)

// Action is one change of one icecream.
type Action struct {
	Do               Kind
	Name             string
	Flavour, Topping []string
	// Finalizers are the finalizers with which an icecream is created, or the one of Hold and Release.
	Finalizers []string
	// Front puts a finalizer in front of the others.
	Front bool
	// SoldOut is the value in a forged status.
	SoldOut bool
}

// Phase is a group of actions. It ends when the operator has dealt with all of them. Phases are drawn so that their
// outcome does not depend on the operator's actions in between.
type Phase struct {
	// Away means that the operator is stopped during the phase.
	Away bool
	// Later begins the phase in a later second than that of the last creation. Icecreams that the phase creates before
	// other actions are created at once. Their order does not matter, since the operator is stopped, or all of them have a
	// place.
	Later   bool
	Actions []Action
}

// Story is the sequence of events in the shop.
type Story []Phase

// String tells the story as a customer would.
func (s Story) String() string {
	var phases []string
	for _, phase := range s {
		var actions []string
		for _, action := range phase.Actions {
			actions = append(actions, action.String())
		}
		text := strings.Join(actions, ", ")
		switch {
		case phase.Away && phase.Later:
			text = "stop the operator, a second later " + text + ", start the operator"
		case phase.Away:
			text = "stop the operator, " + text + ", start the operator"
		case phase.Later:
			text = "a second later " + text
		}
		phases = append(phases, text)
	}
	return strings.Join(phases, "; then ")
}

// String returns the action in words: "create ann (vanilla with cream)".
func (d Action) String() string {
	switch d.Do {
	case Create:
		var text strings.Builder
		text.WriteString("create " + d.Name + " (" + taste(d.Flavour))
		if len(d.Topping) > 0 {
			text.WriteString(" with " + taste(d.Topping))
		}
		for _, finalizer := range d.Finalizers {
			text.WriteString(", held by the finalizer " + finalizer)
		}
		return text.String() + ")"
	case ChangeFlavour:
		return fmt.Sprintf("%s %s to %s", d.Do, d.Name, taste(d.Flavour))
	case ChangeTopping:
		if len(d.Topping) == 0 {
			return "remove the topping of " + d.Name
		}
		return fmt.Sprintf("%s %s to %s", d.Do, d.Name, taste(d.Topping))
	case Hold:
		where := "behind"
		if d.Front {
			where = "in front of"
		}
		return fmt.Sprintf("add the finalizer %s to %s %s the others", d.Finalizers[0], d.Name, where)
	case Release:
		return fmt.Sprintf("remove the finalizer %s from %s", d.Finalizers[0], d.Name)
	case Forge:
		return "write a status to " + d.Name + " that claims other things"
	}
	return string(d.Do) + " " + d.Name
}

var plain = regexp.MustCompile(`^[\p{L}\p{N}-]+$`)

// taste lists flavours or toppings. It quotes names that are more than a word.
func taste(names []string) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = name
		if !plain.MatchString(name) {
			words[i] = fmt.Sprintf("%q", name)
		}
	}
	return strings.Join(words, ", ")
}

// countActions returns the number of actions.
func (s Story) countActions() (count int) {
	for _, phase := range s {
		count += len(phase.Actions)
	}
	return count
}

// about returns the part of the story that concerns these icecreams.
func (s Story) about(names []string) Story {
	return s.keep(func(d Action) bool { return slices.Contains(names, d.Name) })
}

// keep returns the part of the story with the selected actions. It leaves out phases that have no action left.
func (s Story) keep(kept func(Action) bool) Story {
	var part Story
	for _, phase := range s {
		smaller := Phase{Away: phase.Away, Later: phase.Later}
		for _, action := range phase.Actions {
			if kept(action) {
				smaller.Actions = append(smaller.Actions, action)
			}
		}
		if len(smaller.Actions) > 0 {
			part = append(part, smaller)
		}
	}
	return part
}

// names returns the icecreams of the story, in the order of their first actions.
func (s Story) names() (names []string) {
	for _, phase := range s {
		for _, action := range phase.Actions {
			if !slices.Contains(names, action.Name) {
				names = append(names, action.Name)
			}
		}
	}
	return names
}

// flavours returns the flavours that an icecream has in the course of the story.
func (s Story) flavours(name string) (flavours []string) {
	for _, phase := range s {
		for _, action := range phase.Actions {
			if action.Name == name {
				flavours = append(flavours, action.Flavour...)
			}
		}
	}
	return flavours
}
