// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/audit"
)

// May asks the API server whether a user may send a request.
func (o *Owners) May(ctx context.Context, user string, request authorizationv1.ResourceAttributes) (bool, error) {
	review, err := o.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &request},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether %s may %s %s: %w", user, request.Verb, request.Resource, err)
	}
	return review.Status.Allowed, nil
}

// MissingReferenceRight describes the right that a user lacks to set the owner references that the children of an owner
// have, if the API server uses the admission plugin OwnerReferencesPermissionEnforcement. Nil: none. If a reference has
// blockOwnerDeletion, the plugin requires the right to update the owner's finalizers. Without such a reference
// MissingReferenceRight sends no request.
func (o *Owners) MissingReferenceRight(
	ctx context.Context, user string, owner types.NamespacedName, children ...metav1.Object,
) (*check.Failure, error) {
	blocks := func(r metav1.OwnerReference) bool { return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion }
	block := func(child metav1.Object) bool { return slices.ContainsFunc(child.GetOwnerReferences(), blocks) }
	if !slices.ContainsFunc(children, block) {
		return nil, nil
	}
	may, err := o.May(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "update", Group: o.Resource.Group, Resource: o.Resource.Resource, Subresource: "finalizers",
		Namespace: owner.Namespace, Name: owner.Name,
	})
	if err != nil || may {
		return nil, err
	}
	finalizers := o.Resource.Resource + "/finalizers"
	return &check.Failure{
		Expected: "the role allows what the admission plugin OwnerReferencesPermissionEnforcement asks for: " +
			"the children have blockOwnerDeletion",
		Observed: "the operator may not update " + finalizers + ", so that with this plugin it can't create a child",
		Evidence: []string{fmt.Sprintf("the marker for it is: // +kubebuilder:rbac:groups=%s,resources=%s,verbs=update",
			o.Resource.Group, finalizers)},
	}, nil
}

// MayNeed reports whether a correct operator may need a right, whatever requests it sent in this run. owners is the
// resource of its kind. An operator that applies needs create as well as patch, and the audit log shows only the patch.
// Pods and ReplicaSets show why a Deployment is not available.
func MayNeed(owners schema.GroupVersionResource, r audit.Right) bool {
	read := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
	write := r.Verb == "update" || r.Verb == "patch"
	kind := owners.Group + "/" + owners.Resource
	switch r.Group + "/" + r.Resource {
	case kind, "/pods", "apps/replicasets":
		return read
	case kind + "/status":
		return write || r.Verb == "get"
	case kind + "/finalizers":
		return r.Verb == "update"
	case "apps/deployments", "/services":
		return read || write || r.Verb == "create"
	}
	return false
}
