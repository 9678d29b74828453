// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestSpareRights(t *testing.T) {
	t.Parallel()
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	did := func(verb, group, resource, subresource string) Event {
		return Event{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: "shop", Code: 200}
	}
	const group = "demo.lva.io"
	for _, test := range []struct {
		name     string
		rules    Rules
		requests []Event
		want     []string
	}{
		{"used right", Rules{"": {rule(group, "icecreams", "delete")}}, []Event{did("delete", group, "icecreams", "")}, nil},
		{
			"unused right",
			Rules{"": {rule("", "secrets", "get", "list")}},
			[]Event{did("get", "", "configmaps", "")},
			[]string{"secrets (get, list)"},
		},
		{
			"a subresource is a resource of its own",
			Rules{"": {rule(group, "icecreams/status", "update"), rule(group, "icecreams", "update")}},
			[]Event{did("update", group, "icecreams", "status")},
			[]string{"icecreams.demo.lva.io (update)"},
		},
		{
			"get beside list and watch",
			Rules{"": {rule("", "pods", "get", "list", "watch")}},
			[]Event{did("watch", "", "pods", "")},
			nil,
		},
		{
			"list beside get",
			Rules{"": {rule("", "pods", "get", "list")}},
			[]Event{did("get", "", "pods", "")},
			[]string{"pods (list)"},
		},
		{
			"patch beside update",
			Rules{"": {rule("", "pods", "update", "patch")}},
			[]Event{did("update", "", "pods", "")},
			nil,
		},
		{
			"delete beside update",
			Rules{"": {rule("", "pods", "update", "delete")}},
			[]Event{did("update", "", "pods", "")},
			[]string{"pods (delete)"},
		},
		{
			"all verbs",
			Rules{"": {rule(group, "icecreams", "*")}},
			[]Event{did("delete", group, "icecreams", "")},
			[]string{"icecreams.demo.lva.io (*)"},
		},
		{
			"all resources, though all are used",
			Rules{"": {rule(group, "*", "delete")}},
			[]Event{did("delete", group, "icecreams", "")},
			[]string{"*.demo.lva.io (delete)"},
		},
		{
			"all groups",
			Rules{"": {rule("*", "icecreams", "delete")}},
			[]Event{did("delete", group, "icecreams", "")},
			[]string{"icecreams.* (delete)"},
		},
		{"right needed in other situations", Rules{"": {rule(group, "needed", "get")}}, nil, nil},
		{"wildcard verb of a needed right", Rules{"": {rule(group, "needed", "*")}}, nil, []string{"needed.demo.lva.io (*)"}},
		{
			"right used in another namespace",
			Rules{"kitchen": {rule("", "pods", "delete")}, "shop": {rule("", "pods", "delete")}},
			[]Event{did("delete", "", "pods", "")},
			[]string{"pods in kitchen (delete)"},
		},
		{
			"forbidden request",
			Rules{"": {rule("", "pods", "delete")}},
			[]Event{{Verb: "delete", Resource: "pods", Code: 403, Message: "cannot delete"}},
			[]string{"pods (delete)"},
		},
		{
			"a path",
			Rules{"": {{NonResourceURLs: []string{"/metrics", "/healthz"}, Verbs: []string{"get"}}}},
			[]Event{{Verb: "get", URL: "/healthz", Code: 200}},
			[]string{"/metrics (get)"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := Describe(test.rules.Spare(test.requests, func(r Right) bool { return r.Resource == "needed" }))
			if !slices.Equal(got, test.want) {
				t.Errorf("spare rights are %q, want %q", got, test.want)
			}
		})
	}
}
