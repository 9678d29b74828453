// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demov1 "lva.io/operators/labs/02-reconciler/api/v1"
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

// TODO(lab): 1. and 3. The operator may only list and watch so far. Add what you need, and nothing else: another
// verb to this marker, or a marker for another resource (a subresource is one: icecreams/status).
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch

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

	// TODO(lab): 3. List all icecreams, and let assignPlaces (places.go) say which of them have a place. Delete this
	// one if it has none. Read from the API server itself first (r.APIReader): the cache may be behind, and a deletion
	// can't be undone.

	// TODO(lab): 1. Count the toppings: set status.toppingsCount on a DeepCopy of the icecream.
	// TODO(lab): 4. Set status.soldOut: is no place left in one of its flavours?
	// TODO(lab): 4. Good manners, and not graded: meta.SetStatusCondition sets a condition Ready, whose
	// observedGeneration says which spec the status is about.
	// TODO(lab): 1. Write the status (not the icecream), and only if it differs from the one that was read. Return an
	// error, so that Reconcile is called again. Only "not found" is no error.
	return ctrl.Result{}, nil
}

// SetupWithManager registers the controller with the manager, and says which changes lead to a call of Reconcile.
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&demov1.Icecream{}).
		// TODO(lab): 5. When one icecream is created, deleted or changes its flavours, the others have to be reconciled,
		// too. Watch icecreams a second time, with handler.EnqueueRequestsFromMapFunc and a function that names the
		// others.
		Named("icecream").
		Complete(r)
}
