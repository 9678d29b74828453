// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"
)

// LogLimit is how many entries a log keeps: the newest ones. An operator that asks without end must not fill the
// memory.
const LogLimit = 20000

// Operator is the service of entries that are no requests: the operator was killed, or started. Check is the service of
// entries that are requests of a check, which stand beside those of the operator.
const (
	Operator = "operator"
	Check    = "check"
)

// Entry is a request of the operator and what came of it; or, with the service Operator, what happened to the operator.
type Entry struct {
	// ID counts the entries of an injector from 1. If the first entry of a log has another one, older ones were dropped.
	ID int `json:"id"`
	// Time is when the request arrived.
	Time time.Time `json:"time"`
	// Seconds is how long the answer took, until it was handed over; of a watch, how long it lasted. 0 while neither came.
	Seconds float64 `json:"seconds,omitempty"`
	// Service is API, or the name that was given to Proxy, or Operator, or Check, or Storage.
	Service string `json:"service"`
	// Verb is Kubernetes' (get, list, watch, create, update, patch, delete, deletecollection); of other services the HTTP
	// method in small letters; of the operator "killed" or "started"; of Storage what happened to a file.
	Verb string `json:"verb"`
	// Resource with its subresource, as "icecreams/status"; of other services the collection, as "movements"; of a request
	// to the API server that is about no resource its path; of Storage the file.
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// About says what it is about where the address does not, in the service's own words: "topping cream out". See
	// Describer.
	About string `json:"about,omitempty"`
	// Code is the HTTP status with which it was answered, by the service or by the injector. 0: it never was. Of a request
	// that was done but whose answer did not arrive (lost-answer, kill-after) it is the service's.
	Code int `json:"code,omitempty"`
	// Write is true of what asks for a change.
	Write bool `json:"write,omitempty"`
	// Number is its place among the writes, or among the reads, of all services since Arm. 0: it does not count.
	Number int `json:"number,omitempty"`
	// Fault is what was done to it; empty: nothing.
	Fault Kind `json:"fault,omitempty"`
	// Injected: the service has never seen it, the answer or the lack of one is the injector's.
	Injected bool `json:"injected,omitempty"`
	// Message says what else is to be known: why a service refused it, or why the operator could not be started again.
	Message string `json:"message,omitempty"`
}

// Answered is when the answer was handed over to the operator; before, the operator can't have known it. The zero time:
// it has not been answered.
func (e Entry) Answered() time.Time {
	if e.Code == 0 || e.Fault.behaviour().loses {
		return time.Time{}
	}
	return e.Time.Add(time.Duration(math.Round(e.Seconds * float64(time.Second))))
}

// String is the entry as a line of evidence: "15:04:05.000 update icecreams/status sundae → 409 Conflict (write 3,
// conflict)".
func (e Entry) String() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s %s", e.Time.Format("15:04:05.000"), e.What())
	switch {
	case e.Service == Operator, e.Service == Storage:
	case e.Code == 0:
		line.WriteString(" → no answer")
	default:
		fmt.Fprintf(&line, " → %d %s", e.Code, http.StatusText(e.Code))
	}
	var notes []string
	if e.Number > 0 {
		notes = append(notes, fmt.Sprintf("%s %d", e.Class(), e.Number))
	}
	for _, note := range []string{string(e.Fault), e.Message} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	if len(notes) > 0 {
		fmt.Fprintf(&line, " (%s)", strings.Join(notes, ", "))
	}
	return line.String()
}

// What is what was asked for: "update icecreams/status sundae", "put movements (topping cream out)", or "the operator
// was killed".
func (e Entry) What() string {
	if e.Service == Operator {
		return "the operator was " + e.Verb
	}
	what := e.Name
	if e.About != "" {
		what = "(" + e.About + ")"
	}
	asked := strings.Join(strings.Fields(e.Verb+" "+e.Resource+" "+what), " ")
	switch e.Service {
	case Check:
		return "the check: " + asked
	case Storage:
		return "the server: " + asked
	}
	return asked
}

// Class is the class of the request, whether it counts or not.
func (e Entry) Class() Class {
	if e.Service == Storage {
		return Change
	}
	if e.Write {
		return Write
	}
	return Read
}

// record is the log while it is written.
type record struct {
	began time.Time

	mutex   sync.Mutex
	next    int
	entries []*Entry
}

func newRecord() *record { return &record{began: time.Now()} }

// now is the time on a clock that cannot be set: Time and Seconds of all entries can be compared.
func (r *record) now() time.Time { return r.began.Add(time.Since(r.began)).Round(0) }

// add logs an entry that begins now. Until it is finished it may be changed by change only.
func (r *record) add(entry Entry) *Entry {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.next++
	entry.ID, entry.Time = r.next, r.now()
	if len(r.entries) == 2*LogLimit {
		r.entries = append(r.entries[:0], r.entries[LogLimit:]...)
		clear(r.entries[LogLimit : 2*LogLimit])
	}
	r.entries = append(r.entries, &entry)
	return &entry
}

// change completes an entry that was added.
func (r *record) change(entry *Entry, how func(*Entry)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	how(entry)
}

func (r *record) all() []Entry {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	newest := r.entries[max(0, len(r.entries)-LogLimit):]
	entries := make([]Entry, len(newest))
	for i, entry := range newest {
		entries[i] = *entry
	}
	return entries
}
