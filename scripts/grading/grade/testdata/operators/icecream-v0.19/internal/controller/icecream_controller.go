// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	demov1 "example.com/icecream-operator/api/v1"
)

const (
	icecreamFinalizer = "demo.lva.io/finalizer"
	maxPerFlavour     = 3
)

// IcecreamReconciler looks after icecreams
type IcecreamReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/finalizers,verbs=update

// Reconcile counts the toppings, makes sure that no flavour is sold more than three times, and cleans up after an
// icecream that is deleted.
func (r *IcecreamReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	logger := log.FromContext(ctx)

	icecream := &demov1.Icecream{}
	if err := r.Get(ctx, req.NamespacedName, icecream); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	// clean up if the icecream is being deleted
	if !icecream.DeletionTimestamp.IsZero() && controllerutil.ContainsFinalizer(icecream, icecreamFinalizer) {
		if err := r.cleanUp(ctx, icecream); err != nil {
			logger.Error(err, "unable to clean up")
		}
		controllerutil.RemoveFinalizer(icecream, icecreamFinalizer)
		if err := r.Update(ctx, icecream); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		return ctrl.Result{}, nil
	}

	icecreams := &demov1.IcecreamList{}
	if err := r.List(ctx, icecreams); err != nil {
		return ctrl.Result{}, err
	}

	soldOut := false
	for _, flavour := range icecream.Spec.Flavour {
		var same []demov1.Icecream
		for _, item := range icecreams.Items {
			if item.DeletionTimestamp.IsZero() && slices.Contains(item.Spec.Flavour, flavour) {
				same = append(same, item)
			}
		}
		if len(same) >= maxPerFlavour {
			soldOut = true
		}
		if len(same) > maxPerFlavour {
			newest := newestOf(same)
			logger.Info("too many icecreams, deleting the newest", "flavour", flavour, "name", newest.Name)
			if err := r.Delete(ctx, newest); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
			if newest.Name == icecream.Name {
				return ctrl.Result{}, nil
			}
		}
	}

	// update the status if it has changed
	if icecream.Status.ToppingsCount != len(icecream.Spec.Topping) || icecream.Status.SoldOut != soldOut {
		icecream.Status.ToppingsCount = len(icecream.Spec.Topping)
		icecream.Status.SoldOut = soldOut
		if err := r.Status().Update(ctx, icecream); err != nil {
			logger.Error(err, "unable to update the status")
			return ctrl.Result{}, err
		}
	}

	// all done, make sure that we are asked before it is deleted
	if !controllerutil.ContainsFinalizer(icecream, icecreamFinalizer) {
		controllerutil.AddFinalizer(icecream, icecreamFinalizer)
		if err := r.Update(ctx, icecream); err != nil {
			return ctrl.Result{}, err
		}
	}

	return ctrl.Result{}, nil
}

// cleanUp is called before an icecream goes
func (r *IcecreamReconciler) cleanUp(ctx context.Context, icecream *demov1.Icecream) error {
	log.FromContext(ctx).Info("cleaning up", "name", icecream.Name, "toppings", icecream.Spec.Topping)
	// TODO: tell the kitchen
	return nil
}

// newestOf returns the icecream that was created last, by name if there are several
func newestOf(icecreams []demov1.Icecream) *demov1.Icecream {
	newest := &icecreams[0]
	for i := range icecreams {
		created, latest := icecreams[i].CreationTimestamp, newest.CreationTimestamp
		if latest.Before(&created) || latest.Equal(&created) && icecreams[i].Name > newest.Name {
			newest = &icecreams[i]
		}
	}
	return newest
}

// SetupWithManager registers the controller with the manager
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&demov1.Icecream{}).
		Complete(r)
}
