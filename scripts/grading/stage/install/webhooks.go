// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package install

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/grading/submission"
)

// CheckWebhooks returns an error for webhooks that would be called for objects of other users. Without the operator,
// these objects could no longer be changed.
func (t Target) CheckWebhooks(configurations []*unstructured.Unstructured) error {
	if !t.Shared {
		return nil
	}
	for _, configuration := range configurations {
		for _, webhook := range submission.WebhooksOf(configuration) {
			rules, _ := webhook["rules"].([]any)
			for _, rule := range rules {
				rule, _ := rule.(map[string]any)
				groups, _ := rule["apiGroups"].([]any)
				for _, group := range groups {
					if name, _ := group.(string); !slices.Contains(t.Groups, name) {
						return &submission.Problem{Reason: fmt.Sprintf("the webhook %v has a rule for the API group %q, "+
							"and on a cluster that others use, too, it may handle only %s: "+
							"change its rules, or grade it on the embedded cluster",
							webhook["name"], name, strings.Join(t.Groups, ", "))}
					}
				}
			}
		}
	}
	return nil
}

// WithClientConfig returns a configuration as kustomize and a CA injector would leave it: its webhooks point to the
// Services in the namespace and have the authority as their CA bundle. A webhook with a URL is left as it is.
func WithClientConfig(
	m *submission.Manifests, configuration *unstructured.Unstructured, namespace string, ca []byte,
) *unstructured.Unstructured {
	configuration = configuration.DeepCopy()
	for _, webhook := range submission.WebhooksOf(configuration) {
		client, reference := submission.ServiceOf(webhook)
		if reference == nil {
			continue
		}
		reference["namespace"] = namespace
		if service := m.Service(reference["name"]); service != nil {
			reference["name"] = service.GetName()
		}
		client["caBundle"] = base64.StdEncoding.EncodeToString(ca)
	}
	return configuration
}
