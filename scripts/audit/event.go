// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Event is a request, and the answer to it.
type Event struct {
	// Time is when the request was received.
	Time time.Time
	User string
	// Verb is Kubernetes' verb: get, list, watch, create, update, patch, delete, deletecollection.
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
	// Request and Response are the bodies as JSON, where the audit policy logs them.
	Request, Response json.RawMessage
}

func newEvent(from *auditv1.Event) Event {
	event := Event{Time: from.RequestReceivedTimestamp.Time, User: from.User.Username, Verb: from.Verb}
	if ref := from.ObjectRef; ref != nil {
		event.Group, event.Resource, event.Subresource = ref.APIGroup, ref.Resource, ref.Subresource
		event.Namespace, event.Name = ref.Namespace, ref.Name
	} else {
		event.URL = from.RequestURI
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

// String is the request as a line of evidence: "15:04:05.000 update icecreams/status sundae → 409 Conflict".
func (e Event) String() string {
	what := e.URL
	if e.Resource != "" {
		what = strings.TrimSuffix(e.Resource+"/"+e.Subresource, "/")
	}
	line := fmt.Sprintf("%s %s %s", e.Time.Format("15:04:05.000"), e.Verb, what)
	if e.Name != "" {
		line += " " + e.Name
	}
	line += fmt.Sprintf(" → %d %s", e.Code, http.StatusText(e.Code))
	if status := e.writtenStatus(); status != "" {
		line += " " + status
	}
	return line
}

// writtenStatus is the status that the request wrote, shortened to its plain fields.
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

// Match chooses events.
type Match func(Event) bool

// By matches the requests of a user.
func By(user string) Match {
	return func(e Event) bool { return e.User == user }
}

// And matches what all of them match.
func (m Match) And(others ...Match) Match {
	return func(e Event) bool {
		return m(e) && !slices.ContainsFunc(others, func(other Match) bool { return !other(e) })
	}
}

// On matches requests about a resource or one of its subresources, of whatever version.
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

// Watching matches the operator's standing watches, which begin and end without its having done anything.
func Watching(e Event) bool { return e.Verb == "watch" }
