// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"encoding/base64"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// conversionPath is the path at which controller-runtime's webhook server converts objects.
const conversionPath = "/convert"

// Converts reports whether a kind of the submission is served in several versions, between which a webhook has to
// convert.
func (m *Manifests) Converts() bool {
	return slices.ContainsFunc(m.AllVersions(), func(d *unstructured.Unstructured) bool {
		return len(ServedVersions(d)) > 1
	})
}

// AllVersions returns the definitions with the versions that are held back.
func (m *Manifests) AllVersions() []*unstructured.Unstructured {
	if m.whole != nil {
		return m.whole
	}
	return m.Definitions
}

// HoldBack removes a version from the definitions, as if it had not been written yet, and reports whether it was there.
// If it was the storage version, the first remaining version becomes the storage version. A definition that has no
// other version stays as it is.
func (m *Manifests) HoldBack(version string) bool {
	held := false
	without := func(definitions []*unstructured.Unstructured) (reduced []*unstructured.Unstructured) {
		for _, definition := range definitions {
			less, ok := WithoutVersion(definition, version)
			held, reduced = held || ok, append(reduced, less)
		}
		return reduced
	}
	whole := m.Definitions
	m.Definitions, m.Committed = without(m.Definitions), without(m.Committed)
	if held {
		m.whole = whole
	}
	return held
}

// WithoutVersion returns a definition without a version, and true. If the definition does not have the version, or has
// no other, it returns the definition itself, and false.
func WithoutVersion(definition *unstructured.Unstructured, version string) (*unstructured.Unstructured, bool) {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	left := slices.DeleteFunc(slices.Clone(versions), func(one any) bool {
		v, _ := one.(map[string]any)
		return v["name"] == version
	})
	if len(left) == len(versions) || len(left) == 0 {
		return definition, false
	}
	stored := slices.ContainsFunc(left, func(one any) bool {
		v, _ := one.(map[string]any)
		return v["storage"] == true
	})
	if first, ok := left[0].(map[string]any); ok && !stored {
		first["storage"] = true
	}
	reduced := definition.DeepCopy()
	reduced.Object["spec"].(map[string]any)["versions"] = left
	if len(left) == 1 {
		unstructured.RemoveNestedField(reduced.Object, "spec", "conversion")
	}
	return reduced, true
}

// Converted returns a definition as kustomize and a CA injector would leave it. If the definition is served in several
// versions, the webhook of the submission converts between them, at a Service in the namespace, with a certificate of
// the authority, in PEM. Settings of the submission for the conversion, in the definition or in a patch in
// config/crd/patches, are kept. The others are as in kubebuilder's scaffold.
func (m *Manifests) Converted(
	definition *unstructured.Unstructured, namespace string, ca []byte,
) *unstructured.Unstructured {
	definition = definition.DeepCopy()
	spec, ok := definition.Object["spec"].(map[string]any)
	if !ok || len(ServedVersions(definition)) < 2 {
		return definition
	}
	webhook := m.conversionOf(definition)
	client, _ := webhook["clientConfig"].(map[string]any)
	service, _ := client["service"].(map[string]any)
	reference := map[string]any{"name": DefaultService, "path": conversionPath}
	maps.Copy(reference, service)
	reference["namespace"] = namespace
	if made := m.Service(reference["name"]); made != nil {
		reference["name"] = made.GetName()
	}
	settings := map[string]any{"conversionReviewVersions": []any{"v1"}}
	maps.Copy(settings, webhook)
	settings["clientConfig"] = map[string]any{"service": reference, "caBundle": base64.StdEncoding.EncodeToString(ca)}
	spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": settings}
	return definition
}

// conversionOf returns the submission's settings of the webhook that converts between the versions of a definition, or
// nil if there are none.
func (m *Manifests) conversionOf(definition *unstructured.Unstructured) map[string]any {
	webhook, _, _ := unstructured.NestedMap(definition.Object, "spec", "conversion", "webhook")
	if patch := Find(m.conversions, definition.GetName()); webhook == nil && patch != nil {
		webhook, _, _ = unstructured.NestedMap(patch.Object, "spec", "conversion", "webhook")
	}
	return webhook
}

// readConversions reads the patches that kubebuilder writes for conversion webhooks.
func (m *Manifests) readConversions(s *Submission) error {
	patches, err := s.readYAML("config/crd/patches/*.yaml")
	if err != nil {
		return err
	}
	for _, patch := range patches {
		if _, converts, _ := unstructured.NestedMap(patch.Object, "spec", "conversion"); patch.GetKind() == DefinitionKind &&
			converts {
			m.conversions = append(m.conversions, patch)
		}
	}
	return nil
}
