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

// LogLimit is the number of entries that a log keeps: the newest ones. It prevents an operator that sends requests
// without end from filling the memory.
const LogLimit = 20000

// textLimit is the maximum length of each text of an entry, in bytes. Names that Kubernetes accepts are shorter.
const textLimit = 1000

// Operator is the service of entries that are not requests: the operator was killed or started. Check is the service of
// entries that are requests of a check, which are logged together with those of the operator.
const (
	Operator = "operator"
	Check    = "check"
)

// Entry is a request of the operator and its result. With the service Operator, it is something that happened to the
// operator.
type Entry struct {
	// ID counts the entries of an injector from 1. If the first entry of a log has another ID, older entries were dropped.
	ID int `json:"id"`
	// Time is when the request arrived.
	Time time.Time `json:"time"`
	// Seconds is how long it took until the answer was handed over, or how long a watch lasted. It is 0 until then.
	Seconds float64 `json:"seconds,omitempty"`
	// Service is API, the name that was passed to Proxy, Operator, Check, or Storage.
	Service string `json:"service"`
	// Verb is the verb of a Kubernetes request (get, list, watch, create, update, patch, delete, deletecollection). For
	// other services it is the HTTP method in lower case, for the operator "killed" or "started", and for Storage what
	// happened to a file.
	Verb string `json:"verb"`
	// Resource includes the subresource, as in "icecreams/status". For other services it is the collection, such as
	// "movements", for a request to the API server that is not about a resource its path, and for Storage the file.
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// About describes the request in the service's own words, if its URL is not enough: "topping cream out". See
	// Describer.
	About string `json:"about,omitempty"`
	// Code is the HTTP status with which the service or the injector answered. It is 0 if there was no answer. If the
	// request was executed but its answer did not arrive (lost-answer, kill-after), it is the service's status.
	Code int `json:"code,omitempty"`
	// Write is true for a request that asks for a change.
	Write bool `json:"write,omitempty"`
	// Number is its position among the writes, or among the reads, of all services since Arm. It is 0 if the request does
	// not count.
	Number int `json:"number,omitempty"`
	// Fault is the fault that was injected. It is empty if there was none.
	Fault Kind `json:"fault,omitempty"`
	// Injected is true if the service has never seen the request. The answer, or the lack of one, is then the injector's.
	Injected bool `json:"injected,omitempty"`
	// Message gives more details: why a service refused the request, or why the operator could not be started again.
	Message string `json:"message,omitempty"`
}

// Answered returns the time at which the answer was handed over to the operator. The operator can't have known the
// answer before. It returns the zero time if there was no answer.
func (e Entry) Answered() time.Time {
	if e.Code == 0 || e.Fault.behaviour().loses {
		return time.Time{}
	}
	return e.Time.Add(time.Duration(math.Round(e.Seconds * float64(time.Second))))
}

// String returns the entry as a line of evidence: "15:04:05.000 update icecreams/status sundae → 409 Conflict (write 3,
// conflict)".
func (e Entry) String() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%s %s", e.Time.Format("15:04:05.000"), e.Summary())
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

// Summary returns the request, or the event, in a few words: "update icecreams/status sundae", "put movements (topping
// cream out)", or "the operator was killed".
func (e Entry) Summary() string {
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

// Class returns the class of the request, whether it counts or not.
func (e Entry) Class() Class {
	if e.Service == Storage {
		return Change
	}
	if e.Write {
		return Write
	}
	return Read
}

// limit cuts the texts of an entry, most of which come from the operator. It copies them, because a short part of a
// long URL would keep the whole URL in memory.
func (e *Entry) limit() {
	for _, text := range []*string{&e.Verb, &e.Resource, &e.Namespace, &e.Name, &e.About, &e.Message} {
		if len(*text) > textLimit {
			*text = strings.ToValidUTF8((*text)[:textLimit], "") + "…"
		}
		*text = strings.Clone(*text)
	}
}

// record is the log while it is written.
type record struct {
	began time.Time

	mutex   sync.Mutex
	next    int
	entries []*Entry
}

func newRecord() *record { return &record{began: time.Now()} }

// now returns the time of a monotonic clock, so that Time and Seconds of all entries can be compared.
func (r *record) now() time.Time { return r.began.Add(time.Since(r.began)).Round(0) }

// add logs an entry that begins now. Until it is finished, only update may change it.
func (r *record) add(entry Entry) *Entry {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.next++
	entry.limit()
	entry.ID, entry.Time = r.next, r.now()
	if len(r.entries) == 2*LogLimit {
		r.entries = append(r.entries[:0], r.entries[LogLimit:]...)
		clear(r.entries[LogLimit : 2*LogLimit])
	}
	r.entries = append(r.entries, &entry)
	return &entry
}

// update completes an entry that was added.
func (r *record) update(entry *Entry, change func(*Entry)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	change(entry)
	entry.limit()
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
