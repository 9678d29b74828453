// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// APIServices is the resource of APIServices, which register aggregated APIs in a cluster.
var APIServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// delegating lists the roles of Kubernetes to which an aggregated API server may be bound. They allow it to read the
// ConfigMap with the front proxy's authority, and to create reviews of tokens and of access.
// (https://kubernetes.io/docs/tasks/extend-kubernetes/setup-extension-api-server/)
var delegating = []string{"extension-apiserver-authentication-reader", "system:auth-delegator"}

// readAPIServices reads config/apiservice, and the bindings of config/rbac to the roles of Kubernetes that an
// aggregated API server needs. All of these are optional.
func (m *Manifests) readAPIServices(s *Submission) error {
	objects, err := s.readYAML("config/apiservice/*.yaml")
	if err != nil {
		return err
	}
	for _, object := range objects {
		switch object.GetKind() {
		case "APIService":
			m.APIServices = append(m.APIServices, object)
		case "Service":
			m.APIServers = append(m.APIServers, object)
		}
	}
	if len(m.APIServices) == 0 {
		return nil
	}
	bindings, err := s.readYAML("config/rbac/*.yaml")
	if err != nil {
		return err
	}
	for _, binding := range bindings {
		role, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		if slices.Contains(delegating, role) {
			m.Delegations = append(m.Delegations, binding)
		}
	}
	return nil
}
