// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demov1 "lva.io/operators/labs/01-icecream/api/v1"
)

// IcecreamReconciler reconciles icecreams.
type IcecreamReconciler struct {
	client.Client
}

// These markers are the operator's permissions. `make manifests` writes config/rbac/role.yaml from them. So far the
// operator only watches, and a watch needs list first.

// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch

// Reconcile is called with the name of an icecream whenever something about it may have changed. It does nothing yet:
// that is the next lab.
func (r *IcecreamReconciler) Reconcile(_ context.Context, _ ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, nil
}

// SetupWithManager registers the controller with the manager, and says which changes lead to a call of Reconcile.
func (r *IcecreamReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&demov1.Icecream{}).
		Named("icecream").
		Complete(r)
}
