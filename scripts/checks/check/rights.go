// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/grading/audit"
)

// RoleSuffices is a check that the operator's role allows all of its requests.
func RoleSuffices() types.Feature {
	return features.New("the role is enough").Assess("in the whole run", suffices()).Feature()
}

// Needs are the verbs that a correct operator of a lab may need, by resource of the lab's API group.
type Needs map[string][]string

// LeastPrivilege is a check that the operator's role allows nothing beyond the requests of the run, the Needs of the
// lab and the general rights of operators. It comes last, since every check shows what the operator needs.
func LeastPrivilege(group string, needs Needs) types.Feature {
	return features.New("the role allows no more than is needed").
		Assess("in the whole run", spares(needs.inGroup(group))).Feature()
}

// RoleFits is RoleSuffices and LeastPrivilege in one check.
func RoleFits(group string, needs Needs) types.Feature {
	return features.New("the role allows what is needed").
		Assess("all of it", suffices()).
		Assess("and no more", spares(needs.inGroup(group))).Feature()
}

// AllowsNoMore is LeastPrivilege of a lab whose operator needs rights to several groups. may reports whether a correct
// operator may need a right.
func AllowsNoMore(may func(audit.Right) bool) types.Feature {
	return features.New("the role allows no more than is needed").Assess("in the whole run", spares(may)).Feature()
}

// inGroup returns a function that reports whether the needs include a right to a group.
func (n Needs) inGroup(group string) func(audit.Right) bool {
	return func(r audit.Right) bool { return r.Group == group && slices.Contains(n[r.Resource], r.Verb) }
}

func suffices() types.StepFunc {
	return Assess(func(_ context.Context, t *testing.T, c *Check) {
		t.Helper()
		denied := c.Audit.Since(0, c.ByOperator().And(audit.Denied))
		if len(denied) == 0 {
			return
		}
		var missing []string
		for _, right := range audit.ForbiddenRights(denied) {
			missing = append(missing, fmt.Sprintf("refused %d times; the marker for it is: %s", right.Count, right.Marker()))
		}
		c.Fail(t, "the role that your +kubebuilder:rbac markers generate allows all that the operator asks for",
			fmt.Sprintf("the API server refused %d of its requests (403 Forbidden)", len(denied)), missing...)
	})
}

func spares(may func(audit.Right) bool) types.StepFunc {
	return Assess(func(_ context.Context, t *testing.T, c *Check) {
		t.Helper()
		spare := c.rules.Spare(c.Audit.Since(0, c.ByOperator()), func(r audit.Right) bool {
			return may(r) || common(r)
		})
		if len(spare) == 0 {
			return
		}
		var evidence []string
		for _, line := range audit.Describe(spare) {
			evidence = append(evidence, "take this out of the +kubebuilder:rbac markers: "+line)
		}
		observed := fmt.Sprintf("it allows %s, which no request of the whole run needed",
			strings.Join(audit.Describe(spare), "; "))
		if slices.ContainsFunc(spare, audit.Right.Wildcard) {
			observed = fmt.Sprintf("it allows %s: a * also allows what does not exist yet",
				strings.Join(audit.Describe(spare), "; "))
		}
		c.Fail(t, "the role that your +kubebuilder:rbac markers generate allows what the operator needs, and nothing else",
			observed, evidence...)
	})
}

// common reports whether any operator may have a right: to elect a leader, to record Events, and to authenticate and
// authorize the clients of its metrics.
func common(r audit.Right) bool {
	switch {
	case r.Group == "coordination.k8s.io" && r.Resource == "leases":
		return r.Verb != "deletecollection"
	case (r.Group == "" || r.Group == "events.k8s.io") && r.Resource == "events":
		return slices.Contains([]string{"create", "patch", "update"}, r.Verb)
	case r.Group == "authentication.k8s.io" && r.Resource == "tokenreviews",
		r.Group == "authorization.k8s.io" && r.Resource == "subjectaccessreviews":
		return r.Verb == "create"
	}
	return false
}
