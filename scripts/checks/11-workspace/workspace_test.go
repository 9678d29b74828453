// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package workspace_test has the checks of lab 11, which test that each CloudInstance has exactly one instance in a
// cloud that costs money, wherever the operator is killed, and that no instance keeps running after its CloudInstance
// is deleted. Each check has its own objects, and each object has its own image. By the image the checks identify its
// instances, independently of the operator's reports. See the lab's README for the rules.
package workspace_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/audit"
)

// These are the kinds of the lab.
var (
	resource   = schema.GroupVersionResource{Group: "cloud.lva.io", Version: "v1alpha1", Resource: "cloudinstances"}
	kind       = resource.GroupVersion().WithKind("CloudInstance")
	workspaces = resource.GroupVersion().WithResource("workspaces")
)

func TestWorkspace(t *testing.T) {
	check.Run(t, check.Features{
		"launched":         launched(),
		"finalizer-first":  finalizerFirst(),
		"nonce-first":      nonceFirst(),
		"recorded":         recorded(),
		"status":           statusReported(),
		"ended":            ended(),
		"namesake":         namesake(),
		"lost-answer":      lostAnswer(),
		"cloud-behind":     cloudBehind(),
		"tokens-forgotten": tokensForgotten(),
		"status-no-input":  statusNoInput(),
		"drift":            drift(),
		"backs-off":        backsOff(),
		"no-answer":        noAnswer(),
		"in-flight":        inFlight(),
		"imported":         imported(),
		"paused":           paused(),
		"foreground":       foreground(),
		"orphan":           orphan(),
		"old-news":         oldNews(),
		"settles":          settles(),
		"past-cache":       pastCache(),
		"every-boundary":   everyBoundary(),
		"bad-day":          check.BadDay(assess(scenario)),
		"role-suffices":    check.RoleSuffices(),
		"least-privilege":  check.AllowsNoMore(mayNeed),
	}, check.Options{
		Scenario: assess(scenario), Writes: 20, Reads: 20,
		Scenes: []check.Scene{{Name: "the operator starts with an old list", Play: assess(oldList)}},
		Prepare: func(ctx context.Context, suite *check.Suite) (context.Context, error) {
			r, err := open(ctx, suite)
			if err != nil {
				return nil, err
			}
			suite.Lag = r.lagNow
			return context.WithValue(ctx, regionKey{}, r), nil
		},
		CleanUp: func(ctx context.Context) error { return regionOf(ctx).empty(ctx) },
	})
}

// mayNeed reports whether a correct operator may need a right, whatever requests it sent in this run.
func mayNeed(r audit.Right) bool {
	if r.Group != resource.Group {
		return false
	}
	write := r.Verb == "update" || r.Verb == "patch"
	switch r.Resource {
	case "cloudinstances":
		return write || r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
	case "cloudinstances/status":
		return write || r.Verb == "get"
	case "cloudinstances/finalizers":
		return r.Verb == "update"
	case "workspaces":
		return write || r.Verb == "get" || r.Verb == "create" || r.Verb == "delete"
	}
	return false
}
