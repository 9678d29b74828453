// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

// evidenceLines is the maximum number of requests that a failed check shows.
const evidenceLines = 8

// Line is one request as a line of evidence.
type Line struct {
	Time time.Time
	// Object is the name of the object that the request is about. It is empty for a list.
	Object string
	// Always is true for a line that concerns every object: the operator was killed or started.
	Always bool
	Text   string
}

// Evidence selects the requests that led to a failure, in chronological order. It takes the last requests about the
// objects that the failure names and, if there is room, the last of the others.
func (c *Check) Evidence(requests []Line, expected, observed string) []string {
	about := c.complaint(expected, observed)
	var chosen []string
	named := func(line Line) bool { return slices.Contains(about, line.Object) }
	if len(about) > 0 && !slices.ContainsFunc(requests, named) && !c.Lab.Aggregated {
		chosen = append(chosen, fmt.Sprintf("the operator has sent no request about %s since this check began",
			english.WordSeries(about, "or")))
	}
	room := evidenceLines
	take := map[int]bool{}
	for _, first := range []bool{true, false} {
		for i, line := range slices.Backward(requests) {
			if room > 0 && (line.Always || named(line)) == first {
				take[i] = true
				room--
			}
		}
	}
	if skipped := len(requests) - len(take); skipped > 0 {
		which := "earlier requests"
		if !take[len(requests)-1] || !take[skipped] { // not only the first requests are left out
			which = "other requests"
		}
		chosen = append(chosen, fmt.Sprintf("(%s: %d)", which, skipped))
	}
	for i, line := range requests {
		if take[i] {
			chosen = append(chosen, line.Text)
		}
	}
	return chosen
}

// complaint returns the objects that a failure is about. These are the objects that only one of its two sentences
// names, because there the sentences differ. If there are none, these are the objects that both name.
func (c *Check) complaint(expected, observed string) []string {
	known := map[string]bool{}
	for _, event := range c.Audit.Since(c.began, func(e audit.Event) bool { return e.Name != "" }) {
		known[event.Name] = true
	}
	named := func(text string) (names []string) {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune(nameCharacters, r) }) {
			if word = strings.Trim(word, "-."); known[word] && !slices.Contains(names, word) {
				names = append(names, word)
			}
		}
		return names
	}
	wanted, seen := named(expected), named(observed)
	without := func(all, others []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(others, name) })
	}
	if differ := append(without(seen, wanted), without(wanted, seen)...); len(differ) > 0 {
		return differ
	}
	return seen
}

// nameCharacters are the characters of an object's name (RFC 1123).
const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-."

// requests returns the operator's requests since the check began, as evidence. An aggregated API server need not send
// requests, so their absence is no evidence, and the grader adds the server's log.
func (c *Check) requests(expected, observed string) []string {
	if c.operatorUser == "" {
		return nil
	}
	silence := []string{"the operator has sent no request since this check began"}
	if c.Lab.Aggregated {
		silence = nil
	}
	if c.schedule != nil {
		entries := c.faultLog()
		lines := []string{fmt.Sprintf("what went wrong: %s", c.schedule)}
		if !slices.ContainsFunc(entries, func(e faults.Entry) bool {
			return e.Service != faults.Check && e.Service != faults.Operator
		}) {
			lines = append(lines, silence...)
		}
		return append(lines, c.Evidence(c.Lines(entries), expected, observed)...)
	}
	events := c.Audit.Since(c.began, c.OperatorRequests())
	if len(events) == 0 {
		return silence
	}
	lines := make([]Line, len(events))
	for i, event := range events {
		lines[i] = Line{Time: event.Time, Object: event.Name, Text: event.String()}
	}
	return c.Evidence(lines, expected, observed)
}

// Lines converts the operator's requests and their faults into evidence. It replaces the UIDs by which a service knows
// objects with their names.
func (c *Check) Lines(entries []faults.Entry) []Line {
	names := c.objects()
	lines := make([]Line, len(entries))
	for i, entry := range entries {
		entry, object := names.named(entry)
		lines[i] = Line{Time: entry.Time, Object: object, Always: entry.Service == faults.Operator, Text: entry.String()}
	}
	return lines
}

// named maps the UIDs of objects to their names.
type named map[string]string

// objects returns the objects that were created or written in this run.
func (s *Suite) objects() named {
	names := named{}
	for _, event := range s.Audit.Since(0, audit.Writes) {
		var object struct {
			Metadata struct{ Name, UID string }
		}
		if len(event.Response) > 0 && json.Unmarshal(event.Response, &object) == nil && object.Metadata.UID != "" {
			names[object.Metadata.UID] = object.Metadata.Name
		}
	}
	return names
}

// named replaces the UIDs by which other services know objects with their names. It also returns the object that an
// entry is about. Empty: no known object.
func (n named) named(entry faults.Entry) (renamed faults.Entry, object string) {
	if slices.Contains([]string{faults.API, faults.Operator, faults.Check}, entry.Service) {
		return entry, entry.Name
	}
	for uid, name := range n {
		if strings.Contains(entry.Name+" "+entry.About, uid) {
			object = name
			entry.Name, entry.About = strings.ReplaceAll(entry.Name, uid, name), strings.ReplaceAll(entry.About, uid, name)
		}
	}
	return entry, object
}

// lastLines returns the last of a list of requests, as evidence.
func lastLines[Request fmt.Stringer](requests []Request) (lines []string) {
	if skipped := len(requests) - evidenceLines; skipped > 0 {
		lines = append(lines, fmt.Sprintf("(earlier requests: %d)", skipped))
		requests = requests[skipped:]
	}
	for _, request := range requests {
		lines = append(lines, request.String())
	}
	return lines
}
