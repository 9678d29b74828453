// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package lolcow_test has the checks of lab 08. A Lolcow is a cow on a web page: its operator creates a Deployment and
// a Service for it. Checks that only read objects use a namespace in which no Pod may run, since a Pod takes a second
// of CPU time. Checks of pages and conditions share one Lolcow whose page is served.
package lolcow_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

// Identity of the kind, as the lecture defines it.
var (
	lolcows = schema.GroupVersionResource{Group: "my.domain", Version: "v1alpha1", Resource: "lolcows"}
	kind    = lolcows.GroupVersion().WithKind("Lolcow")
)

func TestLolcow(t *testing.T) {
	check.Run(t, check.Features{
		"children":        children(),
		"owner":           owner(),
		"deleted-child":   deletedChild(),
		"drift-template":  driftTemplate(),
		"drift-service":   driftService(),
		"others-fields":   othersFields(),
		"selectors":       selectors(),
		"two-lolcows":     twoLolcows(),
		"namespaces":      namespaces(),
		"foreign":         foreignChild(),
		"foreign-gone":    foreignGone(),
		"pods":            podStates(),
		"page":            page(),
		"greeting":        greeting(),
		"any-greeting":    anyGreeting(),
		"fortune":         fortune(),
		"port-moves":      portMoves(),
		"available":       available(),
		"degraded-image":  degradedImage(),
		"degraded-crash":  degradedCrash(),
		"quota":           quota(),
		"port-range":      portRange(),
		"error-reported":  errorReported(),
		"port-taken":      portTaken(),
		"events":          events(),
		"settles":         settles(),
		"restart":         restart(),
		"story":           story(),
		"collected":       collected(),
		"metrics":         gauge(),
		"leader":          leader(),
		"namespaced":      namespaced(),
		"role-suffices":   roleSuffices(),
		"least-privilege": check.AllowsNoMore(func(r audit.Right) bool { return workload.MayNeed(lolcows, r) }),
		"bad-day":         check.BadDay(assess(scenario)),
	}, check.Options{
		Scenario: assess(scenario), Writes: 10, Reads: 2,
		Prepare: func(ctx context.Context, suite *check.Suite) (context.Context, error) {
			herd, err := openHerd(ctx, suite)
			if err != nil {
				return nil, err
			}
			suite.Lag = herd.Lag
			return context.WithValue(ctx, herdKey{}, herd), nil
		},
		CleanUp: func(ctx context.Context) error { return herdOf(ctx).cleanUp(ctx) },
	})
}

// roleSuffices also requires a right that only API servers with the admission plugin
// OwnerReferencesPermissionEnforcement check.
func roleSuffices() types.Feature {
	return features.New("the role is enough").
		Assess("in the whole run", check.RoleSuffices().Steps()[0].Func()).
		Assess("for owner references that block the deletion of the owner", check.Assess(assess(func(v visit) {
			c := v.createInPaddock()
			deployment, _ := v.herd.deployment(c)
			service, _ := v.herd.service(c)
			missing, err := v.herd.MissingReferenceRight(v.ctx, v.OperatorUser(), c.NamespacedName, &deployment, &service)
			v.OK(v.t, "asking for a right of the operator", err)
			if missing != nil {
				v.Fail(v.t, missing.Expected, missing.Observed, missing.Evidence...)
			}
		}))).Feature()
}
