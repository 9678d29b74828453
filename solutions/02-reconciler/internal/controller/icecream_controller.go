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

	demov1 "lva.io/operators/solutions/02-reconciler/api/v1"
)

// IcecreamReconciler enforces the rule of the shop: each flavour is sold at most three times.
type IcecreamReconciler struct {
	// Client reads from a cache, which may be a moment behind, and writes to the API server.
	client.Client
	// APIReader reads from the API server itself: dearer, but up to date.
	APIReader client.Reader
	// Recorder writes Events, which `kubectl events` and `kubectl describe` show to people.
	Recorder events.EventRecorder
}

// These markers are the operator's permissions. `make manifests` writes config/rbac/role.yaml from them. There is no
// get, although Reconcile calls Get: the cache answers it, and fills itself with list and watch. An Event is created,
// and patched when it occurs again.

//lab:begin rbac
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch;delete
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//lab:else
// // TODO(lab): 1. and 3. The operator may only list and watch so far. Add what you need, and nothing else: another
// // verb to this marker, or a marker for another resource (a subresource is one: icecreams/status).
// // +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch
//lab:end

// Reconcile gets the name of an icecream, and does not learn what has changed. So it reads the current state, and does
// what is missing: for this icecream only, since each of the others gets a call of its own. The result is the same
// whether Reconcile is called once or ten times, early or late.
func (r *IcecreamReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var icecream demov1.Icecream
	if err := r.Get(ctx, req.NamespacedName, &icecream); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Gone in the meantime: nothing is left to do.
	}
	if !icecream.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	//lab:begin places
	var all demov1.IcecreamList
	if err := r.List(ctx, &all); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the icecreams: %w", err)
	}
	assigned := assignPlaces(all.Items)
	if !assigned.holders.Has(icecream.Name) {
		return ctrl.Result{}, r.remove(ctx, &icecream)
	}
	//lab:else
	// // TODO(lab): 3. List all icecreams, and let assignPlaces (places.go) say which of them have a place. Delete this
	// // one if it has none. Read from the API server itself first (r.APIReader): the cache may be behind, and a deletion
	// // can't be undone.
	//lab:end

	//lab:begin count-toppings
	observed := icecream.DeepCopy()
	observed.Status.ToppingsCount = new(int32(len(icecream.Spec.Topping)))
	//lab:else
	// // TODO(lab): 1. Count the toppings: set status.toppingsCount on a DeepCopy of the icecream.
	//lab:end
	//lab:begin sold-out
	observed.Status.SoldOut = new(assigned.soldOut(icecream.Spec.Flavour))
	//lab:else
	// // TODO(lab): 4. Set status.soldOut: is no place left in one of its flavours?
	//lab:end
	//lab:begin ready
	// observedGeneration says which spec the condition is about. After a change of the spec, users can distinguish an old
	// status from a new one, and `kubectl wait --for=condition=Ready` works. The condition is never False: an icecream
	// without a place is deleted.
	meta.SetStatusCondition(&observed.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: icecream.Generation,
		Reason: "HasPlace", Message: "It has a place in each of its flavours",
	})
	//lab:else
	// // TODO(lab): 4. Good manners, and not graded: meta.SetStatusCondition sets a condition Ready, whose
	// // observedGeneration says which spec the status is about.
	//lab:end
	//lab:begin write-status
	// Do not write an unchanged status. Each write costs a request, and one that changes something calls us again.
	if equality.Semantic.DeepEqual(icecream.Status, observed.Status) {
		return ctrl.Result{}, nil
	}
	// The update carries the resource version that was read. If another client has changed the object, the API server
	// returns a conflict. We return it as an error, and Reconcile is called again with the current state.
	if err := r.Status().Update(ctx, observed); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the status: %w", err)
	}
	//lab:else
	// // TODO(lab): 1. Write the status (not the icecream), and only if it differs from the one that was read. Return an
	// // error, so that Reconcile is called again. Only "not found" is no error.
	//lab:end
	return ctrl.Result{}, nil
}

//lab:begin remove

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

//lab:end

// SetupWithManager registers the controller with the manager, and says which changes lead to a call of Reconcile.
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&demov1.Icecream{}).
		//lab:begin neighbours
		// A change of one icecream may concern the others. The generation counts changes of the spec, and the beginning of a
		// deletion. Without the predicate, every write of a status would call Reconcile for all icecreams.
		Watches(
			&demov1.Icecream{},
			handler.EnqueueRequestsFromMapFunc(r.everybody),
			builder.WithPredicates(predicate.GenerationChangedPredicate{}),
		).
		//lab:else
		// // TODO(lab): 5. When one icecream is created, deleted or changes its flavours, the others have to be reconciled,
		// // too. Watch icecreams a second time, with handler.EnqueueRequestsFromMapFunc and a function that names the
		// // others.
		//lab:end
		Named("icecream").
		Complete(r)
}

//lab:begin everybody

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

//lab:end
