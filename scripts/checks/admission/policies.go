// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/existing"
)

// Policy is a file with a policy, its binding, and what they need.
type Policy struct{ objects []*unstructured.Unstructured }

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

// Has reports whether there is an object of a kind.
func (p *Policy) Has(kind string) bool {
	for _, object := range p.objects {
		if object.GetKind() == kind {
			return true
		}
	}
	return false
}

// Install creates a policy's objects, and returns when they have their effect. The answer is that to the first object
// which is not accepted, whose name is returned as well; otherwise that to the last.
func (c *Client) Install(ctx context.Context, policy *Policy) (answer Answer, refused string, err error) {
	for _, object := range policy.objects {
		name := fmt.Sprintf("the %s %s", object.GetKind(), object.GetName())
		resource, err := c.resource(object)
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
	}
	return answer, "", c.awaitPolicies(ctx)
}

// Remove deletes a policy's objects as far as they are there, and returns when they have no effect any more.
func (c *Client) Remove(ctx context.Context, policy *Policy) error {
	for _, object := range policy.objects {
		resource, err := c.resource(object)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err == nil {
			err = resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return c.awaitPolicies(ctx)
}

// resource is where objects like this one are.
func (c *Client) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.dynamic.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}
