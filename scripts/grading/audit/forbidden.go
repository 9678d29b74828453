// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Forbidden lists the rights to a resource that an account lacked, however often it sent the requests.
type Forbidden struct {
	Group, Resource, Subresource string
	// Namespace is the namespace of the Leases for leader election. It is empty for everything else.
	Namespace string
	// URL is set for requests that are not about a resource.
	URL string
	// Verbs are the requested verbs, in the order in which Kubernetes' documentation lists them.
	Verbs []string
	Count int
}

// verbs are in the order in which they are written.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

func compareVerbs(a, b string) int {
	return cmp.Or(cmp.Compare(slices.Index(verbs, a), slices.Index(verbs, b)), cmp.Compare(a, b))
}

// ForbiddenRights sums up the requests that were forbidden, in a stable order.
func ForbiddenRights(events []Event) []Forbidden {
	type right struct{ group, resource, subresource, namespace, url string }
	counts := map[right]map[string]int{} // by verb
	for _, e := range events {
		if !Denied(e) {
			continue
		}
		missing := right{group: e.Group, resource: e.Resource, subresource: e.Subresource, url: e.URL}
		if leases(e.Group, e.Resource) {
			missing.namespace = e.Namespace
		}
		if counts[missing] == nil {
			counts[missing] = map[string]int{}
		}
		counts[missing][e.Verb]++
	}
	var rights []Forbidden
	for missing, requests := range counts {
		sum := Forbidden{
			Group: missing.group, Resource: missing.resource, Subresource: missing.subresource,
			Namespace: missing.namespace, URL: missing.url, Verbs: slices.SortedFunc(maps.Keys(requests), compareVerbs),
		}
		for _, count := range requests {
			sum.Count += count
		}
		rights = append(rights, sum)
	}
	slices.SortFunc(rights, compare)
	return rights
}

func compare(a, b Forbidden) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Subresource, b.Subresource),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.URL, b.URL))
}

func leases(group, resource string) bool {
	return group == "coordination.k8s.io" && resource == "leases"
}

// Marker returns the line above Reconcile that would have granted the rights, and those that are needed next: a
// client that may list but not watch would only be refused the watch. The form is controller-gen's:
// https://book.kubebuilder.io/reference/markers/rbac
func (f Forbidden) Marker() string {
	if f.Resource == "" {
		return fmt.Sprintf("// +kubebuilder:rbac:urls=%s,verbs=%s", f.URL, strings.Join(f.Verbs, ";"))
	}
	group := f.Group
	if group == "" {
		group = `""`
	}
	if f.Namespace != "" {
		group += ",namespace=" + f.Namespace
	}
	resource := strings.TrimSuffix(f.Resource+"/"+f.Subresource, "/")
	return fmt.Sprintf("// +kubebuilder:rbac:groups=%s,resources=%s,verbs=%s",
		group, resource, strings.Join(f.needed(), ";"))
}

// companions are verbs that a client of the resource needs together.
func (f Forbidden) companions() []string {
	switch {
	case leases(f.Group, f.Resource):
		return []string{"get", "create", "update"} // client-go/tools/leaderelection
	case f.Resource == "events":
		return []string{"create", "patch"} // client-go/tools/record and tools/events
	case slices.Contains(f.Verbs, "list"), slices.Contains(f.Verbs, "watch"):
		return []string{"list", "watch"} // client-go/tools/cache
	}
	return nil
}

func (f Forbidden) needed() []string {
	all := slices.Concat(f.Verbs, f.companions())
	slices.SortFunc(all, compareVerbs)
	return slices.Compact(all)
}
