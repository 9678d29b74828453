// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/check"
)

// These are the kinds of children.
var (
	Deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	Services    = corev1.SchemeGroupVersion.WithResource("services")
)

var children = []schema.GroupVersionResource{Deployments, Services}

// Owners is a view of all objects of an operator's kind, with all Deployments and Services of the cluster. Watches keep
// it up to date.
type Owners struct {
	// Client and Dynamic are an administrator's. Resource is the resource of the operator's kind.
	Client   kubernetes.Interface
	Dynamic  dynamic.Interface
	Resource schema.GroupVersionResource

	// node is the name of a ready node, or empty. nodeExpected means that there will be one.
	node         string
	nodeExpected bool
	host         string
	pages        *http.Client
	informers    map[schema.GroupVersionResource]cache.SharedIndexInformer
	mutex        sync.Mutex
	changed      chan struct{}
	lag          check.Lag // from a create until the watch reports it
}

// syncTimeout limits the first lists, which take some milliseconds.
const syncTimeout = 10 * time.Second

// Open begins to watch, until the context ends. nodeExpected means that a node will become ready by itself, if none is.
func Open(ctx context.Context, config *rest.Config, resource schema.GroupVersionResource,
	nodeExpected bool,
) (*Owners, error) {
	o := &Owners{
		Resource:     resource,
		host:         config.Host,
		nodeExpected: nodeExpected,
		informers:    map[schema.GroupVersionResource]cache.SharedIndexInformer{},
		changed:      make(chan struct{}),
	}
	var err error
	if o.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if o.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if o.pages, err = pagesClient(config); err != nil {
		return nil, err
	}
	for _, watched := range append([]schema.GroupVersionResource{resource}, children...) {
		informer := dynamicinformer.NewFilteredDynamicInformer(
			o.Dynamic, watched, metav1.NamespaceAll, 0, cache.Indexers{}, nil,
		).Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { o.arrived(object.(*unstructured.Unstructured)); o.notify() },
			UpdateFunc: func(any, any) { o.notify() },
			DeleteFunc: func(any) { o.notify() },
		}); err != nil {
			return nil, fmt.Errorf("watching %s: %w", watched.Resource, err)
		}
		o.informers[watched] = informer
		go informer.RunWithContext(ctx)
	}
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for watched, informer := range o.informers {
		if !cache.WaitForCacheSync(syncing.Done(), informer.HasSynced) {
			return nil, fmt.Errorf("watching %s: the API server has not listed them within %s: does it serve %s of %s?",
				watched.Resource, syncTimeout, watched.Resource, watched.GroupVersion())
		}
	}
	return o, o.findNode(ctx)
}

// RunsPods reports whether Pods run in the cluster, now or soon.
func (o *Owners) RunsPods() bool { return o.node != "" || o.nodeExpected }

const (
	// nodeTimeout is how long the expected node may take to become ready. It usually takes about a second.
	nodeTimeout = time.Minute
	nodePoll    = 50 * time.Millisecond
)

// NoNode is the reason why there is no grade if AwaitNode finds no node.
const NoNode = "the cluster has no node that is ready, so no Pod can run there, " +
	"and a part of the checks look at Pods: " +
	"grade on a cluster with a node (`make doctor` says what this machine lacks for one)"

// AwaitNode waits for the expected node, if none is ready. It returns false if there is no node, so that no Pod can
// run. A node that does not become ready in time counts as missing. The machine may prevent the node from becoming
// ready, for example if it has no inotify watch left. No operator can cause it.
func (o *Owners) AwaitNode(ctx context.Context) (bool, error) {
	if o.node != "" || !o.nodeExpected {
		return o.node != "", nil
	}
	err := await.Within(ctx, nodeTimeout, nodePoll, "a node to be ready", func(ctx context.Context) (string, error) {
		if err := o.findNode(ctx); err != nil || o.node != "" {
			return "", err
		}
		return "none is", nil
	})
	if _, late := errors.AsType[*await.LateError](err); late && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// findNode looks for a ready node.
func (o *Owners) findNode(ctx context.Context) error {
	nodes, err := o.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("asking for the nodes: %w", err)
	}
	for i := range nodes.Items {
		if ready(&nodes.Items[i]) {
			o.node = nodes.Items[i].Name
		}
	}
	return nil
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (o *Owners) notify() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
}

