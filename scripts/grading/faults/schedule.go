// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is what happens to a request.
type Kind string

const (
	// Conflict answers an update, patch or delete of the API with 409, and any other request with 500. It is not done.
	Conflict Kind = "conflict"
	// TooManyRequests answers with 429 and Retry-After: 1. It is not done.
	TooManyRequests Kind = "too-many-requests"
	// ServerError answers with 500. It is not done.
	ServerError Kind = "server-error"
	// Unavailable answers with 503. It is not done.
	Unavailable Kind = "unavailable"
	// Forbidden answers with 403, as an admission policy may until it changes. It is not done.
	Forbidden Kind = "forbidden"
	// NoAnswer holds the request until the client gives up; with For, at most so long, and then the connection is cut. It
	// is not done.
	NoAnswer Kind = "no-answer"
	// LostAnswer lets the request be done, and cuts the connection instead of answering.
	LostAnswer Kind = "lost-answer"
	// HalfAnswer lets the request be done, sends the headers and half of the answer, and then nothing until the client
	// gives up; with For, it waits at most so long, and then cuts the connection.
	HalfAnswer Kind = "half-answer"
	// Reset resets the connection (RST) instead of answering: the error of a client names its port, which is another one
	// each time. The request is not done. Requests to the API share a connection, so none of them can be reset.
	Reset Kind = "reset"
	// Slow lets the request be done at once, and answers after For.
	Slow Kind = "slow"
	// Stale holds back every watch event for For, from this request on until the schedule ends. The request itself is
	// done.
	Stale Kind = "stale"
	// Cut ends all watches as a dropped connection does, after the request is done.
	Cut Kind = "cut"
	// Break breaks all watches off in the middle, as a failing API server does, after the request is done: client-go lists
	// again, about a second later. What was deleted meanwhile no event tells of.
	Break Kind = "break"
	// Behind answers the list with which a cache begins (resourceVersion=0) like an API server that is behind the others:
	// as it was at Version. What has changed since reaches the operator For later, as with Stale. Other reads are answered
	// as ever.
	Behind Kind = "behind"
	// KillBefore kills the operator (SIGKILL) when the request arrives. It is not done.
	KillBefore Kind = "kill-before"
	// KillAfter kills the operator (SIGKILL) when the request is done, before the answer reaches it.
	KillAfter Kind = "kill-after"
)

// Kinds are all kinds there are.
func Kinds() []Kind {
	return []Kind{
		Conflict, TooManyRequests, ServerError, Unavailable, Forbidden, NoAnswer, LostAnswer, HalfAnswer, Reset, Slow, Stale, Cut, Break, Behind,
		KillBefore, KillAfter,
	}
}

// Kills is true of the kinds that end the operator.
func (k Kind) Kills() bool { return k == KillBefore || k == KillAfter }

// Class is which requests are counted together.
type Class string

const (
	// Write is every request that asks for a change.
	Write Class = "write"
	// Read is every get and list. A watch is none.
	Read Class = "read"
	// Change is every change of a file in the folder where an API server stores: see Injector.Changed.
	Change Class = "change"
	// Request is every write that a check sends to an API server. The injector doesn't see them: the check itself kills
	// the server.
	Request Class = "request"
)

// API is the name of the API server among the services. The others are named by who gives them to Injector.Proxy.
const API = "api"

// Fault is one thing that happens to one request, or to each.
type Fault struct {
	Kind  Kind  `json:"kind"`
	Class Class `json:"class"`
	// Service is whose requests are counted; empty: those of all services together.
	Service string `json:"service,omitempty"`
	// At says to which of these requests it happens: the n-th since Arm, from 1. 0: to each.
	At int `json:"at,omitempty"`
	// For is how long Slow, Stale and Behind last, and NoAnswer and HalfAnswer at most; of KillBefore at a Request, how
	// long after that was sent the kill comes. The others have none.
	For metav1.Duration `json:"for,omitzero"`
	// Version is the resourceVersion at which Behind stands.
	Version string `json:"version,omitempty"`
}

// String is the fault in words: "kill-after write 3", "stale each api write for 400ms". The version of Behind is left
// out, since it is another one in each run.
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
		if f.Kind == KillBefore {
			preposition = "after"
		}
		words = append(words, preposition, f.For.Duration.String())
	}
	return strings.Join(words, " ")
}

// Validate finds what would make a fault do nothing, or something else than it says.
func (f Fault) Validate() error {
	switch {
	case !slices.Contains(Kinds(), f.Kind):
		return fmt.Errorf("there is no fault of kind %q; the kinds are %q", f.Kind, Kinds())
	case !slices.Contains([]Class{Write, Read, Change, Request}, f.Class):
		return fmt.Errorf("%s: there is no class %q; write %q, %q, %q or %q", f.Kind, f.Class, Write, Read, Change, Request)
	case f.Class == Change && (f.Kind != KillAfter || f.Service != ""), f.Class == Request && (!f.Kind.Kills() || f.Service != ""):
		return fmt.Errorf("%s: after a change of a file, and around a check's request, a server can only be killed", f)
	case f.At < 0:
		return fmt.Errorf("%s: requests are counted from 1; write 0 for each", f)
	case f.For.Duration < 0:
		return fmt.Errorf("%s: a fault can't last for less than nothing; write something like 300ms", f)
	case f.Kind == Reset && (f.Service == "" || f.Service == API):
		return fmt.Errorf("%s: only the connection of a request to another service than the API can be reset; name the service", f)
	case f.Kind == Behind && (f.Class != Read || f.Service != API || f.Version == ""):
		return fmt.Errorf("%s: only reads of the API can be behind, and only at a version", f)
	case f.Kind != Behind && f.Version != "":
		return fmt.Errorf("%s: only behind has a version; leave it out", f)
	case (f.Kind == Slow || f.Kind == Stale || f.Kind == Behind) && f.For.Duration == 0:
		return fmt.Errorf("%s: say for how long, with something like 300ms", f)
	case f.For.Duration != 0 && !slices.Contains([]Kind{Slow, Stale, Behind, NoAnswer, HalfAnswer}, f.Kind) &&
		(f.Kind != KillBefore || f.Class != Request):
		return fmt.Errorf("%s: only slow, stale, behind, no-answer and half-answer last; leave the duration out", f)
	}
	return nil
}

// Schedule is what happens to an operator from Arm to Disarm.
type Schedule struct {
	// Seed is what it was made from; 0: it was written by hand.
	Seed uint32 `json:"seed,omitempty"`
	// Faults in any order. A request gets one of them: one for this very request goes before one for each, then the
	// earlier in the list before the later.
	Faults []Fault `json:"faults"`
}

// String is the schedule on one line: "kill-after write 3, stale write 5 for 400ms".
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

// Validate finds the first fault that can't be made.
func (s Schedule) Validate() error {
	for _, fault := range s.Faults {
		if err := fault.Validate(); err != nil {
			return err
		}
	}
	return nil
}
