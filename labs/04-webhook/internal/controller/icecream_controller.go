// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	demov1 "lva.io/operators/labs/04-webhook/api/v1"
)

// IcecreamReconciler keeps the rule of the shop: each flavour is sold three times, and no more.
type IcecreamReconciler struct {
	// Client reads from a cache, which may be a moment behind, and writes to the API server.
	client.Client
	// APIReader reads from the API server itself: dearer, but up to date.
	APIReader client.Reader
	// Recorder writes Events: what `kubectl events` and `kubectl describe` tell people about an object.
	Recorder events.EventRecorder
}

// What the operator may do, and no more: `make manifests` writes config/rbac/role.yaml from these markers. There is no
// get, although Reconcile calls Get: the cache answers that, and fills itself with list and watch. An Event is
// created, and patched when it occurs again.

// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch;delete
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile is told the name of an icecream about which something may have changed, and not what. So it looks at how
// things are now, and does what is missing: for this icecream only, since each of the others gets a call of its own.
// Whether it is called once or ten times, early or late, makes no difference to where it ends.
func (r *IcecreamReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var icecream demov1.Icecream
	if err := r.Get(ctx, req.NamespacedName, &icecream); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Gone in the meantime: nothing is left to do.
	}
	if !icecream.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	var all demov1.IcecreamList
	if err := r.List(ctx, &all); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the icecreams: %w", err)
	}
	assigned := assignPlaces(all.Items)
	if !assigned.holders.Has(icecream.Name) {
		return ctrl.Result{}, r.remove(ctx, &icecream)
	}

	observed := icecream.DeepCopy()
	observed.Status.ToppingsCount = new(int32(len(icecream.Spec.Topping)))
	observed.Status.SoldOut = new(assigned.soldOut(icecream.Spec.Flavour))
	// With observedGeneration the condition says which spec all this is about: whoever changes an icecream can tell an old
	// status from a new one, and `kubectl wait --for=condition=Ready` works. There is no False: an icecream without a place
	// is deleted.
	meta.SetStatusCondition(&observed.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: icecream.Generation,
		Reason: "HasPlace", Message: "It has a place in each of its flavours",
	})
	// Writing what is there already would cost a request, and where it made a difference, call us again: for ever.
	if equality.Semantic.DeepEqual(icecream.Status, observed.Status) {
		return ctrl.Result{}, nil
	}
	// The update carries the resource version that was read. If somebody else was faster, the API server answers with a
	// conflict: we hand that back as an error, and are called again to look at what is there now.
	if err := r.Status().Update(ctx, observed); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the status: %w", err)
	}
	return ctrl.Result{}, nil
}

// remove deletes an icecream that has no place. There is no way back from that, and the cache may be behind: it may
// still show an icecream that has just left, and whose place is free. So the API server itself is asked before.
func (r *IcecreamReconciler) remove(ctx context.Context, icecream *demov1.Icecream) error {
	var current demov1.IcecreamList
	if err := r.APIReader.List(ctx, &current); err != nil {
		return fmt.Errorf("ask the API server for the icecreams: %w", err)
	}
	if assignPlaces(current.Items).holders.Has(icecream.Name) {
		return nil // What the cache has yet to hear will be an event, and we are called again.
	}
	// Delete the one that was looked at: not a new one of the same name, and not one that was changed since.
	asRead := client.Preconditions{UID: &icecream.UID, ResourceVersion: &icecream.ResourceVersion}
	err := r.Delete(ctx, icecream, asRead)
	if apierrors.IsNotFound(err) {
		return nil // Somebody else has deleted it.
	}
	if err != nil {
		return fmt.Errorf("delete the icecream that has no place: %w", err)
	}
	// Somebody will look for their icecream. They do not read our log, and there is no status any more that could tell them.
	r.Recorder.Eventf(icecream, nil, corev1.EventTypeWarning, "NoPlace", "Delete",
		"Deleted, since no place is left in one of its flavours: %s", strings.Join(icecream.Spec.Flavour, ", "))
	return nil
}

// SetupWithManager tells the manager which changes lead to a call of Reconcile.
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&demov1.Icecream{}).
		// A change of one concerns the others too, but not each: the generation counts changes of the spec (and the
		// beginning of a deletion). Without the predicate, every write of a status would wake everybody.
		Watches(
			&demov1.Icecream{},
			handler.EnqueueRequestsFromMapFunc(r.everybody),
			builder.WithPredicates(predicate.GenerationChangedPredicate{}),
		).
		Named("icecream").
		Complete(r)
}

// everybody names all icecreams, and not only those that share a flavour with the one that changed. Those could be too
// few: a place that is free in vanilla may let in one of vanilla and matcha, and then matcha is sold out for a third.
//
// That has a price: of n icecreams, each change calls Reconcile n times, and each call lists all n. For one shop it does
// not matter. For thousands, name one request that stands for the whole shop, whatever has changed,
//
//	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "shop"}}}
//
// and let Reconcile go through all icecreams in one call. The queue holds a request once, so that a hundred changes cost
// one or two calls. But then one icecream whose write fails holds up the others, unless you collect the errors.
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
