// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/existing"
)

// InstalledLabel marks what was made for a submission. What was registered for its webhooks goes when another submission is
// installed.
const InstalledLabel = existing.Label

func withOurLabel(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[InstalledLabel] = "true"
	return labels
}

// staleResources are what an earlier submission may have left. Who decides on requests comes before what it needs.
var staleResources = append(slices.Collect(maps.Values(configurations)),
	schema.GroupVersionResource{Group: admissionGroup, Version: "v1", Resource: "validatingadmissionpolicybindings"},
	schema.GroupVersionResource{Group: admissionGroup, Version: "v1", Resource: "validatingadmissionpolicies"},
	servicesResource,
)

// removeStale removes what an earlier submission had registered. What this one will register under the same name stays:
// there is no moment at which nobody decides.
func (m *Manifests) removeStale(ctx context.Context, client dynamic.Interface) error {
	ours := func(object *unstructured.Unstructured) bool {
		same := func(other *unstructured.Unstructured) bool { return nameOf(other) == nameOf(object) }
		return slices.ContainsFunc(m.webhooks, same) || slices.ContainsFunc(m.services, same)
	}
	for _, resource := range staleResources {
		registered, err := client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: InstalledLabel})
		if err != nil {
			return fmt.Errorf("listing what an earlier submission has registered: %w", err)
		}
		for _, object := range registered.Items {
			if ours(&object) {
				continue
			}
			err := client.Resource(resource).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("removing the %s %s of an earlier submission: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}
