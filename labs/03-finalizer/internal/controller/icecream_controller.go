// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	demov1 "lva.io/operators/labs/03-finalizer/api/v1"
	"lva.io/operators/labs/03-finalizer/internal/freezer"
)

// finalizer keeps a deleted icecream until its ingredients are back in the freezer: the API server removes no object
// that has a finalizer. Its first part is our domain, so no other controller's finalizer has this name.
const finalizer = "demo.lva.io/finalizer"

// How soon the operator tries again what failed: at first, and at most. The default is 5 ms, 10 ms, and so on up to 16
// minutes: after an outage of that length the freezer would work again for as long before we noticed.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 5 * time.Second // in real life a minute
)

// workers is how many icecreams are looked after at once. The default is one: while it waits for a freezer that does
// not answer, all icecreams wait, also those that need nothing from there. More are safe, since the work queue gives an
// icecream to one of them at a time.
const workers = 4

// IcecreamReconciler enforces the rule of the shop: each flavour is sold at most three times. And it keeps the books:
// it takes each icecream's ingredients out of the freezer, and returns them before the icecream is deleted.
type IcecreamReconciler struct {
	// Client reads from a cache, which may be a moment behind, and writes to the API server.
	client.Client
	// APIReader reads from the API server itself: dearer, but up to date.
	APIReader client.Reader
	// Recorder writes Events, which `kubectl events` and `kubectl describe` show to people.
	Recorder events.EventRecorder
	// Freezer holds the ingredients. It is not part of Kubernetes, so no watch reports its changes.
	Freezer *freezer.Client
}

// These markers are the operator's permissions. `make manifests` writes config/rbac/role.yaml from them. Reconcile's
// Get needs list and watch, with which the cache fills itself. The Get of an APIReader needs get. An Event is created,
// and patched when it occurs again.

// TODO(lab): 1. To change the finalizers is to change the icecream: which verb is missing? And if you read an
// icecream past the cache (r.APIReader.Get), another one is.
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch;delete
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile gets the name of an icecream, and does not learn what has changed. So it reads the current state, and does
// what is missing: for this icecream only, since each of the others gets a call of its own. The result is the same
// whether Reconcile is called once or ten times, early or late.
func (r *IcecreamReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var icecream demov1.Icecream
	if err := r.Get(ctx, req.NamespacedName, &icecream); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Gone in the meantime: nothing is left to do.
	}
	if !icecream.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, &icecream)
	}

	var all demov1.IcecreamList
	if err := r.List(ctx, &all); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the icecreams: %w", err)
	}
	assigned := assignPlaces(all.Items)
	if !assigned.holders.Has(icecream.Name) {
		return ctrl.Result{}, r.remove(ctx, &icecream)
	}

	// TODO(lab): 1. Add the finalizer to the icecream (addFinalizer, below), and return the error if that fails.
	observed := icecream.DeepCopy()
	observed.Status.ToppingsCount = new(int32(len(icecream.Spec.Topping)))
	observed.Status.SoldOut = new(assigned.soldOut(icecream.Spec.Flavour))
	meta.SetStatusCondition(&observed.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: icecream.Generation,
		Reason: "HasPlace", Message: "It has a place in each of its flavours",
	})
	// TODO(lab): 4. Settle its account at the freezer (settle, in account.go). Write the status in any case, since
	// settle sets a condition in it, and return both errors.
	return ctrl.Result{}, r.writeStatus(ctx, &icecream, observed)
}

// finalize sees to an icecream that is being deleted. That cannot be undone any more, but it waits for us.
func (r *IcecreamReconciler) finalize(ctx context.Context, icecream *demov1.Icecream) error {
	// TODO(lab): 5. Settle its account: an icecream that is being deleted wants nothing any more (see wanted). Write
	// the status. When both have worked, and not before, take the finalizer off. If it is not there, do nothing.
	return nil
}

// addFinalizer puts our finalizer on an icecream, unless it is there. An error, also "not found", means that it is not
// there: then nothing may be taken for this icecream.
func (r *IcecreamReconciler) addFinalizer(ctx context.Context, icecream *demov1.Icecream) error {
	// TODO(lab): 1. controllerutil.AddFinalizer says whether there is anything to do, r.Patch writes it (changesSince,
	// below, makes the patch from a copy that you keep). There is no error here that you may ignore.
	return nil
}

