// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Defaults in kubebuilder's scaffolds of all years.
const (
	DefaultService     = "webhook-service"
	defaultServicePort = 443
	// DefaultWebhookPort is the port at which controller-runtime's webhooks listen by default.
	DefaultWebhookPort = 9443
	// CertificateFolder is the folder in which controller-runtime expects a serving certificate, below the folder for
	// temporary files.
	CertificateFolder = "k8s-webhook-server/serving-certs"
)

const admissionGroup = "admissionregistration.k8s.io"

// Configurations are the resources of the kinds that register webhooks, by the name of the kind.
var Configurations = map[string]schema.GroupVersionResource{
	"MutatingWebhookConfiguration":   {Group: admissionGroup, Version: "v1", Resource: "mutatingwebhookconfigurations"},
	"ValidatingWebhookConfiguration": {Group: admissionGroup, Version: "v1", Resource: "validatingwebhookconfigurations"},
}

// HasWebhooks reports whether the submission has admission webhooks.
func (m *Manifests) HasWebhooks() bool { return len(m.Webhooks) > 0 }

// readWebhooks reads the configurations of webhooks, the Services by which they are reached, and the prefix that
// kustomize would add to their names.
func (m *Manifests) readWebhooks(s *Submission) error {
	// If there is a second file, it is for clusters before 2021.
	objects, err := s.readYAML("config/webhook/manifests*.yaml")
	if err != nil {
		return err
	}
	for _, object := range objects {
		if _, ok := Configurations[object.GetKind()]; ok {
			m.addWebhook(object)
		}
	}
	services, err := s.readYAML("config/webhook/service.yaml")
	if err != nil {
		return err
	}
	for _, object := range services {
		if object.GetKind() == "Service" {
			m.Services = append(m.Services, object)
		}
	}
	// kustomize handles the other fields of this file, and errors in it.
	if kustomization, err := s.readYAML("config/default/kustomization.yaml"); err == nil && len(kustomization) > 0 {
		m.namePrefix, _, _ = unstructured.NestedString(kustomization[0].Object, "namePrefix")
	}
	return nil
}

// addWebhook adds a configuration. If two have the same name, the one with the current API version is kept.
func (m *Manifests) addWebhook(object *unstructured.Unstructured) {
	same := func(other *unstructured.Unstructured) bool { return NameOf(other) == NameOf(object) }
	if i := slices.IndexFunc(m.Webhooks, same); i < 0 {
		m.Webhooks = append(m.Webhooks, object)
	} else if isOld(m.Webhooks[i]) {
		m.Webhooks[i] = object
	}
}

// NameOf returns an object's kind and name, for messages.
func NameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

func isOld(configuration *unstructured.Unstructured) bool {
	return configuration.GetAPIVersion() == admissionGroup+"/v1beta1"
}

// compareWebhooks does the same as compare, for webhooks.
func (m *Manifests) compareWebhooks(committed *Manifests) {
	m.Services, m.namePrefix = committed.Services, committed.namePrefix
	switch {
	case len(m.Webhooks) == 0:
		m.Webhooks = committed.Webhooks
	case len(committed.Webhooks) > 0 && !slices.ContainsFunc(committed.Webhooks, isOld) &&
		!reflect.DeepEqual(m.registered(), committed.registered()):
		m.Notice("config/webhook/manifests.yaml is older than the markers: run `make manifests` (the markers were graded)")
	}
}

// registered returns the content of the configurations, independent of their order.
func (m *Manifests) registered() map[string]any {
	all := map[string]any{}
	for _, configuration := range m.Webhooks {
		for _, webhook := range WebhooksOf(configuration) {
			settings := maps.Clone(webhook)
			// Generators before 2020 had to set a caBundle.
			if client, ok := settings["clientConfig"].(map[string]any); ok {
				settings["clientConfig"] = client["service"]
			}
			all[fmt.Sprint(NameOf(configuration), " ", webhook["name"])] = settings
		}
	}
	return all
}

