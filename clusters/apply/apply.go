// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package apply reads objects from YAML, and writes them into an API server by server-side apply. It waits for nothing.
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

// Objects writes objects of built-in kinds, in their order: one that is there is made what it should be, and nothing is
// asked before. owner is who the API server knows as the owner of the fields that are written. What a person changes in
// other fields stays; in these, the next call takes it back.
func Objects(ctx context.Context, config *rest.Config, owner string, objects []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("preparing a client of the API server: %w", err)
	}
	for _, object := range objects {
		// The names of built-in resources follow from their kinds. To ask the API server for them would take longer than to
		// write them.
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err := client.Resource(resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object,
			metav1.ApplyOptions{FieldManager: owner, Force: true})
		if err != nil {
			return fmt.Errorf("applying the %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
