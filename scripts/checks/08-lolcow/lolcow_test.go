// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package lolcow_test holds the checks of lab 08. A Lolcow is a cow on a web page: its operator makes a Deployment and a Service for it.
// Checks of what stands in objects use a namespace in which no Pod may run, since a Pod takes a second of a processor; those of pages and
// of conditions share one Lolcow whose page is served.
package lolcow_test

import (
	"context"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
)

// The kind's identity is the lecture's.
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
		"least-privilege": check.AllowsNoMore(mayNeed),
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

// roleSuffices asks for a right, too, that only API servers with the admission plugin OwnerReferencesPermissionEnforcement ask for.
func roleSuffices() types.Feature {
	return features.New("the role is enough").
		Assess("in the whole run", check.RoleSuffices().Steps()[0].Func()).
		Assess("for owner references that block the deletion of the owner", check.Assess(assess(func(v visit) {
			c := v.penned()
			deployment, _ := v.herd.deployment(c)
			service, _ := v.herd.service(c)
			if !slices.ContainsFunc(slices.Concat(deployment.OwnerReferences, service.OwnerReferences), func(r metav1.OwnerReference) bool {
				return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
			}) {
				return
			}
			review, err := v.herd.Client.AuthorizationV1().SubjectAccessReviews().Create(v.ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: v.OperatorUser(), ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: c.Namespace, Verb: "update", Group: lolcows.Group, Resource: lolcows.Resource, Subresource: "finalizers",
				}},
			}, metav1.CreateOptions{})
			v.OK(v.t, "asking for a right of the operator", err)
			if !review.Status.Allowed {
				v.Fail(v.t, "the role allows what the admission plugin OwnerReferencesPermissionEnforcement asks for: the children have blockOwnerDeletion",
					"the operator may not update lolcows/finalizers, so that with this plugin it can't create a child",
					"the marker for it is: // +kubebuilder:rbac:groups=my.domain,resources=lolcows/finalizers,verbs=update")
			}
		}))).Feature()
}

// mayNeed are rights that a right operator may have, whatever it asked for in this run. Who applies needs create as well as patch, and the
// audit log shows only the patch; Pods say why a Deployment is not available; who deletes a Service to make another is not wrong for it.
func mayNeed(r audit.Right) bool {
	read := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
	write := r.Verb == "update" || r.Verb == "patch"
	switch r.Group + "/" + r.Resource {
	case "my.domain/lolcows", "/pods":
		return read
	case "my.domain/lolcows/status":
		return write || r.Verb == "get"
	case "my.domain/lolcows/finalizers":
		return r.Verb == "update"
	case "apps/deployments", "/services":
		return read || write || r.Verb == "create"
	case "apps/replicasets":
		return read
	}
	return false
}
