// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package known lists the add-ons of labs and playgrounds by name, and says what is known of one in a cluster. It
// imports nothing, so that a command can know them without Helm: package addons installs them.
package known

import (
	"fmt"
	"slices"
	"strings"
)

// The add-ons. The set of images with the name of an add-on is what its Pods run (clusters/images/catalogue.yaml).
const (
	CertManager = "cert-manager"
	Ingress     = "ingress"
	Pebble      = "pebble"
)

// Names are the names of all of them, sorted.
func Names() []string { return []string{CertManager, Ingress, Pebble} }

// Check says which of the names is that of no add-on.
func Check(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no add-on %q: the add-ons are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// State is what is known of an add-on in a cluster.
type State struct {
	// Name is the add-on's.
	Name string `json:"name"`
	// Installed is the version that is there: empty when none is.
	Installed string `json:"installed,omitempty"`
	// Pinned is the version that an install brings.
	Pinned string `json:"pinned,omitempty"`
	// Usable says that it does its work now.
	Usable bool `json:"usable,omitempty"`
	// Detail says in a few words what is there, or what is missing.
	Detail string `json:"detail,omitempty"`
}

// Line is one line of JSON that the program clusters/addons/install writes to its standard output.
type Line struct {
	// Addon is the add-on that a line is about.
	Addon string `json:"addon"`
	// Says is what the program does for it, or waits for.
	Says string `json:"says,omitempty"`
	// State is the answer to a question for states.
	State *State `json:"state,omitempty"`
}
