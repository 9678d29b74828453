// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeploymentCount is the resource of a quota that counts Deployments.
const DeploymentCount corev1.ResourceName = "count/deployments.apps"

// Limit creates or changes a quota in a namespace that allows at most the given amount of a resource. The API server
// answers a create beyond it with 403, and the message has the name of the quota. A change takes effect a moment later.
func (o *Owners) Limit(ctx context.Context, namespace, name string, limited corev1.ResourceName, most string) error {
	quotas := o.Client.CoreV1().ResourceQuotas(namespace)
	spec := corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{limited: resource.MustParse(most)}}
	_, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec},
		metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = Edit(ctx, quotas, name, func(quota *corev1.ResourceQuota) { quota.Spec = spec })
	}
	if err != nil {
		return fmt.Errorf("limiting %s in %s: %w", limited, namespace, err)
	}
	return nil
}
