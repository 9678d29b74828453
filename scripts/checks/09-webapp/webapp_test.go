// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package webapp_test holds the checks of lab 09. A WebApp is an image behind a node port: its operator makes a Deployment and a Service for
// it. One WebApp has a Pod that a kubelet runs, and its page is asked for over HTTP. All others are where no Pod may be, or where Pods are
// made and never start, since a Pod that runs takes a second of a processor.
package webapp_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
)

// The kind's identity is the lecture's.
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
		"foreign-goes":       foreignGoes(),
		"earlier-webapp":     earlierWebApp(),
		"available":          available(),
		"scale":              scale(),
		"selector":           selector(),
		"page":               page(),
		"port-heals":         portHeals(),
		"settles":            settles(),
		"restart":            restart(),
		"bad-day":            check.BadDay(assess(scenario)),
		"role-suffices":      check.RoleSuffices(),
		"least-privilege":    check.AllowsNoMore(func(r audit.Right) bool { return mayNeed(r) || extended && mayMigrate(r) }),
		"two-versions":       twoVersions(),
		"round-trip":         roundTrip(),
		"only-in-v1beta1":    onlyNewer(),
		"migrated":           migrated(),
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

// mayNeed are rights that a right operator may have, whatever it asked for in this run: who applies needs create as well as patch, and the
// audit log shows only the patch; Pods and ReplicaSets say why a Deployment is not available.
func mayNeed(r audit.Right) bool {
	read := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
	write := r.Verb == "update" || r.Verb == "patch"
	switch r.Group + "/" + r.Resource {
	case "apps.lva.io/webapps", "/pods", "apps/replicasets":
		return read
	case "apps.lva.io/webapps/status":
		return write || r.Verb == "get"
	case "apps.lva.io/webapps/finalizers":
		return r.Verb == "update"
	case "apps/deployments", "/services":
		return read || write || r.Verb == "create"
	}
	return false
}

// mayMigrate are rights that a right operator needs which migrates what is stored: to write all WebApps, and to say so in their definition.
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
