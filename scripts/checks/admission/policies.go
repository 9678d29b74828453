// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/existing"
)

// Policy is a file with a policy and its binding.
type Policy struct {
	objects []*unstructured.Unstructured
	// installed holds the objects that Install created, as they are stored.
	installed []*unstructured.Unstructured
}

// ReadPolicy reads a file of YAML documents.
func ReadPolicy(content []byte) (*Policy, error) {
	policy := &Policy{}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return policy, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			policy.objects = append(policy.objects, object)
		}
	}
}

// policyKinds are the kinds that a file may contain.
var policyKinds = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

// Beyond describes, in one phrase each, the objects of a file that are not a policy for the group's kinds. Nothing of
// such a file is installed.
func (p *Policy) Beyond(group string) (phrases []string) {
	for _, object := range p.objects {
		if object.GroupVersionKind().Group != "admissionregistration.k8s.io" ||
			!slices.Contains(policyKinds, object.GetKind()) {
			phrases = append(phrases, fmt.Sprintf("a %s %s", object.GetKind(), object.GetName()))
			continue
		}
		for _, path := range [][]string{
			{"spec", "matchConstraints", "resourceRules"},
			{"spec", "matchResources", "resourceRules"},
		} {
			rules, _, _ := unstructured.NestedSlice(object.Object, path...)
			for _, rule := range rules {
				rule, _ := rule.(map[string]any)
				groups, _ := rule["apiGroups"].([]any)
				for _, asked := range groups {
					if asked != group {
						phrases = append(phrases, fmt.Sprintf("a rule for the API group %q in the %s %s",
							asked, object.GetKind(), object.GetName()))
					}
				}
			}
		}
	}
	return phrases
}

// Has reports whether there is an object of a kind.
func (p *Policy) Has(kind string) bool {
	for _, object := range p.objects {
		if object.GetKind() == kind {
			return true
		}
	}
	return false
}

// Install creates a policy's objects with an account that has no other rights, and returns when they have taken effect.
// If an object is not accepted, Install returns the answer to the first such object, and its name. Otherwise it returns
// the answer to the last object.
func (c *Client) Install(ctx context.Context, policy *Policy) (answer Answer, refused string, err error) {
	account, err := c.policyAccount(ctx)
	if err != nil {
		return Answer{}, "", err
	}
	for _, object := range policy.objects {
		name := fmt.Sprintf("the %s %s", object.GetKind(), object.GetName())
		resource, err := c.resource(account, object)
		if meta.IsNoMatchError(err) {
			return Answer{Verdict: Refused, Message: err.Error()}, name, nil
		}
		if err != nil {
			return Answer{}, name, err
		}
		object = object.DeepCopy()
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[existing.Label] = "true"
		object.SetLabels(labels)
		answer, err = c.Ask(ctx, func(ctx context.Context, _ dynamic.Interface) (*unstructured.Unstructured, error) {
			return resource.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		})
		if err != nil || answer.Verdict != Accepted {
			return answer, name, err
		}
		policy.installed = append(policy.installed, answer.Object)
	}
	return answer, "", c.AwaitPolicies(ctx)
}

// policyAccount returns a client with an account that may only read, create and delete policies and their bindings.
func (c *Client) policyAccount(ctx context.Context) (dynamic.Interface, error) {
	account, err := existing.NewAccount(ctx, c.config, []rbacv1.PolicyRule{{
		APIGroups: []string{"admissionregistration.k8s.io"},
		Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
		Verbs:     []string{"get", "create", "delete"},
	}})
	if err != nil {
		return nil, err
	}
	return dynamic.NewForConfig(account.Config)
}

// Remove deletes only the objects of a policy that Install created, and returns when they no longer have an effect.
func (c *Client) Remove(ctx context.Context, policy *Policy) error {
	if err := c.Uninstall(ctx, policy); err != nil {
		return err
	}
	return c.AwaitPolicies(ctx)
}

// Uninstall is like Remove, but does not wait: the policy may stay in effect for another second.
func (c *Client) Uninstall(ctx context.Context, policy *Policy) error {
	for _, object := range policy.installed {
		resource, err := c.resource(c.dynamic, object)
		if err == nil {
			err = resource.Delete(ctx, object.GetName(),
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(object.GetUID())}})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	policy.installed = nil
	return nil
}

// resource returns the client for objects of this object's kind.
func (c *Client) resource(client dynamic.Interface,
	object *unstructured.Unstructured,
) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return client.Resource(mapping.Resource).Namespace(namespace), nil
}
