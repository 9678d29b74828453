// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package apply reads objects from YAML, and writes them to an API server by server-side apply. It does not wait for
// their effect.
package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Parse reads the objects of a file with one or more YAML documents.
func Parse(content []byte) (objects []*unstructured.Unstructured, err error) {
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

// Objects applies objects of built-in kinds, in the given order, without reading them first. owner is the field manager
// of the fields that are written. Changes that a person makes to other fields stay. The next call reverts changes to
// the fields of owner.
func Objects(ctx context.Context, config *rest.Config, owner string, objects []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("preparing a client of the API server: %w", err)
	}
	for _, object := range objects {
		// The names of built-in resources follow from their kinds. Asking the API server for them would take longer than
		// writing them.
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err := client.Resource(resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object,
			metav1.ApplyOptions{FieldManager: owner, Force: true})
		if err != nil {
			return fmt.Errorf("applying the %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
