// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// IndexPlants lets the manager's client find greenhouses by their plants. Call it before the manager starts.
func IndexPlants(ctx context.Context, mgr ctrl.Manager) error {
	//lab:begin index
	err := mgr.GetFieldIndexer().IndexField(ctx, &playv1.Greenhouse{}, "spec.plants", func(o client.Object) []string {
		return o.(*playv1.Greenhouse).Spec.Plants
	})
	//lab:end
	if err != nil {
		return fmt.Errorf("index greenhouses by their plants: %w", err)
	}
	return nil
}

// WithPlant lists the greenhouses that grow the plant with the name of a ConfigMap.
func WithPlant(ctx context.Context, r client.Reader, plant *corev1.ConfigMap) ([]playv1.Greenhouse, error) {
	var greenhouses playv1.GreenhouseList
	//lab:begin list
	err := r.List(ctx, &greenhouses, client.InNamespace(plant.Namespace), client.MatchingFields{"spec.plants": plant.Name})
	//lab:end
	if err != nil {
		return nil, fmt.Errorf("list the greenhouses with %s: %w", plant.Name, err)
	}
	return greenhouses.Items, nil
}