// WebhookNames returns the names of the submission's webhooks, by which the API server reports that one of them failed.
func (m *Manifests) WebhookNames() (names []string) {
	for _, configuration := range m.Webhooks {
		for _, webhook := range WebhooksOf(configuration) {
			if name, ok := webhook["name"].(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// WebhooksOf returns the webhooks of a configuration. It does not validate them, because the API server does.
func WebhooksOf(configuration *unstructured.Unstructured) (webhooks []map[string]any) {
	list, _ := configuration.Object["webhooks"].([]any)
	for _, one := range list {
		if webhook, ok := one.(map[string]any); ok {
			webhooks = append(webhooks, webhook)
		}
	}
	return webhooks
}

// ServiceOf returns the reference to the Service by which a webhook is reached, or nil if it is reached by a URL.
func ServiceOf(webhook map[string]any) (client, service map[string]any) {
	client, _ = webhook["clientConfig"].(map[string]any)
	service, _ = client["service"].(map[string]any)
	return client, service
}

// completeWebhooks converts the configurations to the version that this API server accepts, finds the Service of each,
// and adds notices about problems.
func (m *Manifests) completeWebhooks() {
	if slices.ContainsFunc(m.Webhooks, isOld) {
		m.Notice("config/webhook/manifests.yaml is for a Kubernetes before 1.22 (%s/v1beta1): "+
			"it was used as if it were v1", admissionGroup)
	}
	for _, configuration := range m.Webhooks {
		if isOld(configuration) {
			modernise(configuration)
		}
	}
	if !m.HasWebhooks() && !m.Converts() {
		m.Services = nil // Services that no webhook names have other purposes
		return
	}
	if len(m.Services) == 0 {
		m.Services = m.assumedServices()
		return
	}
	for _, configuration := range m.Webhooks {
		for _, webhook := range WebhooksOf(configuration) {
			if _, service := ServiceOf(webhook); service != nil && m.Service(service["name"]) == nil {
				m.Notice("the webhook %v uses the Service %v, which config/webhook/service.yaml does not define: "+
					"the API server will not find it", webhook["name"], service["name"])
			}
		}
	}
}

// modernise sets the defaults of v1beta1 explicitly, as far as v1 allows them.
func modernise(configuration *unstructured.Unstructured) {
	configuration.SetAPIVersion(admissionGroup + "/v1")
	for _, webhook := range WebhooksOf(configuration) {
		for field, value := range map[string]any{
			"admissionReviewVersions": []any{"v1beta1"},
			"failurePolicy":           "Ignore",
			"matchPolicy":             "Exact",
			"timeoutSeconds":          int64(30),
		} {
			if _, ok := webhook[field]; !ok {
				webhook[field] = value
			}
		}
		if effects := webhook["sideEffects"]; effects != "None" && effects != "NoneOnDryRun" {
			webhook["sideEffects"] = "None"
		}
	}
}

// Service finds the Service that a webhook names, as it is called in its file or as kustomize would call it.
func (m *Manifests) Service(name any) *unstructured.Unstructured {
	for _, service := range m.Services {
		if own := service.GetName(); name == own || name == m.namePrefix+own {
			return service
		}
	}
	return nil
}

// assumedServices returns the Services that the webhooks name, including those for conversions, as kubebuilder would
// have generated them.
func (m *Manifests) assumedServices() (services []*unstructured.Unstructured) {
	named := []string{}
	for _, configuration := range m.Webhooks {
		for _, webhook := range WebhooksOf(configuration) {
			if _, service := ServiceOf(webhook); service != nil {
				name, _ := service["name"].(string)
				named = append(named, cmp.Or(name, DefaultService))
			}
		}
	}
	for _, definition := range m.AllVersions() {
		if len(ServedVersions(definition)) > 1 {
			name, _, _ := unstructured.NestedString(m.conversionOf(definition), "clientConfig", "service", "name")
			named = append(named, cmp.Or(name, DefaultService))
		}
	}
	slices.Sort(named)
	for _, name := range slices.Compact(named) {
		services = append(services, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"ports": []any{map[string]any{
				"port": int64(defaultServicePort), "protocol": "TCP", "targetPort": int64(DefaultWebhookPort),
			}}},
		}})
	}
	return services
}
