// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"lva.io/operators/scripts/grading/audit"
)

// spoils matches writes of an operator that prevent later checks from working: it changes kinds or the objects that
// register webhooks, or creates objects that no object asks for.
func spoils(e audit.Event) bool {
	if !audit.Writes(e) || e.Code >= http.StatusMultipleChoices {
		return false
	}
	switch e.Group {
	case "apiextensions.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io":
		return true
	case "", "coordination.k8s.io", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io":
		return e.Resource == "namespaces"
	}
	return e.Verb == "create" && e.Subresource == ""
}

// persists matches the writes by which an operator can prevent an object from being deleted. Writes of its status are
// not among them.
func persists(e audit.Event) bool {
	return audit.Writes(e) && e.Code < http.StatusMultipleChoices &&
		e.Subresource == "" && (e.Verb == "update" || e.Verb == "patch")
}

// operatorFailure returns the failure of an operator whose writes are the reason for err, an error in our own work.
// since marks when the work that the operator spoiled began, and trying marks when we began to repair it. Nil: the
// reason lies elsewhere.
func (s *Suite) operatorFailure(err error, since, trying audit.Mark) *Failure {
	by := s.ByOperator()
	done := append(s.Audit.Since(since, by.And(spoils)), s.Audit.Since(trying, by.And(persists))...)
	if len(done) == 0 {
		return nil
	}
	return &Failure{
		Expected: "the operator leaves kinds and webhooks alone, creates nothing that no object asks for, " +
			"and lets deleted objects go",
		Observed: fmt.Sprintf("the cluster can't be brought back to how it was: %v", err),
		Evidence: summary(done),
	}
}

// summary counts the requests of each kind.
func summary(events []audit.Event) (lines []string) {
	counts := map[string]int{}
	example := map[string]string{}
	for _, e := range events {
		what := strings.TrimSuffix(e.Verb+" "+e.Resource+"/"+e.Subresource, "/")
		counts[what]++
		example[what] = e.String()
	}
	for what := range counts {
		lines = append(lines, what)
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, what := range lines {
		lines[i] = fmt.Sprintf("the operator sent %d × %s, as %s", counts[what], what, example[what])
	}
	return lines
}
