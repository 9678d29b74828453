// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/services/cloud"
)

// These names are defined by the task.
const (
	namespace = "default"
	elsewhere = "workspace-checks-elsewhere"
	finalizer = "cloud.lva.io/instance"
	ownerTag  = "cloud.lva.io.owner"
	ready     = "Ready"
)

// A patience is how long a check waits for an operator that does nothing: the usual one, and a longer one if a fault
// may just have killed it or asked it to wait. usualDeadline limits the wait for an operator that keeps reading its
// instances, as it should.
const (
	patience      = 3 * time.Second
	longPatience  = 7 * time.Second
	usualDeadline = 9 * time.Second
)

// pollInterval is the interval at which a check reads the cloud, which sends no events.
const pollInterval = 15 * time.Millisecond

// syncTimeout limits the first list, which takes some milliseconds.
const syncTimeout = 10 * time.Second

// region gives access to all CloudInstances of the run, and to the cloud behind them.
type region struct {
	objects  dynamic.ResourceInterface
	notes    dynamic.ResourceInterface // the Workspaces
	cloud    *cloud.Client
	informer cache.SharedIndexInformer
	client   dynamic.Interface

	// created are the names of objects that were created since the last clean-up, and elsewhere are the names of those in
	// the namespace elsewhere.
	created, elsewhere []string
	lag                check.Lag

	mutex   sync.Mutex
	changed chan struct{}
	// reasons and messages are all that Ready has ever had, and reported are the instances that were ever in the status,
	// by the UID of an object.
	reasons, messages, reported map[string][]string
}

// order is a CloudInstance that a check has created.
type order struct {
	name, image, uid string
}

type regionKey struct{}

func regionOf(ctx context.Context) *region { return ctx.Value(regionKey{}).(*region) }

// open begins to watch all CloudInstances, until the context ends.
func open(ctx context.Context, suite *check.Suite) (*region, error) {
	client, err := dynamic.NewForConfig(suite.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	r := &region{
		objects: client.Resource(resource).Namespace(namespace),
		notes:   client.Resource(workspaces).Namespace(namespace),
		cloud:   cloud.NewClient(suite.Services[cloud.Service]),
		informer: dynamicinformer.NewFilteredDynamicInformer(
			client, resource, namespace, 0, cache.Indexers{}, nil,
		).Informer(),
		changed: make(chan struct{}),
		reasons: map[string][]string{}, messages: map[string][]string{}, reported: map[string][]string{},
		client: client,
	}
	if _, err := r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.lag.Arrived(object.(*unstructured.Unstructured).GetName()); r.notify() },
		UpdateFunc: func(_, object any) { r.record(object.(*unstructured.Unstructured)); r.notify() },
		DeleteFunc: func(any) { r.notify() },
	}); err != nil {
		return nil, fmt.Errorf("watching CloudInstances: %w", err)
	}
	go r.informer.RunWithContext(ctx)
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(syncing.Done(), r.informer.HasSynced) {
		return nil, fmt.Errorf("watching CloudInstances: the API server has not listed them within %s: does it serve %s?",
			syncTimeout, resource)
	}
	return r, r.cloud.Set(ctx, defaultSettings())
}

func (r *region) notify() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// record records the reason and the instance in the status of an object, which may change before a check looks.
func (r *region) record(object *unstructured.Unstructured) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	uid := string(object.GetUID())
	if c := conditionOf(object); c != nil {
		remember(r.reasons, uid, c.Reason)
		remember(r.messages, uid, c.Message)
	}
	if id, _, _ := unstructured.NestedString(object.Object, "status", "instanceID"); id != "" {
		remember(r.reported, uid, id)
	}
}

// remember adds a text to those of an object, unless it is already one of them.
func remember(texts map[string][]string, uid, text string) {
	if !slices.Contains(texts[uid], text) {
		texts[uid] = append(texts[uid], text)
	}
}

// messagesOf returns the messages that Ready of an object has had so far.
func (r *region) messagesOf(o order) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.messages[o.uid])
}

// reportedOf returns the instances that the status of an object has named so far.
func (r *region) reportedOf(o order) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.reported[o.uid])
}

// reasonsOf returns the reasons that Ready of an object has had so far.
func (r *region) reasonsOf(o order) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.reasons[o.uid])
}

// mostLag is the lag above which the quiet window no longer grows: an operator reads its instances about twice a
// second, and is never silent for longer.
const mostLag = 30 * time.Millisecond

func (r *region) lagNow() time.Duration { return min(r.lag.Now(), mostLag) }

// nextChange returns a channel that is closed when a CloudInstance is created, changed, marked for deletion or deleted.
func (r *region) nextChange() <-chan struct{} {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.changed
}

// find returns the current state of the CloudInstance that was created, and not a later one with the same name.
func (r *region) find(o order) (*unstructured.Unstructured, bool) {
	object, exists, err := r.informer.GetStore().GetByKey(namespace + "/" + o.name)
	if err != nil || !exists || string(object.(*unstructured.Unstructured).GetUID()) != o.uid {
		return nil, false
	}
	return object.(*unstructured.Unstructured), true
}

// empty removes all objects that were created since its last call, and their Workspaces, regardless of their
// finalizers, and restores the cloud's settings. It removes objects by name: for a list the API server first makes sure
// that its own cache is up to date, which takes up to 100 ms. Running instances stay in the cloud, because they belong
// to objects that no later check knows.
func (r *region) empty(ctx context.Context) error {
	settings := r.cloud.Set(ctx, defaultSettings())
	var removed error
	for _, name := range r.created {
		removed = errors.Join(removed, remove(ctx, r.objects, name), remove(ctx, r.notes, name))
	}
	for _, name := range r.elsewhere {
		removed = errors.Join(removed,
			remove(ctx, r.client.Resource(resource).Namespace(elsewhere), name),
			remove(ctx, r.client.Resource(workspaces).Namespace(elsewhere), name))
	}
	r.created, r.elsewhere = nil, nil
	return errors.Join(settings, removed)
}

// remove removes an existing object, regardless of its finalizers.
func remove(ctx context.Context, client dynamic.ResourceInterface, name string) error {
	err := client.Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil {
		_, err = client.Patch(ctx, name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}
