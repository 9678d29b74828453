// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lolcowv1alpha1 "lva.io/operators/labs/08-lolcow/api/v1alpha1"
)

// FieldOwner is whose name stands in the managed fields of the children, beside what we have stated of them.
const FieldOwner = "lolcow-controller"

// LolcowReconciler runs a cow for each Lolcow.
type LolcowReconciler struct {
	// Client reads from a cache, which may be a moment behind, and writes to the API server.
	client.Client
	// Recorder writes Events: what `kubectl events` and `kubectl describe` tell people about an object.
	Recorder events.EventRecorder
	// BackOff says when what was refused is tried again.
	BackOff *flowcontrol.Backoff
	// Image is what the Pods run.
	Image string
}

// What the operator may do, and no more. To apply is to patch, and to create where nothing is there yet. It needs no right to delete: the
// garbage collector does that. The right to finalizers is for API servers that ask whether we may set blockOwnerDeletion.

// +kubebuilder:rbac:groups=my.domain,resources=lolcows,verbs=get;list;watch
// TODO(lab): 1. a line like this for deployments; 2. for services; 5. for the status and Pods; 7. for Events. Which group are they in?

// Reconcile is told the name of a Lolcow about which something may have changed: itself, one of its children, one of its Pods. It
// states what there should be, and reports what there is.
func (r *LolcowReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var lolcow lolcowv1alpha1.Lolcow
	if err := r.Get(ctx, req.NamespacedName, &lolcow); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Gone in the meantime, and its children go with it.
	}
	if !lolcow.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	// TODO(lab): 1. state the Deployment, and 2. the Service (children.go, ensureDeployment, ensureService).
	// TODO(lab): 5. report how they are (status.go).
	return ctrl.Result{}, nil
}

// ensureDeployment sees to it that the Deployment is as it should be. It returns the one that was there; nil: it has just been applied,
// so that nothing can be said of it yet.
func (r *LolcowReconciler) ensureDeployment(ctx context.Context, lolcow *lolcowv1alpha1.Lolcow) (*appsv1.Deployment, error) {
	desired := desiredDeployment(lolcow, r.Image)
	var current appsv1.Deployment
	err := r.Get(ctx, client.ObjectKeyFromObject(lolcow), &current)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("read the Deployment: %w", err)
	default:
		// TODO(lab): 4. write nothing if the Deployment is right. What is ours of it? (appsv1ac.ExtractDeployment)
	}
	return nil, r.apply(ctx, lolcow, "Deployment", desired)
}

// ensureService is ensureDeployment for the Service.
func (r *LolcowReconciler) ensureService(ctx context.Context, lolcow *lolcowv1alpha1.Lolcow) error {
	desired := desiredService(lolcow)
	var current corev1.Service
	err := r.Get(ctx, client.ObjectKeyFromObject(lolcow), &current)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("read the Service: %w", err)
	default:
		// TODO(lab): 4. the same for the Service. And leave alone, in both, what is not ours (metav1.IsControlledBy).
	}
	return r.apply(ctx, lolcow, "Service", desired)
}

// apply states what we want of a child. We own these fields, so we take back what somebody else has set: that is what force is for.
func (r *LolcowReconciler) apply(ctx context.Context, lolcow *lolcowv1alpha1.Lolcow, kind string, desired runtime.ApplyConfiguration) error {
	// TODO(lab): 1. r.Apply, with a field owner, by force. What happens without force when somebody edits the Deployment?
	// TODO(lab): 6. what was refused is not tried again at once (reported); Reconcile returns when it is (tryAgainAfter).
	return nil
}

// SetupWithManager tells the manager which changes lead to a call of Reconcile.
func (r *LolcowReconciler) SetupWithManager(mgr ctrl.Manager) error {
	// TODO(lab): 4. who calls Reconcile when somebody deletes the Service? 5. and when a Pod can't pull its image?
	return ctrl.NewControllerManagedBy(mgr).
		For(&lolcowv1alpha1.Lolcow{}, builder.WithPredicates(notOnlyWords)).
		Named("lolcow").
		Complete(r)
}

// notOnlyWords lets through every change of a Lolcow but one of the messages in its conditions alone. The operator
// writes them: if that called Reconcile, an error with other words each time (it may have a port or a time in it) would
// be tried again at once, for ever. Other changes of the status must call it. The retry after an error may find the
// cache behind, with the status of before the error, and then writes nothing.
var notOnlyWords = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !equality.Semantic.DeepEqual(withoutWords(e.ObjectOld), withoutWords(e.ObjectNew))
}}

// withoutWords is a Lolcow without the messages of its conditions, and without what changes with each write.
func withoutWords(object client.Object) *lolcowv1alpha1.Lolcow {
	lolcow := object.DeepCopyObject().(*lolcowv1alpha1.Lolcow)
	lolcow.ResourceVersion, lolcow.ManagedFields = "", nil
	for i := range lolcow.Status.Conditions {
		lolcow.Status.Conditions[i].Message = ""
	}
	return lolcow
}

// lolcowOf names the Lolcow of a Pod.
func lolcowOf(_ context.Context, pod client.Object) []reconcile.Request {
	// TODO(lab): 5. its labels say whose it is.
	return nil
}
