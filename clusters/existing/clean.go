// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package existing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"lva.io/operators/clusters/await"
)

const (
	// cleanTimeout is for a namespace with Pods that take their time to end.
	cleanTimeout = 2 * time.Minute
	goneInterval = 50 * time.Millisecond
	// listers is how many kinds are listed at a time.
	listers = 10
)

var (
	definitionsResource = schema.GroupVersionResource{
		Group:    "apiextensions.k8s.io",
		Version:  "v1",
		Resource: "customresourcedefinitions",
	}
	apiServicesResource = schema.GroupVersionResource{
		Group:    "apiregistration.k8s.io",
		Version:  "v1",
		Resource: "apiservices",
	}
)

// object is something in the cluster that carries the label.
type object struct {
	resource        schema.GroupVersionResource
	namespace, name string
	uid             types.UID
	version         string // its resourceVersion
}

func (o object) String() string {
	return strings.TrimPrefix(o.namespace+"/", "/") + o.name + " (" + o.resource.GroupResource().String() + ")"
}

// The order in which objects are deleted. Webhooks and policies come first, so that they cannot refuse the rest.
// Programs that run come before the kinds that they manage, and a kind is deleted when all its objects are gone.
// Namespaces with everything in them come last.
const (
	admission = iota
	others
	definitions
	namespaces
	stages
)

func (o object) stage() int {
	switch {
	case o.resource.Group == "admissionregistration.k8s.io", o.resource.Resource == "apiservices":
		return admission
	case o.resource.GroupResource() == definitionsResource.GroupResource():
		return definitions
	case o.resource.Group == "" && o.resource.Resource == "namespaces":
		return namespaces
	}
	return others
}

// cleaner removes the objects that carry the label.
type cleaner struct {
	metadata metadata.Interface
	dynamic  dynamic.Interface
}

// Clean removes all objects that carry our label, of every kind. It removes the custom resources of our kinds despite
// their finalizers, and everything in our namespaces. It returns when nothing of that is left, and reports how many
// objects there were.
func (c *Cluster) Clean(ctx context.Context) (removed int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cleanTimeout, fmt.Errorf("it took longer than %s", cleanTimeout))
	defer cancel()
	withdrawn, err := c.removeAPIServices(ctx)
	if err == nil {
		err = c.endConversions(ctx)
	}
	if err != nil {
		return withdrawn, err
	}
	all, err := c.list(ctx, Label)
	if err != nil {
		return withdrawn, err
	}
	removed, err = c.remove(ctx, all)
	return withdrawn + removed, err
}

// removeAPIServices removes our APIServices before anything else is requested, because a submission's server may return
// anything.
func (c *Cluster) removeAPIServices(ctx context.Context) (removed int, err error) {
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return 0, fmt.Errorf("creating a client: %w", err)
	}
	found, err := client.Resource(apiServicesResource).List(ctx, metav1.ListOptions{LabelSelector: Label})
	if apierrors.IsForbidden(err) {
		return 0, nil // then we can't have created any
	}
	if err != nil {
		return 0, fmt.Errorf("listing %s: %w", apiServicesResource.GroupResource(), err)
	}
	var all []object
	for _, one := range found.Items {
		all = append(all, object{resource: apiServicesResource, name: one.Name, uid: one.UID, version: one.ResourceVersion})
	}
	return c.remove(ctx, all)
}

// endConversions removes the conversion webhooks of our kinds. Their servers have ended, and objects that cannot be
// converted can neither be listed nor removed.
func (c *Cluster) endConversions(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	all := client.Resource(definitionsResource)
	found, err := all.List(ctx, metav1.ListOptions{LabelSelector: Label})
	if apierrors.IsForbidden(err) {
		return nil // then we can't have created any
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", definitionsResource.GroupResource(), err)
	}
	for _, definition := range found.Items {
		if strategy, _, _ := unstructured.NestedString(definition.Object,
			"spec", "conversion", "strategy"); strategy != "Webhook" {
			continue
		}
		const noConversion = `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`
		if _, err := all.Patch(ctx, definition.GetName(), types.MergePatchType, []byte(noConversion),
			metav1.PatchOptions{}); ignoreGone(err) != nil {
			return fmt.Errorf("ending the conversion of %s: %w", definition.GetName(), err)
		}
		if err := awaitUnconverted(ctx, client, &definition); err != nil {
			return err
		}
	}
	return nil
}

// awaitUnconverted waits until the API server lists a kind in each of its versions without asking a webhook. It keeps
// asking the webhook for a moment after a change.
func awaitUnconverted(ctx context.Context, client dynamic.Interface, definition *unstructured.Unstructured) error {
	return poll(ctx, "the conversion of "+definition.GetName()+" to end", func() (bool, error) {
		for _, resource := range ServedResources(definition) {
			_, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
			// The message comes from k8s.io/apiextensions-apiserver, webhook_converter.go.
			if err != nil && strings.Contains(err.Error(), "conversion webhook") {
				return false, nil
			}
			if ignoreGone(err) != nil {
				return false, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
			}
		}
		return true, nil
	})
}

