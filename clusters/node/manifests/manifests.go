// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifests

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

//go:embed *.yaml
var files embed.FS

// FieldOwner is who the API server knows as the owner of what Apply writes. What a person changes in other fields stays; in these, the
// next Apply takes them back.
const FieldOwner = "operator-labs-node"

// Objects are all of them, in the order in which they are applied.
func Objects() ([]*unstructured.Unstructured, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, entry := range entries {
		content, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		found, err := parse(content)
		if err != nil {
			return nil, fmt.Errorf("reading clusters/node/manifests/%s: %w", entry.Name(), err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func parse(content []byte) (objects []*unstructured.Unstructured, err error) {
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

// Images are the images that Pods of the manifests run, sorted: the node wants them before anybody asks.
func Images() ([]string, error) {
	objects, err := Objects()
	if err != nil {
		return nil, err
	}
	var images []string
	for _, object := range objects {
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil {
			return nil, fmt.Errorf("reading the containers of %s: %w", object.GetName(), err)
		}
		for _, container := range containers {
			if fields, ok := container.(map[string]any); ok {
				image, _, _ := unstructured.NestedString(fields, "image")
				images = append(images, image)
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images), nil
}

// Apply writes them, by server-side apply: an object that is there is made what it should be, and nothing is asked before.
func Apply(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("preparing a client of the API server: %w", err)
	}
	objects, err := Objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		// The names of built-in resources follow from their kinds. To ask the API server for them would take longer than to write them.
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err := client.Resource(resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object,
			metav1.ApplyOptions{FieldManager: FieldOwner, Force: true})
		if err != nil {
			return fmt.Errorf("applying the %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
