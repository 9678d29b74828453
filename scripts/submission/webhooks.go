// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What kubebuilder's scaffolds of all years have.
const (
	defaultService     = "webhook-service"
	defaultServicePort = 443
	defaultWebhookPort = 9443
)

const admissionGroup = "admissionregistration.k8s.io"

// configurations are the kinds that register webhooks.
var configurations = map[string]schema.GroupVersionResource{
	"MutatingWebhookConfiguration":   {Group: admissionGroup, Version: "v1", Resource: "mutatingwebhookconfigurations"},
	"ValidatingWebhookConfiguration": {Group: admissionGroup, Version: "v1", Resource: "validatingwebhookconfigurations"},
}

// HasWebhooks reports whether the submission brings admission webhooks.
func (m *Manifests) HasWebhooks() bool { return len(m.webhooks) > 0 }

// readWebhooks reads the configurations of webhooks, the Services by which they are reached, and how kustomize would call
// them.
func (m *Manifests) readWebhooks(from *Submission) error {
	// Where there is a second file, it is for the clusters of before 2021.
	objects, err := from.readYAML("config/webhook/manifests*.yaml")
	if err != nil {
		return err
	}
	for _, object := range objects {
		if _, ok := configurations[object.GetKind()]; ok {
			m.addWebhook(object)
		}
	}
	services, err := from.readYAML("config/webhook/service.yaml")
	if err != nil {
		return err
	}
	for _, object := range services {
		if object.GetKind() == "Service" {
			m.services = append(m.services, object)
		}
	}
	// Whatever else is in this file, or wrong with it, is for kustomize.
	if kustomization, err := from.readYAML("config/default/kustomization.yaml"); err == nil && len(kustomization) > 0 {
		m.namePrefix, _, _ = unstructured.NestedString(kustomization[0].Object, "namePrefix")
	}
	return nil
}

// addWebhook adds a configuration. Of two with the same name, the one of today's version stays.
func (m *Manifests) addWebhook(object *unstructured.Unstructured) {
	same := func(other *unstructured.Unstructured) bool { return nameOf(other) == nameOf(object) }
	if i := slices.IndexFunc(m.webhooks, same); i < 0 {
		m.webhooks = append(m.webhooks, object)
	} else if isOld(m.webhooks[i]) {
		m.webhooks[i] = object
	}
}

// mayDecide finds webhooks that would be asked about what is somebody else's: with the operator gone, nobody could change that
// any more.
func (a Access) mayDecide(configurations []*unstructured.Unstructured) error {
	if !a.Shared {
		return nil
	}
	for _, configuration := range configurations {
		for _, webhook := range webhooksOf(configuration) {
			rules, _ := webhook["rules"].([]any)
			for _, rule := range rules {
				rule, _ := rule.(map[string]any)
				groups, _ := rule["apiGroups"].([]any)
				for _, group := range groups {
					if name, _ := group.(string); !slices.Contains(a.Groups, name) {
						return &Problem{Reason: fmt.Sprintf("the webhook %v wants to be asked about the API group %q, and on a cluster which others use, too, "+
							"it may decide on %s alone: name that in its rules, or grade it on the embedded cluster", webhook["name"], name, strings.Join(a.Groups, ", "))}
					}
				}
			}
		}
	}
	return nil
}

func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

func isOld(configuration *unstructured.Unstructured) bool {
	return configuration.GetAPIVersion() == admissionGroup+"/v1beta1"
}

// compareWebhooks does for webhooks what compare does for the others.
func (m *Manifests) compareWebhooks(committed *Manifests) {
	m.services, m.namePrefix = committed.services, committed.namePrefix
	switch {
	case len(m.webhooks) == 0:
		m.webhooks = committed.webhooks
	case len(committed.webhooks) > 0 && !slices.ContainsFunc(committed.webhooks, isOld) &&
		!reflect.DeepEqual(m.registered(), committed.registered()):
		m.notice("config/webhook/manifests.yaml is older than the markers: run `make manifests` (the markers were graded)")
	}
}

// registered is what the configurations say, in whatever order they say it.
func (m *Manifests) registered() map[string]any {
	all := map[string]any{}
	for _, configuration := range m.webhooks {
		for _, webhook := range webhooksOf(configuration) {
			said := maps.Clone(webhook)
			// Generators before 2020 had to put something there.
			if client, ok := said["clientConfig"].(map[string]any); ok {
				said["clientConfig"] = client["service"]
			}
			all[fmt.Sprint(nameOf(configuration), " ", webhook["name"])] = said
		}
	}
	return all
}

