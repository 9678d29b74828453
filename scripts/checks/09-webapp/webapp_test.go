// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package webapp_test has the checks of lab 09. A WebApp is an image behind a node port: its operator creates a
// Deployment and a Service for it. One WebApp has a Pod that a kubelet runs, and the checks request its page over HTTP.
// All others are in namespaces where Pods are forbidden, or where Pods are created and never start, since a running Pod
// takes a second of CPU time.
package webapp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

// Identity of the kind, as the lecture defines it.
var (
	webapps = schema.GroupVersionResource{Group: "apps.lva.io", Version: "v1alpha1", Resource: "webapps"}
	kind    = webapps.GroupVersion().WithKind("WebApp")
)

func TestWebApp(t *testing.T) {
	extended := false
	check.Run(t, check.Features{
		"served":             served(),
		"children":           children(),
		"owner":              owner(),
		"default-replicas":   defaultReplicas(),
		"replicas-zero":      replicasZero(),
		"changes":            changes(),
		"foreign-service":    foreignService(),
		"foreign-deployment": foreignDeployment(),
		"port-taken":         portTaken(),
		"port-range":         portRange(),
		"error-reported":     errorReported(),
		"two-webapps":        twoWebApps(),
		"deleted-child":      deletedChild(),
		"drift":              drift(),
		"others-fields":      othersFields(),
		"foreign-stays":      foreignStays(),
		"foreign-goes":       foreignDeleted(),
		"earlier-webapp":     earlierWebApp(),
		"available":          available(),
		"scale":              scale(),
		"selector":           selector(),
		"page":               page(),
		"port-heals":         portHeals(),
		"settles":            settles(),
		"restart":            restart(),
		"bad-day":            check.BadDay(assess(scenario)),
		"role-suffices":      roleSuffices(),
		"least-privilege": leastPrivilege(func(r audit.Right) bool {
			return workload.MayNeed(webapps, r) || extended && mayMigrate(r)
		}),
		"two-versions":    twoVersions(),
		"round-trip":      roundTrip(),
		"only-in-v1beta1": onlyNewer(),
		"migrated":        migrated(),
	}, check.Options{
		Scenario: assess(scenario), Writes: 12, Reads: 2,
		Prepare: func(ctx context.Context, suite *check.Suite) (context.Context, error) {
			town, err := openTown(ctx, suite)
			if err != nil {
				return nil, err
			}
			suite.Lag, extended = town.lag, suite.Extended
			return context.WithValue(ctx, townKey{}, town), nil
		},
		CleanUp: func(ctx context.Context) error { return townOf(ctx).cleanUp(ctx) },
	})
}

// roleSuffices also requires a right that only API servers with the admission plugin
// OwnerReferencesPermissionEnforcement check.
func roleSuffices() types.Feature {
	return features.New("the role is enough").
		Assess("in the whole run", check.RoleSuffices().Steps()[0].Func()).
		Assess("for owner references that block the deletion of the owner", check.Assess(assess(func(v visit) {
			a := v.planned()
			deployment, _ := v.town.deployment(a)
			service, _ := v.town.service(a)
			missing, err := v.town.MissingReferenceRight(v.ctx, v.OperatorUser(), a.NamespacedName, &deployment, &service)
			v.OK(v.t, "asking for a right of the operator", err)
			if missing != nil {
				v.Fail(v.t, missing.Expected, missing.Observed, missing.Evidence...)
			}
		}))).Feature()
}

// leastPrivilege also checks that the operator may write only the definition of WebApps.
func leastPrivilege(may func(audit.Right) bool) types.Feature {
	return features.New("the role allows no more than is needed").
		Assess("in the whole run", check.AllowsNoMore(may).Steps()[0].Func()).
		Assess("and of one definition only", check.Assess(assess(func(v visit) {
			const other = "icecreams.demo.lva.io"
			for _, verb := range []string{"update", "patch"} {
				for _, subresource := range []string{"status", ""} {
					allowed, err := v.town.May(v.ctx, v.OperatorUser(), authorizationv1.ResourceAttributes{
						Verb: verb, Group: definitions.Group, Resource: definitions.Resource, Subresource: subresource, Name: other,
					})
					v.OK(v.t, "asking for a right of the operator", err)
					if allowed {
						what := strings.TrimSuffix(definitions.Resource+"/"+subresource, "/")
						v.Fail(v.t, "the operator may write no other CustomResourceDefinition than "+definitionName,
							fmt.Sprintf("it may %s %s of %s", verb, what, other), "in the marker, add resourceNames="+definitionName)
					}
				}
			}
		}))).Feature()
}

// mayMigrate reports whether a correct operator may need a right to migrate stored objects: it writes all WebApps, and
// updates the status of their definition.
func mayMigrate(r audit.Right) bool {
	write := r.Verb == "update" || r.Verb == "patch"
	switch r.Group + "/" + r.Resource {
	case "apps.lva.io/webapps", "apiextensions.k8s.io/customresourcedefinitions/status":
		return write || r.Verb == "get"
	case "apiextensions.k8s.io/customresourcedefinitions":
		return r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
	}
	return false
}
