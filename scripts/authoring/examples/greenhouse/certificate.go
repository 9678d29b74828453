// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServingCertificate asks cert-manager for the certificate of a webhook's Service, and returns the Secret in which it
// will be. The Issuer greenhouse-ca is in the same namespace.
func ServingCertificate(ctx context.Context, c client.Client, namespace, service string) (secret string, err error) {
	secret = service + "-tls"
	certificate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1",
		"kind":       "Certificate",
		"metadata":   map[string]any{"namespace": namespace, "name": service},
		"spec": map[string]any{
			"secretName": secret,
			"dnsNames":   []any{service + "." + namespace + ".svc"}, // the name that the API server calls
			"issuerRef":  map[string]any{"kind": "Issuer", "name": "greenhouse-ca"},
		},
	}}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(certificate),
		client.FieldOwner("greenhouse"), client.ForceOwnership)
	if err != nil {
		return "", fmt.Errorf("ask for a certificate for %s: %w", service, err)
	}
	return secret, nil // It is not there yet: wait for the Certificate's condition Ready.
}
