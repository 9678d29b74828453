// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package install

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/scripts/grading/submission"
)

// Delegate binds the operator's account to the roles of Kubernetes with which an aggregated API server authenticates
// and authorizes users. It binds the roles that the submission's own bindings name, under its own names.
func (t Target) Delegate(ctx context.Context, client dynamic.Interface, m *submission.Manifests) error {
	for _, binding := range m.Delegations {
		binding = binding.DeepCopy()
		resource := schema.GroupVersionResource{
			Group:    "rbac.authorization.k8s.io",
			Version:  "v1",
			Resource: "clusterrolebindings",
		}
		bound := dynamic.ResourceInterface(client.Resource(resource))
		if binding.GetKind() == "RoleBinding" {
			resource.Resource = "rolebindings"
			binding.SetNamespace(metav1.NamespaceSystem)
			bound = client.Resource(resource).Namespace(metav1.NamespaceSystem)
		}
		role, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		binding.SetName("operator-labs:" + role)
		account := map[string]any{
			"kind":      "ServiceAccount",
			"name":      submission.AccountName,
			"namespace": submission.AccountNamespace,
		}
		if err := unstructured.SetNestedSlice(binding.Object, []any{account}, "subjects"); err != nil {
			return err
		}
		if _, err := t.Apply(ctx, bound, binding); err != nil {
			return err
		}
	}
	return nil
}