// arrived receives the objects that the watches report. It measures the lag of an owner that we created. It ignores the
// owner's children, which may have its name.
func (o *Owners) arrived(object *unstructured.Unstructured) {
	if object.GroupVersionKind().Group == o.Resource.Group {
		o.lag.Arrived(nameOf(object).String())
	}
}

func nameOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Changed returns a channel that is closed when an owner, a Deployment or a Service is created, changed, marked for
// deletion or deleted.
func (o *Owners) Changed() <-chan struct{} {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.changed
}

// Lag returns how long it took from sending the last create of an owner until the watch reported it.
func (o *Owners) Lag() time.Duration { return o.lag.Now() }

// Create creates an owner.
func (o *Owners) Create(ctx context.Context, owner *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o.lag.Sent(nameOf(owner).String())
	created, err := o.Dynamic.Resource(o.Resource).Namespace(owner.GetNamespace()).Create(ctx,
		owner, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the %s %s: %w", owner.GetKind(), owner.GetName(), err)
	}
	return created, nil
}

// Patch changes an owner by a JSON merge patch, and returns the result.
func (o *Owners) Patch(ctx context.Context, name types.NamespacedName,
	patch string,
) (*unstructured.Unstructured, error) {
	changed, err := o.Dynamic.Resource(o.Resource).Namespace(name.Namespace).Patch(ctx, name.Name,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("patching %s: %w", name.Name, err)
	}
	return changed, nil
}

// Delete deletes an owner. It is no error if the owner is gone.
func (o *Owners) Delete(ctx context.Context, name types.NamespacedName) error {
	err := o.Dynamic.Resource(o.Resource).Namespace(name.Namespace).Delete(ctx, name.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", name.Name, err)
	}
	return nil
}

// Get returns an owner as the watch knows it. It is shared: do not change it.
func (o *Owners) Get(name types.NamespacedName) (*unstructured.Unstructured, bool) {
	object, exists, err := o.informers[o.Resource].GetStore().GetByKey(name.String())
	if err != nil || !exists {
		return nil, false
	}
	return object.(*unstructured.Unstructured), true
}

// All returns the owners in the given namespaces, including those that are being deleted.
func (o *Owners) All(namespaces ...string) (names []types.NamespacedName) {
	for _, object := range o.informers[o.Resource].GetStore().List() {
		if name := nameOf(object.(*unstructured.Unstructured)); slices.Contains(namespaces, name.Namespace) {
			names = append(names, name)
		}
	}
	return names
}

// Children returns the Deployments or the Services of an owner that are not being deleted, by name: those that have an
// owner reference to it, and those with a name such as NAME or NAME-page. An object of another owner is not its child,
// whatever its name.
func Children[T any](o *Owners, resource schema.GroupVersionResource, owner *unstructured.Unstructured) []T {
	var found []T
	for _, object := range o.children(resource, owner) {
		child := new(T)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, child) == nil {
			found = append(found, *child)
		}
	}
	return found
}

// Named returns the Deployment or the Service with a name, regardless of its owner. False: there is none.
func Named[T any](o *Owners, resource schema.GroupVersionResource, name types.NamespacedName) (found T, exists bool) {
	object, exists, err := o.informers[resource].GetStore().GetByKey(name.String())
	if err != nil || !exists {
		return found, false
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, &found)
	return found, err == nil
}

