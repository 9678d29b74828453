// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package operatorlog

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Findings are the problems that an operator has logged, and the paths at which it serves webhooks.
type Findings struct {
	// Panics are sorted by frequency, the most frequent first. One that ended the operator comes before all others.
	Panics []Panic
	// Errors are the errors that Reconcile returned, the most frequent first.
	Errors []Error
	// Last is the last error that the operator logged, whatever it was about: "unable to start manager: no cache". It may
	// be empty.
	Last string
	// Webhooks are the paths at which the operator serves webhooks, sorted.
	Webhooks []string
}

// Panic is a panic at one position in the code, however often it occurred.
type Panic struct {
	// Value is the value of the panic: "index out of range [3] with length 3".
	Value string
	// Position is the first position in the operator's own module, such as internal/controller/icecream_controller.go:57.
	// It is empty if the log does not name it.
	Position string
	Count    int
	// Fatal is true for a panic that ended the operator.
	Fatal bool
}

// String returns the panic as the rest of a sentence: "index out of range [3] with length 3, at cmd/main.go:57".
func (p Panic) String() string {
	if p.Position == "" {
		return p.Value
	}
	return p.Value + ", at " + p.Position
}

// Error is an error that a reconciler returned, however often.
type Error struct {
	// Controller is the name of the controller in the log. It may be empty.
	Controller string
	// Text is the newest of the errors that differ only in names and numbers.
	Text  string
	Count int
	// Objects are the objects for which it was returned, by name, as far as the log contains their names.
	Objects map[string]Returned
}

// Returned is how often an error was returned for an object, and its newest text.
type Returned struct {
	Count int
	Text  string
}

const (
	mostPanics = 2
	mostErrors = 3
)

// Lines returns the problems, one sentence each, as evidence for a check that failed in the meantime.
func (f Findings) Lines() []string {
	var lines []string
	for _, p := range f.Panics[:min(len(f.Panics), mostPanics)] {
		lines = append(lines, fmt.Sprintf("the operator panicked%s: %s", times(p.Count), p))
	}
	controllers := map[string]bool{}
	for _, e := range f.Errors {
		controllers[e.Controller] = true
	}
	delete(controllers, "") // the log may not name the controller
	for _, e := range f.Errors[:min(len(f.Errors), mostErrors)] {
		subject := "Reconcile"
		if len(controllers) > 1 && controllers[e.Controller] {
			subject += " of the controller " + e.Controller
		}
		what := "an error"
		if e.Count > 1 {
			what = fmt.Sprintf("the same error %d times", e.Count)
		}
		lines = append(lines, fmt.Sprintf("%s returned %s: %s", subject, what, e.Text))
	}
	return lines
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" %d times", n)
}

// Read finds the problems in a log, or in a part of one.
func Read(log string, source Source) Findings {
	r := &reader{
		source: source, panics: map[string]*Panic{}, values: map[string]bool{}, recovered: map[string]int{},
		errors: map[string]*Error{}, webhooks: map[string]bool{},
	}
	for line := range strings.Lines(log) {
		r.line(strings.TrimRight(line, "\n"))
	}
	r.endPanic()
	return r.findings()
}

// reader reads a log line by line.
type reader struct {
	source    Source
	panics    map[string]*Panic // by position, or by value
	values    map[string]bool   // of the panics found so far
	recovered map[string]int    // panics that controller-runtime turned into errors, by value
	errors    map[string]*Error
	webhooks  map[string]bool
	last      string

	pending *Panic // its stack follows, line by line
	stack   stack
	waiting *record // its error follows on the next line
}

func (r *reader) line(line string) {
	if r.pending != nil {
		if r.stack.add(line) {
			return
		}
		r.endPanic()
	}
	if value, fatal, ok := raw(line); ok {
		r.pending, r.stack = &Panic{Value: value, Count: 1, Fatal: fatal}, stack{source: r.source}
		return
	}
	if r.waiting != nil {
		r.waiting.fields["error"] = strings.TrimSpace(line)
		r.failed(*r.waiting)
		r.waiting = nil
		return
	}
	record := parse(line)
	if record.isError {
		r.last = strings.TrimSuffix(record.message+": "+
			strings.ReplaceAll(cmp.Or(record.fields["error"], record.fields["err"]), "\n", "; "), ": ")
	}
	switch {
	case strings.Contains(record.message, observed):
		r.observed(line, record)
	case strings.Contains(record.message, "Reconciler error"):
		r.failed(record)
	case registering.MatchString(record.message) && record.fields["path"] != "":
		r.webhooks[record.fields["path"]] = true
	}
}

// registering matches controller-runtime's message about the path at which it serves a webhook.
var registering = regexp.MustCompile(`(?i)^registering .*webhook`)

// observed is the message with which k8s.io/apimachinery reports a panic that was recovered.
const observed = "Observed a panic"