// remove removes objects, and returns when they are gone.
func (c *Cluster) remove(ctx context.Context, all []object) (removed int, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	cleaner := &cleaner{}
	if cleaner.metadata, err = metadata.NewForConfig(c.config); err != nil {
		return 0, fmt.Errorf("creating a client: %w", err)
	}
	if cleaner.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return 0, fmt.Errorf("creating a client: %w", err)
	}
	for stage := range stages {
		for _, one := range all {
			if one.stage() != stage {
				continue
			}
			if err := cleaner.remove(ctx, one); err != nil {
				return removed, fmt.Errorf("removing %s: %w", one, err)
			}
			removed++
		}
	}
	for _, one := range all {
		if err := cleaner.awaitGone(ctx, one); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// list returns all objects that can be removed and that a selector matches. An empty selector matches all. It skips
// kinds that can't be listed, such as those of an APIService that is down, and kinds that this account may not list,
// because we can't have created objects of them.
func (c *Cluster) list(ctx context.Context, selector string) ([]object, error) {
	discoverer, err := c.discovery()
	if err != nil {
		return nil, err
	}
	lists, err := discoverer.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("listing the cluster's kinds: %w", err)
	}
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	var mutex sync.Mutex
	var all []object
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listers)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") {
				continue
			}
			resource := version.WithResource(kind.Name)
			group.Go(func() error {
				found, err := client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
				if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) ||
					apierrors.IsMethodNotSupported(err) || apierrors.IsServiceUnavailable(err) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
				}
				mutex.Lock()
				defer mutex.Unlock()
				for _, one := range found.Items {
					all = append(all, object{
						resource: resource, namespace: one.Namespace, name: one.Name,
						uid: one.UID, version: one.ResourceVersion,
					})
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return all, nil
}

// remove requests the deletion of an object, or of a kind with all its objects.
func (c *cleaner) remove(ctx context.Context, one object) error {
	if one.stage() == definitions {
		if err := c.empty(ctx, one.name); err != nil {
			return err
		}
	}
	return ignoreGone(c.client(one).Delete(ctx, one.name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &one.uid}, PropagationPolicy: new(metav1.DeletePropagationBackground),
	}))
}

func (c *cleaner) client(one object) metadata.ResourceInterface {
	return c.metadata.Resource(one.resource).Namespace(one.namespace)
}

// empty removes all custom resources of one of our kinds. The controllers of their finalizers have ended, or were never
// there.
func (c *cleaner) empty(ctx context.Context, definition string) error {
	object, err := c.dynamic.Resource(definitionsResource).Get(ctx, definition, metav1.GetOptions{})
	if err != nil {
		return ignoreGone(err)
	}
	served := ServedResources(object)
	if len(served) == 0 {
		return nil // so none can have been created
	}
	resource := served[0]
	all := c.metadata.Resource(resource)
	const noFinalizers = `{"metadata":{"finalizers":null}}`
	return poll(ctx, "the "+definition+" to be gone", func() (bool, error) {
		list, err := all.List(ctx, metav1.ListOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), ignoreGone(err)
		}
		for _, one := range list.Items {
			namespaced := all.Namespace(one.Namespace)
			if one.DeletionTimestamp == nil {
				err = namespaced.Delete(ctx, one.Name, metav1.DeleteOptions{})
			} else if len(one.Finalizers) > 0 {
				_, err = namespaced.Patch(ctx, one.Name, types.MergePatchType, []byte(noFinalizers), metav1.PatchOptions{})
			}
			if ignoreGone(err) != nil {
				return false, fmt.Errorf("removing the %s %s: %w", resource.Resource, one.Name, err)
			}
		}
		return len(list.Items) == 0, nil
	})
}

// ServedResources returns the resources by which the custom resources of a CustomResourceDefinition can be requested:
// one for each version that it serves, in its order.
func ServedResources(definition *unstructured.Unstructured) (served []schema.GroupVersionResource) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		if version, ok := version.(map[string]any); ok && version["served"] == true {
			served = append(served, schema.GroupVersionResource{
				Group: group, Version: fmt.Sprint(version["name"]), Resource: plural,
			})
		}
	}
	return served
}

func (c *cleaner) awaitGone(ctx context.Context, one object) error {
	return poll(ctx, one.String()+" to be gone", func() (bool, error) {
		now, err := c.client(one).Get(ctx, one.name, metav1.GetOptions{})
		if err != nil {
			// If the kind is gone, all its objects are gone.
			return apierrors.IsNotFound(err), ignoreGone(err)
		}
		return now.UID != one.uid, nil
	})
}

func ignoreGone(err error) error {
	// A conflict means another UID: the object that we meant is gone.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// poll calls ask until it returns true or an error, or until the time is up.
func poll(ctx context.Context, what string, ask func() (bool, error)) error {
	return await.Until(ctx, goneInterval, what, func(context.Context) (string, error) {
		if yes, err := ask(); err != nil || yes {
			return "", err
		}
		return "it is not so yet", nil
	})
}
