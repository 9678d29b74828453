// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package deployed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/stage/install"
)

// Cluster is the cluster in which checks deploy a submission. The objects that they create have our label, by which
// they are found and removed after the run.
type Cluster struct {
	// Config is an administrator's access. Client, Dynamic and Mapper are clients with it.
	Config  *rest.Config
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Mapper  *restmapper.DeferredDiscoveryRESTMapper

	shared bool
}

// Open creates the clients.
func Open(suite *check.Suite) (*Cluster, error) {
	c := &Cluster{Config: suite.Config, shared: suite.Shared}
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(c.Config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	c.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
	return c, nil
}

// Manifests returns the submission's objects, in the order in which kustomize writes them.
func Manifests(suite *check.Suite) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(suite.Manifests)
	if err != nil {
		return nil, fmt.Errorf("reading the submission's manifests: %w", err)
	}
	return Read(content)
}

// Read reads YAML documents. It skips empty ones.
func Read(content []byte) (objects []*unstructured.Unstructured, err error) {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Deployment converts an object to a Deployment. The object must be of that kind.
func Deployment(object *unstructured.Unstructured) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
		return nil, fmt.Errorf("reading the Deployment %s: %w", object.GetName(), err)
	}
	return deployment, nil
}

// QuickReadiness makes all readiness probes of a Deployment run every second, without an initial delay, so that a check
// that waits for a Pod does not wait for the next probe.
func QuickReadiness(deployment *appsv1.Deployment) {
	for i := range deployment.Spec.Template.Spec.Containers {
		if probe := deployment.Spec.Template.Spec.Containers[i].ReadinessProbe; probe != nil {
			probe.PeriodSeconds, probe.InitialDelaySeconds = 1, 0
		}
	}
}

// RefusedError means that the API server refuses an object of the submission.
type RefusedError struct {
	// Object is the object's kind and name.
	Object string
	Err    error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the API server refuses the %s: %v", e.Object, e.Err)
}

// Unwrap returns the API server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// Apply creates or updates objects, one after the other. After a CustomResourceDefinition it waits until the kind is
// served. If the API server refuses an object, the error is a *RefusedError. If a shared cluster already has an object
// of the same name that is not ours, it is an *install.ForeignObjectError.
func (c *Cluster) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := c.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) apply(ctx context.Context, object *unstructured.Unstructured) error {
	name := strings.TrimSpace(object.GetKind() + " " + object.GetName())
	client, err := c.Resource(object)
	if meta.IsNoMatchError(err) {
		return &RefusedError{Object: name, Err: err}
	}
	if err != nil {
		return err
	}
	object = object.DeepCopy()
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[existing.Label] = "true"
	object.SetLabels(labels)
	object.SetManagedFields(nil)
	if c.shared {
		current, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err == nil && current.GetLabels()[existing.Label] == "" {
			return &install.ForeignObjectError{Object: "the " + name}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("asking for the %s: %w", name, err)
		}
	}
	_, err = client.Apply(ctx, object.GetName(), object,
		metav1.ApplyOptions{FieldManager: install.FieldManager, Force: true})
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err),
		// The error about an unknown field has no code.
		err != nil && strings.Contains(err.Error(), "failed to create typed patch object"):
		return &RefusedError{Object: name, Err: err}
	case err != nil:
		return fmt.Errorf("applying the %s: %w", name, err)
	case object.GetKind() == "CustomResourceDefinition":
		return install.WaitDiscovered(ctx, client, c.Mapper, object)
	}
	return nil
}

// Resource returns a client for the kind of an object, in its namespace.
func (c *Cluster) Resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("asking the cluster for the kind of the %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		return c.Dynamic.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return c.Dynamic.Resource(mapping.Resource), nil
}

// Of returns the objects of some kinds.
func Of(objects []*unstructured.Unstructured, kinds ...string) (found []*unstructured.Unstructured) {
	for _, object := range objects {
		if slices.Contains(kinds, object.GetKind()) {
			found = append(found, object)
		}
	}
	return found
}

// Without returns the objects of all other kinds.
func Without(objects []*unstructured.Unstructured, kinds ...string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return slices.Contains(kinds, o.GetKind())
	})
}

// Poll is the interval at which state without a watch is read.
const Poll = 100 * time.Millisecond
