// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1beta1 lets the manager's webhook server answer for WebApps: the API server asks it to convert between their
// versions.
package v1beta1

import (
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// SetupWebAppWebhookWithManager has the manager convert WebApps, at the path /convert. It finds the versions in its
// scheme: a hub, and others that convert to it and from it. The CRD names the webhook, see config/crd/patches.
func SetupWebAppWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &appsv1beta1.WebApp{}).Complete()
}
