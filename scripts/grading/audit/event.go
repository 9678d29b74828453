// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Event is a request and the response to it.
type Event struct {
	// ID is the request's audit ID.
	ID string
	// Time is when the request was received.
	Time time.Time
	User string
	// UserAgent is the user agent of the program that sent it.
	UserAgent string
	// Verb is the verb in Kubernetes' terms: get, list, watch, create, update, patch, delete, deletecollection.
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	// URL is the path of a request that is not about a resource.
	URL string
	// Code is the answer's HTTP status.
	Code int
	// Message is the answer's message if it is an error.
	Message string
	// FailedOpen are the names of webhooks that gave no answer, and whose failure policy let the request pass.
	FailedOpen []string
	// Request and Response are the bodies as JSON, if the audit policy logs them.
	Request, Response json.RawMessage
}

// failedOpen is the prefix of the annotation on a request that a webhook should have reviewed
// (k8s.io/apiserver/pkg/admission/plugin/webhook).
const failedOpen = "failed-open."

func newEvent(from *auditv1.Event) Event {
	event := Event{
		ID: string(from.AuditID), Time: from.RequestReceivedTimestamp.Time,
		User: from.User.Username, UserAgent: from.UserAgent, Verb: from.Verb,
	}
	if ref := from.ObjectRef; ref != nil {
		event.Group, event.Resource, event.Subresource = ref.APIGroup, ref.Resource, ref.Subresource
		event.Namespace, event.Name = ref.Namespace, ref.Name
	} else {
		event.URL = from.RequestURI
	}
	for _, key := range slices.Sorted(maps.Keys(from.Annotations)) {
		if strings.HasPrefix(key, failedOpen) {
			event.FailedOpen = append(event.FailedOpen, from.Annotations[key])
		}
	}
	if status := from.ResponseStatus; status != nil {
		event.Code, event.Message = int(status.Code), status.Message
	}
	if from.RequestObject != nil {
		event.Request = from.RequestObject.Raw
	}
	if from.ResponseObject != nil {
		event.Response = from.ResponseObject.Raw
		if event.Name == "" {
			event.Name = nameOf(event.Response) // a create names its object only in the answer
		}
	}
	return event
}

func nameOf(object json.RawMessage) string {
	var named struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(object, &named)
	return named.Metadata.Name
}

// String returns the request as a line of evidence: "15:04:05.000 update icecreams/status sundae → 409 Conflict".
func (e Event) String() string {
	what := e.URL
	if e.Resource != "" {
		what = strings.TrimSuffix(e.Resource+"/"+e.Subresource, "/")
	}
	words := []string{e.Time.Format("15:04:05.000"), e.Verb, what}
	if e.Name != "" {
		words = append(words, e.Name)
	}
	words = append(words, "→", strconv.Itoa(e.Code), http.StatusText(e.Code))
	if status := e.writtenStatus(); status != "" {
		words = append(words, status)
	}
	line := []string{strings.Join(words, " ")}
	for _, webhook := range e.FailedOpen {
		line = append(line,
			fmt.Sprintf("the webhook %s did not respond, and failurePolicy Ignore let the request pass", webhook))
	}
	return strings.Join(line, "; ")
}

// mostLines is the largest number of requests that are shown as evidence.
const mostLines = 8

// Lines returns the first of some requests as evidence, one line each.
func Lines(events []Event) []string {
	var all []string
	for _, e := range events[:min(mostLines, len(events))] {
		all = append(all, e.String())
	}
	return all
}

// writtenStatus returns the status that the request wrote, shortened to its plain fields.
func (e Event) writtenStatus() string {
	if e.Subresource != "status" || len(e.Request) == 0 {
		return ""
	}
	var object struct {
		Status map[string]any `json:"status"`
	}
	if json.Unmarshal(e.Request, &object) != nil {
		return ""
	}
	var fields []string
	for name, value := range object.Status {
		switch value.(type) {
		case bool, string, float64:
			fields = append(fields, fmt.Sprintf("%s=%v", name, value))
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

// Match selects events.
type Match func(Event) bool

// And returns a Match for events that m and all others match.
func (m Match) And(others ...Match) Match {
	return func(e Event) bool {
		return m(e) && !slices.ContainsFunc(others, func(other Match) bool { return !other(e) })
	}
}

// On matches requests about a resource or one of its subresources, of any version.
func On(group, resource string) Match {
	return func(e Event) bool { return e.Group == group && e.Resource == resource }
}

// Writes matches requests that ask for a change.
func Writes(e Event) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Denied matches requests that were forbidden (403) by the account's role.
func Denied(e Event) bool {
	return e.Code == http.StatusForbidden && strings.Contains(e.Message, "cannot")
}

// Around matches requests that bypassed the proxy, which marks the IDs of the requests that pass through it.
func Around(mark string) Match {
	return func(e Event) bool { return !strings.HasPrefix(e.ID, mark+"-") }
}

// Watching matches watches, which begin and end without any action of the operator.
func Watching(e Event) bool { return e.Verb == "watch" }
