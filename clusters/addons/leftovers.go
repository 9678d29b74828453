// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var definitions = schema.GroupVersionResource{
	Group:    "apiextensions.k8s.io",
	Version:  "v1",
	Resource: "customresourcedefinitions",
}

// leftoverPatience is how long the deletion of a kind with all its objects may take.
const leftoverPatience = 30 * time.Second

// clearLeftovers handles CustomResourceDefinitions that another install of the add-on left behind: by kubectl apply, by
// another release, or by another version. The chart could not be installed over them:
//
//   - one that is being deleted, and waits for objects whose finalizers no controller removes any more;
//   - one that has stored objects in a version that the chart's no longer has;
//   - one that has no release's name, or another's.
//
// On a cluster that we created, they are changed to fit the chart. Objects are kept, unless their kind was being
// deleted already. On another user's cluster, nothing is changed, and the error explains what to do.
func clearLeftovers(
	ctx context.Context, release *helm, wanted *chart.Chart, values map[string]any, report func(string),
) error {
	objects, err := dynamic.NewForConfig(release.access)
	if err != nil {
		return err
	}
	all, err := objects.Resource(definitions).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("looking for kinds that an earlier %s left behind: %w", release.name, err)
	}
	var foreign []*unstructured.Unstructured
	for i := range all.Items {
		definition := &all.Items[i]
		if !belongs(definition, release.name) {
			continue
		}
		if !release.owns(definition) || definition.GetDeletionTimestamp() != nil {
			foreign = append(foreign, definition)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	if release.target.Shared {
		return sharedLeftovers(release, foreign)
	}
	for _, definition := range foreign {
		if definition.GetDeletionTimestamp() != nil {
			if err := finishDeletion(ctx, objects, definition, report); err != nil {
				return err
			}
		}
	}
	served, err := servedVersions(release, wanted, values)
	if err != nil {
		return err
	}
	adopted := 0
	for _, definition := range foreign {
		if definition.GetDeletionTimestamp() != nil {
			continue
		}
		if err := dropUnknownVersions(ctx, objects, definition, served[definition.GetName()], report); err != nil {
			return err
		}
		adopted++
	}
	if adopted > 0 {
		report(fmt.Sprintf("taking over %d kinds that an earlier %s left behind", adopted, release.name))
	}
	return nil
}

// belongs reports whether a definition is of the add-on's API groups: cert-manager.io and acme.cert-manager.io.
func belongs(definition *unstructured.Unstructured, name string) bool {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	return group == name+".io" || strings.HasSuffix(group, "."+name+".io")
}

func sharedLeftovers(release *helm, foreign []*unstructured.Unstructured) error {
	var names []string
	for _, definition := range foreign {
		names = append(names, definition.GetName())
	}
	slices.Sort(names)
	return fmt.Errorf("the cluster has kinds of %s that we did not create (%s), and no %s: "+
		"ask the administrator of the cluster to install %s, or to delete these kinds with all their objects: "+
		"kubectl --kubeconfig %s delete crd %s", release.name, strings.Join(names, ", "), release.name, release.name,
		release.target.Kubeconfig, strings.Join(names, " "))
}

// finishDeletion waits until a kind that is being deleted is gone. It removes the finalizers of the kind's objects,
// because their controller no longer exists.
func finishDeletion(
	ctx context.Context, objects dynamic.Interface, definition *unstructured.Unstructured, report func(string),
) error {
	name := definition.GetName()
	report(fmt.Sprintf("%s is still being deleted: finishing the deletion", name))
	return until(ctx, leftoverPatience, "the deletion of "+name, func(ctx context.Context) (string, error) {
		current, err := objects.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if current.GetUID() != definition.GetUID() {
			return "", nil
		}
		resource := resourceOf(current)
		list, err := objects.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return "its objects are gone and it is not", nil
		}
		if err != nil {
			return "", err
		}
		for _, object := range list.Items {
			if len(object.GetFinalizers()) == 0 || object.GetDeletionTimestamp() == nil {
				continue
			}
			report(fmt.Sprintf("%s %s/%s: removing the finalizer %s, which has no controller",
				object.GetKind(), object.GetNamespace(), object.GetName(), strings.Join(object.GetFinalizers(), ", ")))
			_, err := objects.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(),
				types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return "", err
			}
		}
		return fmt.Sprintf("%d objects remain", len(list.Items)), nil
	})
}

