// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"

	nodev1alpha1 "lva.io/operators/labs/10-informer/api/node/v1alpha1"
	"lva.io/operators/labs/10-informer/internal/generated/clientset/versioned"
	informers "lva.io/operators/labs/10-informer/internal/generated/informers/externalversions/node/v1alpha1"
	listers "lva.io/operators/labs/10-informer/internal/generated/listers/node/v1alpha1"
	"lva.io/operators/labs/10-informer/internal/keyfile"
)

// TODO(lab): 9. What does the controller ask the API server for? The markers make config/rbac/role.yaml (make manifests). An informer needs
// list and watch.
// +kubebuilder:rbac:groups=node.chrishein.com,resources=authorizedkeys,verbs=list;watch

// theFile is the name in the queue that is no object's: the file has to be looked at, whatever objects there are.
const theFile = ""

// Controller keeps the file.
type Controller struct {
	client   versioned.Interface
	lister   listers.AuthorizedKeyLister
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[string]
	recorder events.EventRecorder
	file     keyfile.File
}

// New is a controller that is told of AuthorizedKeys by an informer, from now on.
func New(client versioned.Interface, keys informers.AuthorizedKeyInformer, recorder events.EventRecorder, file keyfile.File) (*Controller, error) {
	c := &Controller{
		client: client, lister: keys.Lister(), informer: keys.Informer(), recorder: recorder, file: file,
		// A name that fails comes back after 5 ms, 10, 20 …
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	// TODO(lab): 5. Have each event put the object's name into the queue (enqueue): when one is added, updated, deleted.
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	if err != nil {
		return nil, fmt.Errorf("add the handlers: %w", err)
	}
	return c, nil
}

// enqueue puts the name of an object into the queue. It is called one event after the other, so it does no work.
func (c *Controller) enqueue(object any) {
	// TODO(lab): 6. Find the object's name. It is not always an *AuthorizedKey that has been deleted: read about
	// cache.DeletedFinalStateUnknown.
	c.queue.Add(object.(*nodev1alpha1.AuthorizedKey).Name)
}

// Run works until the context ends. Then it finishes what it has begun, and returns.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	// TODO(lab): 7. Wait until the informer's cache is full (cache.WaitForCacheSync). Then take names out of the queue, one after the other
	// (next), until the context ends: queue.ShutDown ends the wait for the next name. And what if all objects were deleted while nobody ran?
	<-ctx.Done()
	return nil
}

// next takes one name out of the queue and works on it. It reports false when the queue is shut down.
func (c *Controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	// From here on the queue gives the name to nobody else, until it is done.
	defer c.queue.Done(name)
	// TODO(lab): 8. Call sync. If it fails, the name comes back later, and later each time (AddRateLimited). If not, forget its failures.
	_ = c.sync(ctx, name)
	return true
}

// sync looks at the object of a name, says what it has found, and makes the file right.
func (c *Controller) sync(ctx context.Context, name string) error {
	// TODO(lab): 8. Judge the key, and make the file right, also if the status could not be written.
	return nil
}

// syncFile makes the file right for all objects, and not only for the one that has changed.
func (c *Controller) syncFile(ctx context.Context) error {
	// TODO(lab): 8. Which keys may be in the file? Those of all objects that the lister knows, as far as they are valid.
	return nil
}

// judge writes into the status of an object whether its key is accepted, and tells its owner by an Event if it is not.
func (c *Controller) judge(ctx context.Context, name string) error {
	if name == theFile {
		return nil
	}
	// TODO(lab): 10. Set the condition Accepted (api/node/v1alpha1 has its names) with observedGeneration, and write the status only if it changes.
	// For an invalid key also record an Event. What the lister returns belongs to everybody: change a DeepCopy.
	return nil
}
