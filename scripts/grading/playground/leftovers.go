// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// warnOfFinalizers prints the objects of the playground that have a finalizer of another lab, if the operator in a
// folder does not know the finalizer. They can't be deleted while that operator runs, and nothing else would show the
// reason.
func warnOfFinalizers(
	ctx context.Context, repo *checkout.Checkout, config *rest.Config, dir string, out io.Writer,
) error {
	held, err := objectsByFinalizer(ctx, config)
	if err != nil {
		return fmt.Errorf("looking for finalizers at the playground: %w", err)
	}
	for _, finalizer := range slices.Sorted(maps.Keys(held)) {
		known, err := hasString(dir, finalizer)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		lab, err := labWithFinalizer(repo, finalizer)
		if err != nil {
			return err
		}
		// A finalizer of no lab was set on purpose, by a user or by `make zombie`.
		if lab == nil {
			continue
		}
		fmt.Fprintf(out, "The playground has objects with the finalizer %s of lab %d: %s.\n"+
			"This operator does not remove it, so they can't be deleted while it runs. "+
			"`make run-%d` runs the operator that does;\n"+
			"`make down` removes everything.\n", finalizer, lab.Number, summarize(held[finalizer]), lab.Number)
	}
	return nil
}

// objectsByFinalizer returns the names of a cluster's custom objects by their finalizers.
func objectsByFinalizer(ctx context.Context, config *rest.Config) (map[string][]string, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	definitions, err := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	held := map[string][]string{}
	for i := range definitions.Items {
		resource, served := servedResource(&definitions.Items[i])
		if !served {
			continue
		}
		objects, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // the kind is not established
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for _, object := range objects.Items {
			for _, finalizer := range object.GetFinalizers() {
				held[finalizer] = append(held[finalizer], object.GetName())
			}
		}
	}
	return held, nil
}

// servedResource returns the resource by which the objects of a definition can be listed, if it has a served version.
func servedResource(definition *unstructured.Unstructured) (resource schema.GroupVersionResource, served bool) {
	resource.Group, _, _ = unstructured.NestedString(definition.Object, "spec", "group")
	resource.Resource, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		version, isObject := version.(map[string]any)
		if !isObject || version["served"] != true {
			continue
		}
		resource.Version, served = version["name"].(string)
		if served {
			return resource, true
		}
	}
	return resource, false
}

// labWithFinalizer returns the first lab whose solution names a finalizer, or nil.
func labWithFinalizer(repo *checkout.Checkout, finalizer string) (*manifest.Lab, error) {
	for i := range repo.Labs.Labs {
		lab := &repo.Labs.Labs[i]
		if named, err := hasString(repo.SolutionDir(lab), finalizer); err != nil || named {
			return lab, err
		}
	}
	return nil, nil
}

// hasString reports whether the Go code of a folder contains a string literal.
func hasString(dir, text string) (named bool, err error) {
	literal := []byte(`"` + text + `"`)
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := os.ReadFile(name)
		if named = bytes.Contains(content, literal); named {
			return filepath.SkipAll
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("looking for %s in %s: %w", text, dir, err)
	}
	return named, nil
}

// summarize lists the first few names, and counts the others.
func summarize(all []string) string {
	const most = 3
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
