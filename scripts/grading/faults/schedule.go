// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Class is a class of requests that are counted together.
type Class string

const (
	// Write is every request that asks for a change.
	Write Class = "write"
	// Read is every get and list, but no watch.
	Read Class = "read"
	// Change is every change of a file in the folder where an API server stores its data: see Injector.Changed.
	Change Class = "change"
	// Request is every write that a check sends to an API server. The injector doesn't see them: the check itself kills
	// the server.
	Request Class = "request"
)

// API is the name of the API server among the services. The caller of Injector.Proxy names the others.
const API = "api"

// Fault is one fault, which is injected at one request or at each.
type Fault struct {
	Kind  Kind  `json:"kind"`
	Class Class `json:"class"`
	// Service is the service whose requests are counted. If it is empty, the requests of all services are counted
	// together.
	Service string `json:"service,omitempty"`
	// At is the number of the request at which the fault happens, counted from 1 since Arm. If it is 0, the fault happens
	// at each.
	At int `json:"at,omitempty"`
	// For is how long the fault lasts, or lasts at most, depending on its kind. For KillBefore at a Request, it is the
	// time from sending the request to the kill. Most kinds do not use it.
	For metav1.Duration `json:"for,omitzero"`
	// Version is the resourceVersion of the list with which Behind answers.
	Version string `json:"version,omitempty"`
}

// String returns the fault in words: "kill-after write 3", "stale each api write for 400ms". It leaves out the version
// of Behind, which is different in each run.
func (f Fault) String() string {
	words := []string{string(f.Kind)}
	if f.At == 0 {
		words = append(words, "each")
	}
	if f.Service != "" {
		words = append(words, f.Service)
	}
	words = append(words, string(f.Class))
	if f.At != 0 {
		words = append(words, fmt.Sprint(f.At))
	}
	if f.For.Duration != 0 {
		preposition := "for"
		if f.Kind.behaviour().duration == requestDelay {
			preposition = "after"
		}
		words = append(words, preposition, f.For.Duration.String())
	}
	return strings.Join(words, " ")
}

// Validate returns an error if the fault would do nothing, or something other than it describes.
func (f Fault) Validate() error {
	effect := f.Kind.behaviour()
	switch {
	case effect.kind == "":
		return fmt.Errorf("there is no fault of kind %q; the kinds are %q", f.Kind, Kinds())
	case !slices.Contains([]Class{Write, Read, Change, Request}, f.Class):
		return fmt.Errorf("%s: there is no class %q; write %q, %q, %q or %q", f.Kind, f.Class, Write, Read, Change, Request)
	case (f.Class == Change || f.Class == Request) && (!slices.Contains(effect.servers, f.Class) || f.Service != ""):
		return fmt.Errorf("%s: after a change of a file, and around a check's request, a server can only be killed", f)
	case f.At < 0:
		return fmt.Errorf("%s: requests are counted from 1; write 0 for each", f)
	case f.For.Duration < 0:
		return fmt.Errorf("%s: the duration must not be negative; write something like 300ms", f)
	case effect.valid != nil && !effect.valid(f):
		return fmt.Errorf("%s: %s", f, effect.invalid)
	case f.Version != "" && !effect.versioned:
		versioned := kindsWhere(func(b behaviour) bool { return b.versioned })
		return fmt.Errorf("%s: only %s has a version; leave it out", f, enumerate(versioned))
	case f.For.Duration == 0 && effect.duration == fixedDuration:
		return fmt.Errorf("%s: the duration is missing; write something like 300ms", f)
	case f.For.Duration != 0 && (effect.duration == noDuration || effect.duration == requestDelay && f.Class != Request):
		last := append(kindsWhere(func(b behaviour) bool { return b.duration == fixedDuration }),
			kindsWhere(func(b behaviour) bool { return b.duration == maxDuration })...)
		return fmt.Errorf("%s: only %s last; leave the duration out", f, enumerate(last))
	}
	return nil
}

// enumerate returns the kinds as text: "slow, stale and behind".
func enumerate(kinds []Kind) string {
	text := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(kinds), "[]")), ", ")
	if last := strings.LastIndex(text, ", "); last >= 0 {
		return text[:last] + " and " + text[last+len(", "):]
	}
	return text
}

// Schedule holds the faults that an operator gets from Arm to Disarm.
type Schedule struct {
	// Seed is the seed from which the schedule was generated. It is 0 if the schedule was written by hand.
	Seed uint32 `json:"seed,omitempty"`
	// Faults are in any order. Each request gets at most one of them. A fault for this very request takes precedence over
	// one for each request, and then an earlier one over a later one.
	Faults []Fault `json:"faults"`
}

// String returns the schedule on one line: "kill-after write 3, stale write 5 for 400ms".
func (s Schedule) String() string {
	if len(s.Faults) == 0 {
		return "no faults"
	}
	texts := make([]string, len(s.Faults))
	for i, fault := range s.Faults {
		texts[i] = fault.String()
	}
	return strings.Join(texts, ", ")
}

// Validate returns an error for the first fault that can't be injected.
func (s Schedule) Validate() error {
	for _, fault := range s.Faults {
		if err := fault.Validate(); err != nil {
			return err
		}
	}
	return nil
}
