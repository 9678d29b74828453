// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package install

import (
	"context"
	"fmt"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/grading/submission"
)

// labelled returns the labels with the label by which objects created for a submission are found.
func labelled(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[existing.Label] = "true"
	return labels
}

// Services is the resource of Services.
var Services = schema.GroupVersionResource{Version: "v1", Resource: "services"}

// staleResources lists the resources of which an earlier submission may have left objects. Those whose objects decide
// on requests come before those that they need.
var staleResources = append(slices.Collect(maps.Values(submission.Configurations)), submission.APIServices,
	schema.GroupVersionResource{
		Group:    admissionregistrationv1.GroupName,
		Version:  "v1",
		Resource: "validatingadmissionpolicybindings",
	},
	schema.GroupVersionResource{
		Group:    admissionregistrationv1.GroupName,
		Version:  "v1",
		Resource: "validatingadmissionpolicies",
	},
	Services,
)

// removeStale removes the registrations of an earlier submission. It keeps those that this submission will replace
// under the same name, so that a webhook or policy decides at every moment.
func removeStale(ctx context.Context, client dynamic.Interface, m *submission.Manifests) error {
	isReplaced := func(object *unstructured.Unstructured) bool {
		same := func(other *unstructured.Unstructured) bool {
			return submission.NameOf(other) == submission.NameOf(object)
		}
		return slices.ContainsFunc(m.Webhooks, same) || slices.ContainsFunc(m.Services, same)
	}
	for _, resource := range staleResources {
		registered, err := client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: existing.Label})
		if err != nil {
			return fmt.Errorf("listing the registrations of an earlier submission: %w", err)
		}
		for _, object := range registered.Items {
			if isReplaced(&object) {
				continue
			}
			err := client.Resource(resource).Namespace(object.GetNamespace()).
				Delete(ctx, object.GetName(), metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("removing the %s %s of an earlier submission: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}