func (o *Owners) children(resource schema.GroupVersionResource,
	owner *unstructured.Unstructured,
) (found []*unstructured.Unstructured) {
	for _, one := range o.informers[resource].GetStore().List() {
		object := one.(*unstructured.Unstructured)
		if object.GetDeletionTimestamp() != nil || object.GetNamespace() != owner.GetNamespace() {
			continue
		}
		references := object.GetOwnerReferences()
		owned := slices.ContainsFunc(references, func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
		called := object.GetName() == owner.GetName() || strings.HasPrefix(object.GetName(), owner.GetName()+"-")
		if owned || len(references) == 0 && called && object.GetLabels()[existing.Label] == "" {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return found
}

// Kept returns why the garbage collector would keep a child of a deleted owner, or has kept it. Empty: it deletes all
// children. The garbage collector deletes an object that has owner references if none of the owners exists, by its rule
// in k8s.io/kubernetes/pkg/controller/garbagecollector. From the objects that it keeps it removes the references to
// deleted owners. born are the UIDs of the children from before.
func (o *Owners) Kept(ctx context.Context, owner *unstructured.Unstructured,
	born ...types.UID,
) (why string, err error) {
	children := slices.Concat(o.children(Deployments, owner), o.children(Services, owner),
		o.living(Deployments, born), o.living(Services, born))
	for _, child := range children {
		name := child.GetKind() + " " + child.GetName()
		if len(child.GetOwnerReferences()) == 0 {
			return name + " has no owner", nil
		}
		for _, reference := range child.GetOwnerReferences() {
			if slices.ContainsFunc(children, func(other *unstructured.Unstructured) bool {
				return other.GetUID() == reference.UID
			}) {
				continue // the loop also covers this one
			}
			state, err := o.ownerState(ctx, child.GetNamespace(), reference)
			if err != nil {
				return "", err
			}
			if state != "" {
				return fmt.Sprintf("an owner of %s, %s %s, %s", name, reference.Kind, reference.Name, state), nil
			}
		}
	}
	return "", nil
}

// living returns the objects with these UIDs that are not being deleted.
func (o *Owners) living(resource schema.GroupVersionResource, uids []types.UID) (found []*unstructured.Unstructured) {
	for _, one := range o.informers[resource].GetStore().List() {
		if object := one.(*unstructured.Unstructured); object.GetDeletionTimestamp() == nil &&
			slices.Contains(uids, object.GetUID()) {
			found = append(found, object)
		}
	}
	return found
}

// ownerState returns in what form the owner of a reference exists, or why that is unknown. Empty: the owner is gone.
func (o *Owners) ownerState(ctx context.Context, namespace string,
	reference metav1.OwnerReference,
) (description string, err error) {
	version, err := schema.ParseGroupVersion(reference.APIVersion)
	if err != nil {
		return "is of an API version that there is not: " + reference.APIVersion, nil //nolint:nilerr // the description reports it
	}
	kinds, err := o.Client.Discovery().ServerResourcesForGroupVersion(reference.APIVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("asking for the kinds of %s: %w", reference.APIVersion, err)
	}
	if err == nil {
		for _, served := range kinds.APIResources {
			if served.Kind != reference.Kind || strings.Contains(served.Name, "/") {
				continue
			}
			if !served.Namespaced {
				namespace = ""
			}
			found, err := o.Dynamic.Resource(version.WithResource(served.Name)).Namespace(namespace).Get(ctx,
				reference.Name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err), err == nil && found.GetUID() != reference.UID:
				return "", nil
			case err != nil:
				return "", fmt.Errorf("asking for the owner %s %s: %w", reference.Kind, reference.Name, err)
			}
			return "is still there", nil
		}
	}
	return fmt.Sprintf("is of a kind that there is not in %s", reference.APIVersion), nil
}

// Collect deletes the children of a deleted owner, as the garbage collector does. It also deletes the objects with the
// UIDs born, which had that owner: the garbage collector may already have removed the reference from a child with
// another owner. Kept reports whether that was correct.
func (o *Owners) Collect(ctx context.Context, owner *unstructured.Unstructured, born ...types.UID) error {
	background := metav1.DeletePropagationBackground
	for _, resource := range children {
		for _, child := range append(o.children(resource, owner), o.living(resource, born)...) {
			uid := child.GetUID()
			if !slices.Contains(born, uid) &&
				!slices.ContainsFunc(child.GetOwnerReferences(),
					func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() }) {
				continue
			}
			err := o.Dynamic.Resource(resource).Namespace(child.GetNamespace()).Delete(ctx, child.GetName(),
				metav1.DeleteOptions{
					PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid},
				})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("removing %s %s: %w", resource.Resource, child.GetName(), err)
			}
		}
	}
	return nil
}

// Condition is a condition of an owner.
type Condition struct {
	Status, Reason, Message string
	ObservedGeneration      int64
}

// ConditionOf returns the condition of a type. False: there is none.
func ConditionOf(owner *unstructured.Unstructured, conditionType string) (found Condition, exists bool) {
	all, _, _ := unstructured.NestedSlice(owner.Object, "status", "conditions")
	for _, one := range all {
		one, ok := one.(map[string]any)
		if !ok || one["type"] != conditionType {
			continue
		}
		found.Status, _ = one["status"].(string)
		found.Reason, _ = one["reason"].(string)
		found.Message, _ = one["message"].(string)
		found.ObservedGeneration, _ = one["observedGeneration"].(int64)
		return found, true
	}
	return found, false
}
