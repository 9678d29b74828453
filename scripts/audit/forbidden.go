// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Forbidden is a right that an account lacked, however often it asked.
type Forbidden struct {
	Verb, Group, Resource, Subresource string
	// URL is set for requests that are not about a resource.
	URL   string
	Count int
}

// ForbiddenRights sums up the requests that were forbidden, in a stable order.
func ForbiddenRights(events []Event) []Forbidden {
	counts := map[Forbidden]int{}
	for _, e := range events {
		if Denied(e) {
			counts[Forbidden{Verb: e.Verb, Group: e.Group, Resource: e.Resource, Subresource: e.Subresource, URL: e.URL}]++
		}
	}
	var rights []Forbidden
	for right, count := range counts {
		right.Count = count
		rights = append(rights, right)
	}
	slices.SortFunc(rights, func(a, b Forbidden) int {
		return cmp.Or(
			cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Subresource, b.Subresource),
			cmp.Compare(a.URL, b.URL), cmp.Compare(a.Verb, b.Verb))
	})
	return rights
}

// Marker is the line above Reconcile that would have given the right.
// The form is controller-gen's: https://book.kubebuilder.io/reference/markers/rbac
func (f Forbidden) Marker() string {
	if f.Resource == "" {
		return fmt.Sprintf("// +kubebuilder:rbac:urls=%s,verbs=%s", f.URL, f.Verb)
	}
	group := f.Group
	if group == "" {
		group = `""`
	}
	resource := strings.TrimSuffix(f.Resource+"/"+f.Subresource, "/")
	return fmt.Sprintf("// +kubebuilder:rbac:groups=%s,resources=%s,verbs=%s", group, resource, f.Verb)
}
