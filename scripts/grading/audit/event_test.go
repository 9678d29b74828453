// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// The lines are shortened logs of the API server of one of our clusters.
func TestEventString(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, line, want string }{
		{
			"a write of the status, with what was written",
			`{"verb":"update","user":{"username":"me"},"requestReceivedTimestamp":"2026-03-01T12:13:14.056789Z",
			"objectRef":{"resource":"icecreams","name":"sundae","apiGroup":"demo.lva.io","subresource":"status"},
			"requestObject":{"status":{"toppingsCount":2,"soldOut":true,"conditions":[{"type":"Ready"}]}},"responseStatus":{"code":409}}`,
			"12:13:14.056 update icecreams/status sundae → 409 Conflict soldOut=true toppingsCount=2",
		},
		{
			"a create, whose name is in the answer only",
			`{"verb":"create","requestReceivedTimestamp":"2026-03-01T12:13:14.000000Z","objectRef":{"resource":"configmaps"},
			"responseObject":{"metadata":{"name":"menu-x7k2"}},"responseStatus":{"code":201}}`,
			"12:13:14.000 create configmaps menu-x7k2 → 201 Created",
		},
		{
			"a list",
			`{"verb":"list","requestReceivedTimestamp":"2026-03-01T12:13:14.000000Z","objectRef":{"resource":"icecreams","apiGroup":"demo.lva.io"},
			"responseStatus":{"code":403,"message":"icecreams.demo.lva.io is forbidden: User \"me\" cannot list resource"}}`,
			"12:13:14.000 list icecreams → 403 Forbidden",
		},
		{
			"a request that a webhook should have judged",
			`{"verb":"create","requestReceivedTimestamp":"2026-03-01T12:13:14.000000Z","objectRef":{"resource":"icecreams","name":"sundae"},
			"annotations":{"authorization.k8s.io/decision":"allow",
			"failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"validate.shop"},
			"responseStatus":{"code":201}}`,
			"12:13:14.000 create icecreams sundae → 201 Created; " +
				"the webhook validate.shop did not respond, and failurePolicy Ignore let the request pass",
		},
		{
			"a request that is about no resource",
			`{"verb":"get","requestReceivedTimestamp":"2026-03-01T12:13:14.000000Z","requestURI":"/metrics","responseStatus":{"code":200}}`,
			"12:13:14.000 get /metrics → 200 OK",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := parse(t, test.line).String(); got != test.want {
				t.Errorf("String() =\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func parse(t *testing.T, line string) Event {
	t.Helper()
	var from auditv1.Event
	if err := json.Unmarshal([]byte(line), &from); err != nil {
		t.Fatal(err)
	}
	event := newEvent(&from)
	event.Time = event.Time.In(time.UTC)
	return event
}

func TestMatch(t *testing.T) {
	t.Parallel()
	_, log := newLog(t)
	event := Event{
		ID: "mark-7", User: "me", Verb: "patch", Group: "demo.lva.io", Resource: "icecreams",
		Code: 403, Message: `User "me" cannot patch`,
	}
	for _, test := range []struct {
		name  string
		match Match
		want  bool
	}{
		{"by the user", log.By("me"), true},
		{"by another", log.By("you"), false},
		{"by the proxy", Around("mark"), false},
		{"around the proxy", Around("mar"), true},
		{"on the resource", On("demo.lva.io", "icecreams"), true},
		{"on one of the same name in another group", On("", "icecreams"), false},
		{"a write", Writes, true},
		{"a watch", Watching, false},
		{"denied", Denied, true},
		{"all of several", log.By("me").And(Writes, Denied), true},
		{"not all of several", log.By("me").And(Writes, Watching), false},
	} {
		if got := test.match(event); got != test.want {
			t.Errorf("%s: match = %t", test.name, got)
		}
	}
	// Admission also returns 403, but no permission is missing then.
	event.Message = "namespace is being terminated"
	if Denied(event) {
		t.Error("a request that admission refused counts as a missing right")
	}
}

func TestForbiddenRights(t *testing.T) {
	t.Parallel()
	forbidden := func(verb, group, resource, subresource, url string) Event {
		return Event{
			Namespace: map[bool]string{true: "shop"}[resource == "leases"], Verb: verb,
			Group: group, Resource: resource, Subresource: subresource, URL: url,
			Code: 403, Message: "cannot", Name: "differs", Time: time.Now(),
		}
	}
	list := forbidden("list", "demo.lva.io", "icecreams", "", "")
	allowed := Event{Verb: "delete", Group: "demo.lva.io", Resource: "icecreams", Code: 200}
	other := list
	other.Name = "another"
	rights := ForbiddenRights([]Event{
		forbidden("get", "", "", "", "/metrics"),
		forbidden("update", "demo.lva.io", "icecreams", "status", ""), allowed, list,
		forbidden("delete", "demo.lva.io", "icecreams", "", ""),
		forbidden("create", "", "pods", "exec", ""),
		forbidden("create", "", "configmaps", "", ""), other,
		forbidden("get", "coordination.k8s.io", "leases", "", ""),
		forbidden("create", "", "events", "", ""),
	})
	var got []string
	for _, right := range rights {
		got = append(got, fmt.Sprintf("%d × %s: %s", right.Count, strings.Join(right.Verbs, ";"), right.Marker()))
	}
	// The marker also contains the verbs that are needed next, so that one round is enough.
	want := []string{
		"1 × get: // +kubebuilder:rbac:urls=/metrics,verbs=get",
		`1 × create: // +kubebuilder:rbac:groups="",resources=configmaps,verbs=create`,
		`1 × create: // +kubebuilder:rbac:groups="",resources=events,verbs=create;patch`,
		`1 × create: // +kubebuilder:rbac:groups="",resources=pods/exec,verbs=create`,
		"1 × get: // +kubebuilder:rbac:groups=coordination.k8s.io,namespace=shop,resources=leases,verbs=get;create;update",
		"3 × list;delete: // +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch;delete",
		"1 × update: // +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=update",
	}
	if !slices.Equal(got, want) {
		t.Errorf("markers are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An operator can ask for as many URLs, with as many methods, as it likes.
func TestForbiddenRightsToManyURLs(t *testing.T) {
	t.Parallel()
	var events []Event
	const many = 200_000
	for i := range many {
		events = append(events,
			Event{Verb: "get", URL: fmt.Sprintf("/%d", i), Code: 403, Message: "cannot"},
			Event{Verb: fmt.Sprint(i), URL: "/", Code: 403, Message: "cannot"})
	}
	rights := ForbiddenRights(events)
	if len(rights) != many+1 || len(rights[0].Verbs) != many || rights[0].Count != many {
		t.Errorf("there are %d rights, want %d", len(rights), many+1)
	}
}
