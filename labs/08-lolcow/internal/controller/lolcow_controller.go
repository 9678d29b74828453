// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lolcowv1alpha1 "lva.io/operators/labs/08-lolcow/api/v1alpha1"
)

// FieldOwner is the field manager of everything that this operator applies.
const FieldOwner = "lolcow-controller"

// How soon the operator tries again what failed: at first, and at most. The default is 5 ms, 10 ms, and so on up to 16
// minutes. If a webhook of the cluster is down for that long, no event says that it is back.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 5 * time.Second // in real life a minute
)

// LolcowReconciler runs a cow for each Lolcow.
type LolcowReconciler struct {
	// Client reads from a cache, which may be a moment behind, and writes to the API server.
	client.Client
	// Recorder writes Events, which `kubectl events` and `kubectl describe` show to people.
	Recorder events.EventRecorder
	// BackOff says when a refused write is retried.
	BackOff *flowcontrol.Backoff
	// Image is the image that the Pods run.
	Image string
}

// These markers are the operator's permissions. An apply needs patch, and create if the object does not exist yet. The
// operator needs no delete: the garbage collector deletes the children. Some API servers require the right to
// finalizers before they accept blockOwnerDeletion.

// +kubebuilder:rbac:groups=my.domain,resources=lolcows,verbs=get;list;watch
// TODO(lab): 1. a line like this for deployments; 2. for services; 5. for the status and Pods; 7. for Events. Which
// group are they in?

// Reconcile gets the name of a Lolcow when the Lolcow, one of its children or one of its Pods may have changed. It
// applies the desired state, and reports the observed one.
func (r *LolcowReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var lolcow lolcowv1alpha1.Lolcow
	if err := r.Get(ctx, req.NamespacedName, &lolcow); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Gone in the meantime. The garbage collector deletes its children.
	}
	if !lolcow.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	// TODO(lab): 1. apply the Deployment, and 2. the Service (children.go, ensureDeployment, ensureService).
	// TODO(lab): 5. report how they are (status.go).
	return ctrl.Result{}, nil
}

// ensureDeployment applies the Deployment unless it is right already. It returns the existing one, also when that can't
// be changed. It returns nil if there is none of ours, or if it has just been applied and its status is not known yet.
func (r *LolcowReconciler) ensureDeployment(
	ctx context.Context, lolcow *lolcowv1alpha1.Lolcow,
) (*appsv1.Deployment, error) {
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
	err = r.apply(ctx, lolcow, "Deployment", desired)
	if err != nil && current.UID != "" {
		return &current, err // It is as it was, and so are its Pods.
	}
	return nil, err
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
		// TODO(lab): 4. the same for the Service. And do not touch a Deployment or Service that is not ours
		// (metav1.IsControlledBy). An apply finds a port by its number and protocol: what if a user edits these?
	}
	return r.apply(ctx, lolcow, "Service", desired)
}

// apply applies the desired state of a child. We own these fields, so force overwrites the values that another client
// has set.
func (r *LolcowReconciler) apply(
	ctx context.Context, lolcow *lolcowv1alpha1.Lolcow, kind string, desired runtime.ApplyConfiguration,
) error {
	// TODO(lab): 1. r.Apply, with a field owner, by force. What happens without force when a user edits the Deployment?
	// TODO(lab): 6. do not retry a refused write at once (reported). Reconcile returns when to retry it
	// (tryAgainAfter).
	return nil
}

// SetupWithManager registers the controller with the manager, and says which changes lead to a call of Reconcile.
func (r *LolcowReconciler) SetupWithManager(mgr ctrl.Manager) error {
	// TODO(lab): 4. which watch calls Reconcile when a user deletes the Service? 5. and when a Pod can't pull its
	// image?
	return ctrl.NewControllerManagedBy(mgr).
		For(&lolcowv1alpha1.Lolcow{}, builder.WithPredicates(notOnlyWords)).
		Named("lolcow").
		WithOptions(options()).
		Complete(r)
}

// options are those of the controller.
func options() controller.Options {
	return controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}

// notOnlyWords lets through every change of a Lolcow but one of the message of Degraded alone, while that is True. The
// operator writes it: if that called Reconcile, an error with other words each time (it may have a port or a time in
// it) would be tried again at once, for ever. Other changes of the status must call it. The retry after an error may
// find the cache behind, with the status of before the error, and then writes nothing.
var notOnlyWords = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !equality.Semantic.DeepEqual(withoutWords(e.ObjectOld), withoutWords(e.ObjectNew))
}}

// withoutWords is a Lolcow without the message of Degraded if that is True, and without what changes with each write.
func withoutWords(object client.Object) *lolcowv1alpha1.Lolcow {
	lolcow := object.DeepCopyObject().(*lolcowv1alpha1.Lolcow)
	lolcow.ResourceVersion, lolcow.ManagedFields = "", nil
	is := meta.FindStatusCondition(lolcow.Status.Conditions, lolcowv1alpha1.Degraded)
	if is != nil && is.Status == metav1.ConditionTrue {
		is.Message = ""
	}
	return lolcow
}

// lolcowOf names the Lolcow of a Pod.
func lolcowOf(_ context.Context, pod client.Object) []reconcile.Request {
	// TODO(lab): 5. its labels say whose it is.
	return nil
}
