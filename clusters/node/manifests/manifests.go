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

// FieldOwner is the field manager of everything that Apply writes. Changes that a person makes to other fields stay.
// The next Apply reverts changes to these.
const FieldOwner = "operator-labs-node"

// VolumeHelper is the image in which volumes are created and removed. No Pod of the manifests runs it, but each volume
// has a Pod that does. It has a shell.
const VolumeHelper = "docker.io/kindest/local-path-helper:v20260131-7181c60a"

// Objects returns all objects of the manifests, in the order in which they are applied.
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

// Images returns the images of the manifests' Pods, and VolumeHelper, sorted. The node gets them before a Pod needs
// them.
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

// Apply writes the objects by server-side apply, without reading them first. An object that exists is changed to match.
func Apply(ctx context.Context, config *rest.Config) error {
	objects, err := Objects()
	if err != nil {
		return err
	}
	return apply.Objects(ctx, config, FieldOwner, objects)
}
