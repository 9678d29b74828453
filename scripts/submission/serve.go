// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
)

// HasWebhooks reports whether the submission brings admission webhooks.
func (m *Manifests) HasWebhooks() bool { return false }

// ServeWebhooks brings the submission's webhooks into a cluster whose API server goes out to Services by the socket: a
// Service and the webhook configurations, as kustomize would put them together. It leads the Service to the operator that
// StartOperator starts afterwards, for which it makes a serving certificate. What it returns ends that; the webhooks stay
// registered, and fail closed. A configuration that the API server refuses is a *Problem.
func (w *Workshop) ServeWebhooks(ctx context.Context, config *rest.Config, socket string, manifests *Manifests) (close func() error, err error) {
	return nil, errors.New("not yet")
}
