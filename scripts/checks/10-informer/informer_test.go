// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package informer_test has the checks of lab 10. An AuthorizedKey is a line of a file on the node: the checks read
// that file, tamper with it, and watch how the operator replaces it.
package informer_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lva.io/operators/scripts/checks/check"
)

// Identity of the kind, as the lecture defines it.
var (
	keysResource = schema.GroupVersionResource{
		Group:    "node.chrishein.com",
		Version:  "v1alpha1",
		Resource: "authorizedkeys",
	}
	keysKind = keysResource.GroupVersion().WithKind("AuthorizedKey")
)

func TestInformer(t *testing.T) {
	check.Run(t, check.Features{
		"added":         added(),
		"foreign-lines": foreignLines(),
		"changed":       changed(),
		"deleted":       deleted(),
		"tombstone":     tombstone(),
		"mode":          mode(),
		"atomic":        atomic(),
		"same-key":      sameKey(),
		"status":        status(),
		"invalid-key":   invalidKey(),
		"resync":        resync(),
		"caches-first":  cachesFirst(),
		"while-down":    whileDown(),
		"retries":       retries(),
		"shutdown":      shutdown(),
		"settles":       settles(),
		"bad-day":       check.BadDay(assess(scenario)),
		"editor-role":   editorRole(),
		"policy":        policy(),
		"role-suffices": check.RoleSuffices(),
		"least-privilege": nodesRead(check.LeastPrivilege(keysResource.Group, check.Needs{
			"authorizedkeys":        {"get", "list", "watch"},
			"authorizedkeys/status": {"get", "update", "patch"},
		})),
	}, check.Options{
		Scenario: assess(scenario), Writes: 5, Reads: 1,
		Prepare: func(ctx context.Context, suite *check.Suite) (context.Context, error) {
			n, err := openNode(ctx, suite)
			if err != nil {
				return nil, err
			}
			suite.Lag = n.lag.Now
			return context.WithValue(ctx, nodeKey{}, n), nil
		},
		CleanUp: func(ctx context.Context) error { return nodeOf(ctx).cleanUp(ctx) },
	})
}
