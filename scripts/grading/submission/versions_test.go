// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/grading/submission/samples"
)

// shops returns a definition with versions of these names. The last is the storage version.
func shops(versions ...string) *unstructured.Unstructured {
	var all []any
	for i, name := range versions {
		all = append(all, map[string]any{"name": name, "served": true, "storage": i == len(versions)-1})
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"kind": DefinitionKind,
		"spec": map[string]any{"versions": all},
	}}
	definition.SetName("shops.example.com")
	return definition
}

// versionsOf returns the versions of the first definition, and whether each is the storage version.
func versionsOf(definitions []*unstructured.Unstructured) (described []string) {
	versions, _, _ := unstructured.NestedSlice(definitions[0].Object, "spec", "versions")
	for _, one := range versions {
		one := one.(map[string]any)
		described = append(described, fmt.Sprint(one["name"], " ", one["storage"]))
	}
	return described
}

func TestHoldBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		versions    []string
		held        bool
		left, whole []string
	}{
		{
			"the stored one",
			[]string{"v1alpha1", "v1beta1"},
			true,
			[]string{"v1alpha1 true"},
			[]string{"v1alpha1 false", "v1beta1 true"},
		},
		{
			"one of three",
			[]string{"v1alpha1", "v1beta1", "v1"},
			true,
			[]string{"v1alpha1 false", "v1 true"},
			[]string{"v1alpha1 false", "v1beta1 false", "v1 true"},
		},
		{"one that it does not have", []string{"v1alpha1"}, false, []string{"v1alpha1 true"}, []string{"v1alpha1 true"}},
		{"the only one", []string{"v1beta1"}, false, []string{"v1beta1 true"}, []string{"v1beta1 true"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := &Manifests{Definitions: []*unstructured.Unstructured{shops(test.versions...)}}
			if held := m.HoldBack("v1beta1"); held != test.held {
				t.Errorf("HoldBack() = %v", held)
			}
			left, whole := versionsOf(m.Definitions), versionsOf(m.AllVersions())
			if !slices.Equal(left, test.left) || !slices.Equal(whole, test.whole) {
				t.Errorf("got versions %v of %v, want %v of %v", left, whole, test.left, test.whole)
			}
		})
	}
}

func TestTheConversionWebhook(t *testing.T) {
	t.Parallel()
	const patch = `-- config/crd/patches/webhook_in_shops.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  conversion:
    strategy: Webhook
    webhook:
      clientConfig: {service: {namespace: system, name: asked, path: /translate}}
      conversionReviewVersions: [v1]
-- config/crd/patches/cainjection_in_shops.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com, annotations: {cert-manager.io/inject-ca-from: a/b}}
`
	main := samples.Module + "-- cmd/main.go --\n" + samples.Program
	for _, test := range []struct{ name, files, service, path string }{
		{"as in kubebuilder's scaffold", main, DefaultService, "/convert"},
		{"as in a patch", main + patch, "asked", "/translate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opened, err := Open(samples.Lay(t, test.files), "")
			if err != nil {
				t.Fatal(err)
			}
			m, err := opened.committed()
			if err != nil {
				t.Fatal(err)
			}
			definition := shops("v1alpha1", "v1beta1")
			m.Definitions = []*unstructured.Unstructured{definition}
			m.completeWebhooks()
			if m.HoldBack("v1beta1"); !m.Converts() || len(m.Services) != 1 || m.Services[0].GetName() != test.service {
				t.Errorf("got Services %v", m.Services)
			}
			converted := m.Converted(definition, "operators", []byte("CA"))
			client, _, _ := unstructured.NestedMap(converted.Object, "spec", "conversion", "webhook", "clientConfig")
			service, _ := client["service"].(map[string]any)
			if client["caBundle"] != "Q0E=" || service["name"] != test.service ||
				service["namespace"] != "operators" || service["path"] != test.path {
				t.Errorf("got client config %v", client)
			}
			alone := shops("v1")
			if got := m.Converted(alone, "operators", nil); got.Object["spec"].(map[string]any)["conversion"] != nil {
				t.Errorf("a definition of one version is converted: %v", got.Object)
			}
		})
	}
}
