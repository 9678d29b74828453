// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Namespaces are those of the cluster.
type Namespaces struct{ core rest.Interface }

// NewNamespaces returns the namespaces of a cluster. core is a client for core/v1.
func NewNamespaces(core rest.Interface) Namespaces { return Namespaces{core: core} }

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// AllowCreate returns a NotFound error if there is no such namespace, and a Forbidden error if it is being deleted.
// The API server's admission plugin NamespaceLifecycle does this for the built-in kinds: an object that is created
// late outlives its namespace. The namespace is read each time, since a cache is behind, and lacks those that were
// just created.
func (n Namespaces) AllowCreate(ctx context.Context, resource schema.GroupResource, namespace, name string) error {
	found := &corev1.Namespace{}
	err := n.core.Get().Resource("namespaces").Name(namespace).Do(ctx).Into(found)
	switch {
	case apierrors.IsNotFound(err):
		return err // it names the namespace
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("read the namespace %s: %w", namespace, err))
	case found.Status.Phase == corev1.NamespaceTerminating:
		refused := apierrors.NewForbidden(resource, name,
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
		// By the cause, controllers see that there is no use in trying again.
		refused.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", namespace),
			Field: "metadata.namespace",
		}}
		return refused
	}
	return nil
}