// webhooksOf are the webhooks of a configuration. What they are is for the API server to judge.
func webhooksOf(configuration *unstructured.Unstructured) (webhooks []map[string]any) {
	list, _ := configuration.Object["webhooks"].([]any)
	for _, one := range list {
		if webhook, ok := one.(map[string]any); ok {
			webhooks = append(webhooks, webhook)
		}
	}
	return webhooks
}

// serviceOf is the Service by which a webhook is reached, or nil if it is reached by a URL.
func serviceOf(webhook map[string]any) (client, service map[string]any) {
	client, _ = webhook["clientConfig"].(map[string]any)
	service, _ = client["service"].(map[string]any)
	return client, service
}

// completeWebhooks brings the configurations to what this API server takes, finds the Service of each, and says what does
// not fit.
func (m *Manifests) completeWebhooks() {
	if slices.ContainsFunc(m.webhooks, isOld) {
		m.notice("config/webhook/manifests.yaml is for a Kubernetes before 1.22 (%s/v1beta1): it was used as if it were v1", admissionGroup)
	}
	for _, configuration := range m.webhooks {
		if isOld(configuration) {
			modernise(configuration)
		}
	}
	if !m.HasWebhooks() {
		m.services = nil // what nobody names is for other things
		return
	}
	if len(m.services) == 0 {
		m.services = m.assumedServices()
		return
	}
	for _, configuration := range m.webhooks {
		for _, webhook := range webhooksOf(configuration) {
			if _, service := serviceOf(webhook); service != nil && m.service(service["name"]) == nil {
				m.notice("the webhook %v is to be reached at the Service %v, which config/webhook/service.yaml does not make: "+
					"the API server will not find it", webhook["name"], service["name"])
			}
		}
	}
}

// modernise writes out what v1beta1 took for granted, as far as v1 can say it.
func modernise(configuration *unstructured.Unstructured) {
	configuration.SetAPIVersion(admissionGroup + "/v1")
	for _, webhook := range webhooksOf(configuration) {
		for field, value := range map[string]any{
			"admissionReviewVersions": []any{"v1beta1"}, "failurePolicy": "Ignore", "matchPolicy": "Exact", "timeoutSeconds": int64(30),
		} {
			if _, said := webhook[field]; !said {
				webhook[field] = value
			}
		}
		if effects := webhook["sideEffects"]; effects != "None" && effects != "NoneOnDryRun" {
			webhook["sideEffects"] = "None"
		}
	}
}

// service finds the Service that a webhook names, as it is called in its file or as kustomize would call it.
func (m *Manifests) service(name any) *unstructured.Unstructured {
	for _, service := range m.services {
		if own := service.GetName(); name == own || name == m.namePrefix+own {
			return service
		}
	}
	return nil
}

// assumedServices are those that the webhooks name, as kubebuilder would have made them.
func (m *Manifests) assumedServices() (services []*unstructured.Unstructured) {
	named := []string{}
	for _, configuration := range m.webhooks {
		for _, webhook := range webhooksOf(configuration) {
			if _, service := serviceOf(webhook); service != nil {
				name, _ := service["name"].(string)
				named = append(named, cmp.Or(name, defaultService))
			}
		}
	}
	slices.Sort(named)
	for _, name := range slices.Compact(named) {
		services = append(services, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"ports": []any{map[string]any{
				"port": int64(defaultServicePort), "protocol": "TCP", "targetPort": int64(defaultWebhookPort),
			}}},
		}})
	}
	return services
}

// portsOf are the ports of a Service: each with the one at which the operator listens, unless it is told another.
func portsOf(service *unstructured.Unstructured) (map[int32]int, error) {
	content, err := json.Marshal(service.Object)
	if err != nil {
		return nil, err
	}
	var typed corev1.Service
	if err := json.Unmarshal(content, &typed); err != nil {
		return nil, &Problem{Reason: fmt.Sprintf("the Service %s can't be read: %v", service.GetName(), err)}
	}
	ports := map[int32]int{}
	for _, port := range typed.Spec.Ports {
		switch {
		case port.TargetPort.Type == intstr.String: // a port of the Deployment, which no scaffold ever changed
			ports[port.Port] = defaultWebhookPort
		case port.TargetPort.IntVal == 0:
			ports[port.Port] = int(port.Port)
		default:
			ports[port.Port] = int(port.TargetPort.IntVal)
		}
	}
	return ports, nil
}
