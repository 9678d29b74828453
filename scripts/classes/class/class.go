// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"lva.io/operators/clusters/config"
)

const (
	// accounts is the namespace of the students' accounts. A student has no rights in it: anyone who may write a Secret
	// next to an account can create a token for it that never expires.
	accounts        = "operator-labs-class"
	namespacePrefix = "student-"
	// clusterRole holds what students may do outside of their namespaces, and studentRole what they may do inside.
	clusterRole = "operator-labs-student"
	studentRole = "student"

	// StudentLabel is on all objects of a student, with the name of the student. classLabel is on all objects of this
	// package.
	StudentLabel = "operators.lva.io/student"
	classLabel   = "operators.lva.io/class"

	fieldManager = "operator-labs"
	// parallel is how many students are handled at once. The API server's priority and fairness would delay more of them.
	parallel = 8
)

// Class is a cluster that students share.
type Class struct {
	// Config is an administrator's access.
	Config *rest.Config
	// Server is the URL by which students reach the API server. Default: the administrator's URL.
	Server string
	// Out is the folder for the students' kubeconfigs.
	Out string
	// Lifetime is that of a kubeconfig. Default: DefaultLifetime.
	Lifetime time.Duration
	// Renew creates new kubeconfigs even if the old ones are still valid.
	Renew bool
	// Progress is called with the progress. It may be called from several goroutines. Default: no progress is reported.
	Progress func(done, total int, what string)
}

// DefaultLifetime is the default lifetime of a kubeconfig: a term, with the weeks for late submissions.
const DefaultLifetime = 120 * 24 * time.Hour

// clients holds the clients for the cluster.
type clients struct {
	kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
}

func (c *Class) connect() (*clients, error) {
	// Five hundred students are thousands of requests, and only the instructor waits for them.
	config := rest.CopyConfig(c.Config)
	config.QPS, config.Burst = -1, -1
	// All clients share the connections of this HTTP client.
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	typed, err := kubernetes.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	untyped, err := dynamic.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(typed.Discovery())
	// An aggregated API whose server is down is not ours to fix, and we need none of them.
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("discovering the API resources of the cluster at %s: %w", config.Host, err)
	}
	return &clients{Interface: typed, dynamic: untyped, mapper: restmapper.NewDiscoveryRESTMapper(groups)}, nil
}

// resource returns the client for objects of a kind, in the object's namespace if it has one.
func (c *clients) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("the cluster does not serve the kind of the %s: %w", described(object), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
	}
	return c.dynamic.Resource(mapping.Resource), nil
}

func (c *clients) apply(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resource(object)
	if err != nil {
		return err
	}
	if _, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{
		FieldManager: fieldManager, Force: true,
	}); err != nil {
		return fmt.Errorf("applying the %s: %w", described(object), err)
	}
	return nil
}

// serves reports whether the cluster has the kinds of a group.
func (c *clients) serves(kind schema.GroupVersionKind) bool {
	_, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil
}

func described(object *unstructured.Unstructured) string {
	if object.GetNamespace() != "" {
		return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
	}
	return object.GetKind() + " " + object.GetName()
}

// foreign returns an error if an object with our name exists that we did not create.
func (c *clients) foreign(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resource(object)
	if err != nil {
		return err
	}
	have, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the %s: %w", described(object), err)
	}
	if have.GetLabels()[classLabel] == "" {
		return fmt.Errorf(
			"the %s exists and does not belong to a class: rename or delete it, or use another cluster", described(object),
		)
	}
	return nil
}

// shared returns the objects that a class has once. The namespace comes first.
func shared() ([]*unstructured.Unstructured, error) {
	objects, err := parse("class/cluster.yaml", config.ClassCluster)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		label(object, map[string]string{classLabel: "true"})
	}
	return objects, nil
}

// sharedGroups returns the API groups whose cluster-scoped kinds the class shares: those that the policy covers.
func sharedGroups(objects []*unstructured.Unstructured) (groups []string) {
	for _, object := range objects {
		if object.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "matchConstraints", "resourceRules")
		for _, rule := range rules {
			fields, _ := rule.(map[string]any)
			names, _, _ := unstructured.NestedStringSlice(fields, "apiGroups")
			for _, name := range names {
				if name != "" { // Kubernetes' own
					groups = append(groups, name)
				}
			}
		}
	}
	return groups
}

// objectsOf returns a student's objects from clusters/config. The namespace comes first.
func objectsOf(student Student, withCilium bool) ([]*unstructured.Unstructured, error) {
	objects, err := parse("class/student.yaml", config.ClassStudent)
	if err != nil {
		return nil, err
	}
	if withCilium {
		more, err := parse("class/cilium.yaml", config.ClassCilium)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	var namespace *unstructured.Unstructured
	var rest []*unstructured.Unstructured
	for _, object := range objects {
		label(object, map[string]string{classLabel: "true", StudentLabel: student.Name})
		if object.GetKind() == "Namespace" {
			object.SetName(student.Namespace())
			namespace = object
			continue
		}
		object.SetNamespace(student.Namespace())
		rest = append(rest, object)
	}
	if namespace == nil {
		return nil, errors.New("class/student.yaml in clusters/config has no Namespace: " +
			"a student's namespace needs its labels")
	}
	return append([]*unstructured.Unstructured{namespace}, rest...), nil
}

func label(object *unstructured.Unstructured, labels map[string]string) {
	all := object.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	object.SetLabels(all)
}
