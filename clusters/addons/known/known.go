// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package known lists the add-ons of labs and playgrounds by name, and defines how the state of one is reported. It
// imports no Helm, so that a command can use it without linking Helm. It installs nothing: package addons does.
package known

import (
	"fmt"
	"slices"
	"strings"
)

// The add-ons. The image set with an add-on's name has the images of its Pods (clusters/images/catalogue.yaml).
const (
	CertManager = "cert-manager"
	Ingress     = "ingress"
	Pebble      = "pebble"
)

// Names returns the names of all add-ons, sorted.
func Names() []string { return []string{CertManager, Ingress, Pebble} }

// Check returns an error for the first name that is not an add-on's.
func Check(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("there is no add-on %q: the add-ons are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// State describes an add-on in a cluster.
type State struct {
	// Name is the add-on's name.
	Name string `json:"name"`
	// Installed is the version that is installed, or empty if none is.
	Installed string `json:"installed,omitempty"`
	// Pinned is the version that Install installs.
	Pinned string `json:"pinned,omitempty"`
	// Usable reports whether the add-on works now.
	Usable bool `json:"usable,omitempty"`
	// Detail describes in a few words what is installed, or what is missing.
	Detail string `json:"detail,omitempty"`
}

// Line is one line of JSON that the program clusters/addons/install writes to its standard output.
type Line struct {
	// Addon is the add-on that the line is about.
	Addon string `json:"addon"`
	// Message describes what the program is doing for the add-on, or waiting for.
	Message string `json:"says,omitempty"`
	// State is the add-on's state, if the program was asked for it.
	State *State `json:"state,omitempty"`
}
