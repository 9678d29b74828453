// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controllers

import (
	"context"
	"sort"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	demov1 "example.com/icecream-operator/api/v1"
)

const finalizer = "demo.lva.io/finalizer"

// IcecreamReconciler reconciles a Icecream object
type IcecreamReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=get;list;watch;create;update;patch;delete
//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=get;update;patch
//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/finalizers,verbs=update

// Reconcile counts the toppings and makes sure that there are not more than three icecreams
func (r *IcecreamReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	logger := log.FromContext(ctx)

	icecream := &demov1.Icecream{}
	if err := r.Get(ctx, req.NamespacedName, icecream); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	if icecream.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(icecream, finalizer) {
			controllerutil.AddFinalizer(icecream, finalizer)
			if err := r.Update(ctx, icecream); err != nil {
				return ctrl.Result{}, err
			}
		}
	} else {
		logger.Info("icecream is being deleted")
		if controllerutil.ContainsFinalizer(icecream, finalizer) {
			controllerutil.RemoveFinalizer(icecream, finalizer)
			if err := r.Update(ctx, icecream); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
		}
		return ctrl.Result{}, nil
	}

	icecreams := &demov1.IcecreamList{}
	if err := r.List(ctx, icecreams); err != nil {
		return ctrl.Result{}, err
	}

	// check if there are too many icecreams of a flavour
	for _, flavour := range icecream.Spec.Flavour {
		count := 0
		for _, item := range icecreams.Items {
			if item.Spec.Flavour != nil {
				count++
			}
		}
		logger.Info("counted icecreams", "flavour", flavour, "count", count)

		if count > 3 {
			newest := findNewest(icecreams.Items)
			newest.Status.SoldOut = true
			if err := r.Status().Update(ctx, newest); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			if err := r.Delete(ctx, newest); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			logger.Info("deleted the newest icecream", "name", newest.Name)
			if newest.Name == icecream.Name {
				return ctrl.Result{}, nil
			}
			break
		}
	}

	// update the status
	icecream.Status.ToppingsCount = len(icecream.Spec.Topping)
	if err := r.Status().Update(ctx, icecream); err != nil {
		logger.Error(err, "unable to update the status")
		return ctrl.Result{}, err
	}

	return ctrl.Result{}, nil
}

// findNewest returns the icecream with the latest creation timestamp
func findNewest(items []demov1.Icecream) *demov1.Icecream {
	sort.Slice(items, func(i, j int) bool { return items[i].Name < items[j].Name })
	newest := &items[0]
	for i := range items {
		if items[i].CreationTimestamp.After(newest.CreationTimestamp.Time) {
			newest = &items[i]
		}
	}
	return newest
}

// SetupWithManager sets up the controller with the Manager.
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&demov1.Icecream{}).
		Complete(r)
}
