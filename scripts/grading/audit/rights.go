// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules are the rules of an account's roles, by namespace. The key "" stands for the whole cluster.
type Rules map[string][]rbacv1.PolicyRule

// Right is a verb that a rule allows.
type Right struct {
	// Namespace is the namespace in which it applies. If it is empty, it applies in the whole cluster.
	Namespace string
	// Group and Resource are what the verb applies to. Resource includes the subresource, as in "icecreams/status".
	Group, Resource string
	// URL is set for requests that are not about a resource.
	URL  string
	Verb string
}

// Wildcard reports whether it allows more than it names.
func (r Right) Wildcard() bool {
	return strings.Contains(r.Group+r.Resource+r.URL+r.Verb, "*")
}

// rights returns the rules, split into single rights, in a stable order.
func (rules Rules) rights() (all []Right) {
	for namespace, listed := range rules {
		for _, rule := range listed {
			for _, verb := range rule.Verbs {
				for _, url := range rule.NonResourceURLs {
					all = append(all, Right{URL: url, Verb: verb})
				}
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						all = append(all, Right{Namespace: namespace, Group: group, Resource: resource, Verb: verb})
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.URL, b.URL), compareVerbs(a.Verb, b.Verb))
	})
	return slices.Compact(all)
}

// usedBy reports whether a request needed the right.
func (r Right) usedBy(e Event) bool {
	return !Denied(e) && e.Verb == r.Verb && (r.URL != "" && r.URL == strings.TrimSuffix(e.URL, "?") ||
		r.URL == "" && e.Group == r.Group && strings.TrimSuffix(e.Resource+"/"+e.Subresource, "/") == r.Resource &&
			(r.Namespace == "" || r.Namespace == e.Namespace))
}

// alternatives are verbs of a resource that an account may have in addition to one that it uses. A cache lists and
// watches, and a client that may do both learns nothing new from get. Update and patch can make the same changes.
var alternatives = [][2][]string{
	{{"list", "watch"}, {"get", "list", "watch"}},
	{{"update", "patch"}, {"update", "patch"}},
}

// Spare returns the rights that no request needed, and all rights with a wildcard, because it is unknown whether the
// operator needs all of such a right. needed reports whether a correct operator may need a right in other situations.
func (rules Rules) Spare(requests []Event, needed func(Right) bool) (spare []Right) {
	used := func(r Right) bool { return slices.ContainsFunc(requests, r.usedBy) }
	for _, right := range rules.rights() {
		excused := func(pair [2][]string) bool {
			return slices.Contains(pair[1], right.Verb) && slices.ContainsFunc(pair[0], func(verb string) bool {
				other := right
				other.Verb = verb
				return used(other)
			})
		}
		if right.Wildcard() || !needed(right) && !used(right) && !slices.ContainsFunc(alternatives, excused) {
			spare = append(spare, right)
		}
	}
	return spare
}

// Describe describes rights for people: one line for each resource or URL, with its verbs.
func Describe(rights []Right) (lines []string) {
	verbs := map[Right][]string{}
	var order []Right
	for _, right := range rights {
		to := right
		to.Verb = ""
		if verbs[to] == nil {
			order = append(order, to)
		}
		verbs[to] = append(verbs[to], right.Verb)
	}
	for _, to := range order {
		what := to.URL
		if what == "" {
			what = to.Resource
			if to.Group != "" {
				what += "." + to.Group
			}
		}
		if to.Namespace != "" {
			what += " in " + to.Namespace
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", what, strings.Join(verbs[to], ", ")))
	}
	return lines
}