// raw recognises a panic that Go itself prints: one that ends the program, or one that package net/http has caught.
func raw(line string) (value string, fatal, ok bool) {
	for _, prefix := range []string{"panic: ", "fatal error: "} {
		if value, found := strings.CutPrefix(line, prefix); found {
			return plain(value), true, true
		}
	}
	if found := served.FindStringSubmatch(line); found != nil {
		return plain(found[1]), false, true
	}
	return "", false, false
}

var served = regexp.MustCompile(`http2?: panic serving \S+: (.*)$`)

// plain returns a panic's value without the runtime's additions.
func plain(value string) string {
	value = repanicked.ReplaceAllString(value, "")
	return strings.TrimPrefix(value, "runtime error: ")
}

var repanicked = regexp.MustCompile(` \[recovered(, repanicked)?\]$`)

// observed processes a panic that was recovered and logged.
func (r *reader) observed(line string, record record) {
	_, text, _ := strings.Cut(record.message, observed)
	if strings.HasPrefix(text, " in reconciler: ") {
		return // it panics again, which ends the program, and Go prints it
	}
	p := Panic{Value: plain(record.fields["panic"]), Count: 1}
	if p.Value == "" {
		p.Value = plain(klogValue(strings.TrimPrefix(text, ": ")))
	}
	if trace := record.fields["stacktrace"]; strings.Contains(trace, "\n") {
		p.Position = r.source.position(trace)
		r.add(p)
		return
	}
	r.pending, r.stack = &p, stack{source: r.source}
	if strings.HasSuffix(line, "=<") || text != "" {
		return // the stack is on the next lines
	}
	r.endPanic()
}

// klogValue finds the value in "%#v (%v)", which klog logged until Kubernetes 1.30: it follows a Go literal in which
// every bracket and quote is closed.
func klogValue(text string) string {
	if !strings.HasSuffix(text, ")") {
		return text
	}
	var braces, parentheses, quotes int // those before the current byte: a line may be long, so it is read only once
	for i := range len(text) {
		if i > 0 && braces == 0 && parentheses == 0 && quotes%2 == 0 && strings.HasPrefix(text[i:], " (") {
			return text[i+2 : len(text)-1]
		}
		switch text[i] {
		case '{':
			braces++
		case '}':
			braces--
		case '(':
			parentheses++
		case ')':
			parentheses--
		case '"':
			quotes++
		}
	}
	return text
}

func (r *reader) endPanic() {
	if r.pending == nil {
		return
	}
	r.pending.Position = r.stack.position
	r.add(*r.pending)
	r.pending = nil
}

func (r *reader) add(p Panic) {
	r.values[p.Value] = true
	key := cmp.Or(p.Position, p.Value)
	if known := r.panics[key]; known != nil {
		known.Count++
		known.Fatal = known.Fatal || p.Fatal
		return
	}
	r.panics[key] = &p
}

// recoveredError matches the error that controller-runtime returns for a recovered panic.
var recoveredError = regexp.MustCompile(`^panic: (.*) \[recovered\]$`)

// failed processes an error that a reconciler has returned.
func (r *reader) failed(record record) {
	text := strings.ReplaceAll(cmp.Or(record.fields["error"], record.fields["err"]), "\n", "; ")
	if text == "<" { // klog begins a value of several lines like this
		r.waiting = &record
		return
	}
	if found := recoveredError.FindStringSubmatch(text); found != nil {
		r.recovered[plain(found[1])]++
		return
	}
	controller := cmp.Or(record.fields["controller"], record.fields["reconciler kind"])
	key := controller + " " + changing.ReplaceAllString(text, "…")
	known := r.errors[key]
	if known == nil {
		known = &Error{Objects: map[string]Returned{}}
		r.errors[key] = known
	}
	known.Controller, known.Text = controller, cmp.Or(text, "the log does not say which")
	known.Count++
	if name := objectOf(record); name != "" {
		known.Objects[name] = Returned{Count: known.Objects[name].Count + 1, Text: known.Text}
	}
}

// changing matches the parts in which errors of the same kind differ: names and numbers.
var changing = regexp.MustCompile(`"[^"]*"|'[^']*'|[0-9a-fA-F]{8}[0-9a-fA-F-]*|\d+`)

// objectOf returns the name of the object that was being reconciled.
func objectOf(record record) string {
	name := cmp.Or(record.fields["name"], record.fields["request"])
	return name[strings.LastIndex(name, "/")+1:]
}

func (r *reader) findings() Findings {
	f := Findings{Last: r.last, Webhooks: slices.Sorted(maps.Keys(r.webhooks))}
	for value, count := range r.recovered {
		// The panic was logged before it became an error, unless another logger logged it.
		if !r.values[value] {
			f.Panics = append(f.Panics, Panic{Value: value, Count: count})
		}
	}
	for _, p := range r.panics {
		f.Panics = append(f.Panics, *p)
	}
	slices.SortFunc(f.Panics, func(a, b Panic) int {
		if a.Fatal != b.Fatal {
			if a.Fatal {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.String(), b.String()))
	})
	for _, e := range r.errors {
		f.Errors = append(f.Errors, *e)
	}
	slices.SortFunc(f.Errors, func(a, b Error) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return f
}
