// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"cmp"
	"fmt"
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
	var rights []Forbidden
	for _, e := range events {
		if !Denied(e) {
			continue
		}
		missing := Forbidden{Group: e.Group, Resource: e.Resource, Subresource: e.Subresource, URL: e.URL}
		if leases(e.Group, e.Resource) {
			missing.Namespace = e.Namespace
		}
		i := slices.IndexFunc(rights, func(r Forbidden) bool { return compare(r, missing) == 0 })
		if i < 0 {
			i, rights = len(rights), append(rights, missing)
		}
		right := &rights[i]
		right.Count++
		if !slices.Contains(right.Verbs, e.Verb) {
			right.Verbs = append(right.Verbs, e.Verb)
			slices.SortFunc(right.Verbs, compareVerbs)
		}
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
