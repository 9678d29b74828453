// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	demov1 "example.com/lecture/api/v1"
)

// limit is how many icecreams of a flavour we sell
const limit = 3

// IcecreamReconciler reconciles a Icecream object
type IcecreamReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=get;list;watch;create;update;patch;delete
//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=get;update;patch
//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/finalizers,verbs=update

// Reconcile lets no flavour be sold more than three times
func (r *IcecreamReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	logger := log.FromContext(ctx)
	logger.Info("reconciling", "icecream", req.Name)

	var icecreams demov1.IcecreamList
	if err := r.List(ctx, &icecreams); err != nil {
		logger.Error(err, "unable to list the icecreams")
		return ctrl.Result{}, err
	}

	// which icecreams are there of each flavour?
	flavours := make(map[string][]*demov1.Icecream)
	for _, item := range icecreams.Items {
		for _, flavour := range item.Spec.Flavour {
			flavours[flavour] = append(flavours[flavour], &item)
		}
	}

	// one too many: the last one has to go
	for flavour, sold := range flavours {
		if len(sold) > limit {
			last := sold[len(sold)-1]
			logger.Info("deleting", "flavour", flavour, "icecream", last.Name)
			if err := r.Delete(ctx, last); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
		}
	}

	var icecream demov1.Icecream
	if err := r.Get(ctx, req.NamespacedName, &icecream); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	icecream.Status.ToppingsCount = len(icecream.Spec.Topping)
	icecream.Status.SoldOut = false
	for _, flavour := range icecream.Spec.Flavour {
		if len(flavours[flavour]) >= limit {
			icecream.Status.SoldOut = true
		}
	}
	if err := r.Status().Update(ctx, &icecream); err != nil {
		logger.Error(err, "unable to update the status")
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

// SetupWithManager sets up the controller with the Manager.
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&demov1.Icecream{}).
		Complete(r)
}
