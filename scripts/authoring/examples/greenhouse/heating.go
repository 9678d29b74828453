// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

const finalizer = "play.lva.io/heater"

// Heaters are outside the cluster. A repeated call has the same effect.
type Heaters interface {
	TurnOn(ctx context.Context, greenhouse types.UID, celsius int32) error
	TurnOff(ctx context.Context, greenhouse types.UID) error
}

// HeatingReconciler turns a heater on for each greenhouse, and off before the greenhouse is removed.
type HeatingReconciler struct {
	client.Client
	Heaters Heaters
}

// Reconcile adds the finalizer before the heater is turned on, and removes it after the heater was turned off.
func (r *HeatingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var greenhouse playv1.Greenhouse
	if err := r.Get(ctx, req.NamespacedName, &greenhouse); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The patch carries the resourceVersion that was read: a finalizer that another controller adds meanwhile is not lost.
	//lab:begin order
	before := client.MergeFromWithOptions(greenhouse.DeepCopy(), client.MergeFromWithOptimisticLock{})

	if !greenhouse.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(&greenhouse, finalizer) {
			return ctrl.Result{}, nil // It waits for another controller. Our work is done, or was never begun.
		}
		if err := r.Heaters.TurnOff(ctx, greenhouse.UID); err != nil {
			return ctrl.Result{}, fmt.Errorf("turn off the heater of %s: %w", req, err) // The finalizer stays.
		}
		controllerutil.RemoveFinalizer(&greenhouse, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, &greenhouse, before))
	}
	if controllerutil.AddFinalizer(&greenhouse, finalizer) {
		if err := r.Patch(ctx, &greenhouse, before); err != nil {
			return ctrl.Result{}, fmt.Errorf("add the finalizer to %s: %w", req, err) // No heater is on yet.
		}
	}
	return ctrl.Result{}, r.Heaters.TurnOn(ctx, greenhouse.UID, greenhouse.Spec.MinCelsius)
	//lab:end
}