// removeFinalizer takes our finalizer off an icecream. If it was the last one, the icecream is gone.
func (r *IcecreamReconciler) removeFinalizer(ctx context.Context, icecream *demov1.Icecream) error {
	// TODO(lab): 5. The same with controllerutil.RemoveFinalizer. If the icecream is gone already, so is the finalizer.
	return nil
}

// changesSince makes a patch of the changes since an icecream was read. The finalizers of all controllers are one list,
// which the patch writes as a whole. So it carries the resource version, too: if another client has changed the
// icecream in the meantime, the API server returns a conflict, and no finalizer is lost.
func changesSince(read *demov1.Icecream) client.Patch {
	return client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})
}

// writeStatus writes the status if it differs from the one that was read. Each write costs a request, and one that
// changes something calls us again.
func (r *IcecreamReconciler) writeStatus(ctx context.Context, read, observed *demov1.Icecream) error {
	if equality.Semantic.DeepEqual(read.Status, observed.Status) {
		return nil
	}
	// The update carries the resource version that was read. If another client has changed the object, the API server
	// returns a conflict. We return it as an error, and Reconcile is called again with the current state.
	if err := r.Status().Update(ctx, observed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// remove deletes an icecream that has no place. There is no way back from that, and the cache may be behind: it may
// still show an icecream that has just left, and whose place is free. So the API server itself is asked before.
func (r *IcecreamReconciler) remove(ctx context.Context, icecream *demov1.Icecream) error {
	var current demov1.IcecreamList
	if err := r.APIReader.List(ctx, &current); err != nil {
		return fmt.Errorf("ask the API server for the icecreams: %w", err)
	}
	if assignPlaces(current.Items).holders.Has(icecream.Name) {
		return nil // The cache is behind. The event that updates it calls us again.
	}
	// Delete the icecream that was read: not a new one of the same name, and not one that has changed since.
	asRead := client.Preconditions{UID: &icecream.UID, ResourceVersion: &icecream.ResourceVersion}
	err := r.Delete(ctx, icecream, asRead)
	if apierrors.IsNotFound(err) {
		return nil // Another client has deleted it.
	}
	if err != nil {
		return fmt.Errorf("delete the icecream that has no place: %w", err)
	}
	// The customer will look for the icecream. Customers do not read our log, and a deleted object has no status.
	r.Recorder.Eventf(icecream, nil, corev1.EventTypeWarning, "NoPlace", "Delete",
		"Deleted, since no place is left in one of its flavours: %s", strings.Join(icecream.Spec.Flavour, ", "))
	return nil
}

// SetupWithManager registers the controller with the manager, and says which changes lead to a call of Reconcile.
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&demov1.Icecream{}).
		// A change of one icecream may concern the others. The generation counts changes of the spec, and the beginning of a
		// deletion. Without the predicate, every write of a status would call Reconcile for all icecreams.
		Watches(
			&demov1.Icecream{},
			handler.EnqueueRequestsFromMapFunc(r.everybody),
			builder.WithPredicates(predicate.GenerationChangedPredicate{}),
		).
		Named("icecream").
		WithOptions(options()).
		Complete(r)
}

// options are those of the controller.
func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}

// everybody names all icecreams, and not only those that share a flavour with the one that changed. Those could be too
// few: a place that is free in vanilla may let in one of vanilla and matcha, and then matcha is sold out for a third.
//
// That has a price: of n icecreams, each change calls Reconcile n times, and each call lists all n. For one shop it
// does not matter. For thousands, name one request for the whole shop, whatever has changed,
//
//	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "shop"}}}
//
// and let Reconcile go through all icecreams in one call. The queue holds a request once, so that a hundred changes
// cost one or two calls. But then one icecream whose write fails holds up the others, unless you collect the errors.
func (r *IcecreamReconciler) everybody(ctx context.Context, _ client.Object) []reconcile.Request {
	var all demov1.IcecreamList
	if err := r.List(ctx, &all); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the icecreams that have to look again")
		return nil
	}
	requests := make([]reconcile.Request, len(all.Items))
	for i := range all.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&all.Items[i])
	}
	return requests
}
