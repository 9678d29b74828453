// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lolcowv1alpha1 "lva.io/operators/solutions/08-lolcow/api/v1alpha1"
)

// FieldOwner is whose name stands in the managed fields of the children, beside what we have stated of them.
const FieldOwner = "lolcow-controller"

// How soon the operator tries again what failed: at first, and at most. The default is 5 ms, 10 ms, and so on up to 16 minutes. If a webhook of
// the cluster is down for that long, no event says that it is back.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 5 * time.Second // in real life a minute
)

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
//lab:begin markers
// +kubebuilder:rbac:groups=my.domain,resources=lolcows/status,verbs=update
// +kubebuilder:rbac:groups=my.domain,resources=lolcows/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//lab:else
// // TODO(lab): 1. a line like this for deployments; 2. for services; 5. for the status and Pods; 7. for Events. Which group are they in?
//lab:end

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
	//lab:begin reconcile

	// Each by itself: that the port is taken is no reason not to repair the Deployment.
	var seen observation
	seen.deployment, seen.deploymentErr = r.ensureDeployment(ctx, &lolcow)
	seen.serviceErr = r.ensureService(ctx, &lolcow)
	// What was refused is tried again after a while. Nothing else tells us that, for example, somebody has left the port.
	again := cmp.Or(r.tryAgainAfter(&lolcow, "Service", seen.serviceErr), r.tryAgainAfter(&lolcow, "Deployment", seen.deploymentErr))
	err := errors.Join(notRefused(seen.deploymentErr), notRefused(seen.serviceErr))
	if isStale(seen.deploymentErr) || isStale(seen.serviceErr) {
		return ctrl.Result{}, err // The cache is behind, and so would the status be: look again first.
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(lolcow.Namespace), client.MatchingLabels(selectorLabels(lolcow.Name))); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the Pods: %w", err)
	}
	seen.pods = pods.Items

	// An error is reported before it is returned. Otherwise only the operator's log has it, which users of Lolcows
	// cannot read.
	if err := errors.Join(err, r.writeStatus(ctx, &lolcow, seen)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, nil
	//lab:else
	//
	// // TODO(lab): 1. state the Deployment, and 2. the Service (children.go, ensureDeployment, ensureService).
	// // TODO(lab): 5. report how they are (status.go).
	// return ctrl.Result{}, nil
	//lab:end
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
	//lab:begin deployment-drift
	case !ours(lolcow, &current):
		return nil, notOurs("Deployment", lolcow.Name)
	default:
		// The managed fields say what of the Deployment is ours: what somebody else has changed is not any more, and what somebody
		// else has added never was. If what is left is what we want, there is nothing to write.
		owned, err := appsv1ac.ExtractDeployment(&current, FieldOwner)
		if err != nil {
			return nil, fmt.Errorf("read the managed fields of the Deployment: %w", err)
		}
		if equality.Semantic.DeepEqual(owned, desired) {
			return &current, nil
		}
		//lab:else
		// default:
		// 	// TODO(lab): 4. write nothing if the Deployment is right. What is ours of it? (appsv1ac.ExtractDeployment)
		//lab:end
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
	//lab:begin service-drift
	case !ours(lolcow, &current):
		return notOurs("Service", lolcow.Name)
	default:
		owned, err := corev1ac.ExtractService(&current, FieldOwner)
		if err != nil {
			return fmt.Errorf("read the managed fields of the Service: %w", err)
		}
		if equality.Semantic.DeepEqual(owned, desired) {
			return nil
		}
		//lab:else
		// default:
		// 	// TODO(lab): 4. the same for the Service. And leave alone, in both, what is not ours (metav1.IsControlledBy).
		//lab:end
	}
	return r.apply(ctx, lolcow, "Service", desired)
}

// apply states what we want of a child. We own these fields, so we take back what somebody else has set: that is what force is for.
func (r *LolcowReconciler) apply(ctx context.Context, lolcow *lolcowv1alpha1.Lolcow, kind string, desired runtime.ApplyConfiguration) error {
	//lab:begin apply
	if refusal := r.reported(lolcow, kind); refusal != nil {
		return refusal // It is too early to ask again.
	}
	err := r.Apply(ctx, desired, client.FieldOwner(FieldOwner), client.ForceOwnership)
	if refusal := refusalOf(lolcow, kind, err); refusal != nil {
		return refusal
	}
	if err != nil {
		return fmt.Errorf("apply the %s: %w", kind, err)
	}
	return nil
	//lab:else
	// // TODO(lab): 1. r.Apply, with a field owner, by force. What happens without force when somebody edits the Deployment?
	// // TODO(lab): 6. what was refused is not tried again at once (reported); Reconcile returns when it is (tryAgainAfter).
	// return nil
	//lab:end
}

// SetupWithManager tells the manager which changes lead to a call of Reconcile.
func (r *LolcowReconciler) SetupWithManager(mgr ctrl.Manager) error {
	//lab:begin owns
	return ctrl.NewControllerManagedBy(mgr).
		For(&lolcowv1alpha1.Lolcow{}, builder.WithPredicates(notOnlyWords)).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		// A Pod's owner is a ReplicaSet, so Owns would not find the Lolcow.
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(lolcowOf)).
		Named("lolcow").
		WithOptions(options()).
		Complete(r)
	//lab:else
	// // TODO(lab): 4. who calls Reconcile when somebody deletes the Service? 5. and when a Pod can't pull its image?
	// return ctrl.NewControllerManagedBy(mgr).
	// 	For(&lolcowv1alpha1.Lolcow{}, builder.WithPredicates(notOnlyWords)).
	// 	Named("lolcow").
	// 	WithOptions(options()).
	// 	Complete(r)
	//lab:end
}

// options are those of the controller.
func options() controller.Options {
	return controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
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
	//lab:begin lolcow-of
	name := pod.GetLabels()[instanceLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: name}}}
	//lab:else
	// // TODO(lab): 5. its labels say whose it is.
	// return nil
	//lab:end
}