// resourceOf returns a definition's resource in the version in which it is stored, or in the first version that is
// served.
func resourceOf(definition *unstructured.Unstructured) schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	resource := schema.GroupVersionResource{Group: group, Resource: plural}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		v, ok := version.(map[string]any)
		if !ok || v["served"] != true {
			continue
		}
		if name, _ := v["name"].(string); resource.Version == "" || v["storage"] == true {
			resource.Version = name
		}
	}
	return resource
}

// servedVersions returns the versions that each definition of the chart has.
func servedVersions(release *helm, wanted *chart.Chart, values map[string]any) (map[string][]string, error) {
	render := action.NewInstall(release.config)
	render.ReleaseName, render.Namespace = release.name, release.namespace
	render.DryRun, render.DryRunOption, render.Replace, render.TakeOwnership = true, "client", true, true
	last, err := release.last()
	if err != nil {
		return nil, err
	}
	manifest := ""
	if last != nil && last.Chart.Metadata.Version == wanted.Metadata.Version {
		manifest = last.Manifest
	} else {
		if last != nil {
			// The name is taken. Any other name works, because nothing is stored.
			render.ReleaseName += "-rendered"
		}
		rendered, err := render.Run(wanted, values)
		if err != nil {
			return nil, fmt.Errorf("rendering the chart of %s: %w", release.name, err)
		}
		manifest = rendered.Manifest
	}
	objects, err := release.config.KubeClient.Build(bytes.NewBufferString(manifest), false)
	if err != nil {
		return nil, fmt.Errorf("reading the objects of the chart of %s: %w", release.name, err)
	}
	served := map[string][]string{}
	for _, object := range objects {
		definition, ok := object.Object.(*unstructured.Unstructured)
		if !ok || definition.GetKind() != "CustomResourceDefinition" {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		for _, version := range versions {
			if v, ok := version.(map[string]any); ok {
				served[definition.GetName()] = append(served[definition.GetName()], fmt.Sprint(v["name"]))
			}
		}
	}
	return served, nil
}

// dropUnknownVersions handles a definition that has stored objects in a version that the chart's definition no longer
// has. The API server would refuse the chart's definition. Without objects, the old definition is deleted. With objects
// it returns an error, because no change would keep them.
func dropUnknownVersions(ctx context.Context, objects dynamic.Interface, definition *unstructured.Unstructured,
	served []string, report func(string),
) error {
	stored, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
	unknown := slices.DeleteFunc(slices.Clone(stored), func(v string) bool { return slices.Contains(served, v) })
	if len(unknown) == 0 || len(served) == 0 {
		return nil
	}
	name := definition.GetName()
	list, err := objects.Resource(resourceOf(definition)).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking for objects of %s: %w", name, err)
	}
	if list != nil && len(list.Items) > 0 {
		return fmt.Errorf("the cluster has %s with objects in version %s, which this release no longer has: "+
			"save them, delete the kind (kubectl delete crd %s), and try again", name, strings.Join(unknown, ", "), name)
	}
	report(fmt.Sprintf("deleting the old %s, which has no objects and another version (%s)",
		name, strings.Join(unknown, ", ")))
	if err := objects.Resource(definitions).Delete(ctx, name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return until(ctx, leftoverPatience, "the deletion of "+name, func(ctx context.Context) (string, error) {
		_, err := objects.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "it is still there", err
	})
}
