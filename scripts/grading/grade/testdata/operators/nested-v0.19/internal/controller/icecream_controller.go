// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demov1 "example.com/parlour/api/v1"
)

// IcecreamReconciler counts toppings
type IcecreamReconciler struct {
	client.Client
}

// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=get;list;watch
// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=get;update;patch

// Reconcile writes how many toppings an icecream has
func (r *IcecreamReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	icecream := &demov1.Icecream{}
	if err := r.Get(ctx, req.NamespacedName, icecream); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	count := int32(len(icecream.Spec.Topping))
	if icecream.Status.ToppingsCount == count {
		return ctrl.Result{}, nil
	}
	old := icecream.DeepCopy()
	icecream.Status.ToppingsCount = count
	return ctrl.Result{}, r.Status().Patch(ctx, icecream, client.MergeFrom(old))
}

// SetupWithManager registers the controller with the manager
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&demov1.Icecream{}).Complete(r)
}
