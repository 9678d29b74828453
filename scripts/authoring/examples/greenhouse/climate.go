// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// ClimateReconciler keeps a ConfigMap for each greenhouse, from which a climate computer reads its settings.
type ClimateReconciler struct{ client.Client }

// Reconcile is called with a name, whatever happened to the greenhouse or to its ConfigMap.
func (r *ClimateReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var greenhouse playv1.Greenhouse
	if err := r.Get(ctx, req.NamespacedName, &greenhouse); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Deleted: the garbage collector deletes the ConfigMap.
	}
	if !greenhouse.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // A ConfigMap that is created now could delay the deletion.
	}
	//lab:begin settings
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name + "-climate"},
	}
	// The function states what must be. CreateOrUpdate reads what is, and writes only if the
	// two differ.
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Data = map[string]string{
			"min": strconv.Itoa(int(greenhouse.Spec.MinCelsius)),
			"max": strconv.Itoa(int(greenhouse.Spec.MaxCelsius)),
		}
		return controllerutil.SetControllerReference(&greenhouse, settings, r.Scheme())
	})
	if err != nil { // The queue calls again, after a pause that grows.
		return ctrl.Result{}, fmt.Errorf("keep the settings of %s: %w", req, err)
	}
	//lab:end
	return ctrl.Result{}, nil
}

// SetupWithManager watches greenhouses, and the ConfigMaps that they own.
func (r *ClimateReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&playv1.Greenhouse{}).Owns(&corev1.ConfigMap{}).Complete(r)
}
