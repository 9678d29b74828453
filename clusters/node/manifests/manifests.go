// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifests

import (
	"context"
	"embed"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/apply"
)

//go:embed *.yaml
var files embed.FS

// FieldOwner is who the API server knows as the owner of what Apply writes. What a person changes in other fields
// stays; in these, the next Apply takes them back.
const FieldOwner = "operator-labs-node"

// VolumeHelper is the image in which volumes are made and removed: no Pod of the manifests runs it, and one of each
// volume does. It has a shell.
const VolumeHelper = "docker.io/kindest/local-path-helper:v20260131-7181c60a"

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
		found, err := apply.Parse(content)
		if err != nil {
			return nil, fmt.Errorf("reading clusters/node/manifests/%s: %w", entry.Name(), err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// Images are the images that Pods of the manifests run, and VolumeHelper, sorted: the node wants them before anybody
// asks.
func Images() ([]string, error) {
	objects, err := Objects()
	if err != nil {
		return nil, err
	}
	images := []string{VolumeHelper}
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

// Apply writes them, by server-side apply: an object that is there is made what it should be, and nothing is asked
// before.
func Apply(ctx context.Context, config *rest.Config) error {
	objects, err := Objects()
	if err != nil {
		return err
	}
	return apply.Objects(ctx, config, FieldOwner, objects)
}
