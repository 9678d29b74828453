// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"

	nodev1alpha1 "lva.io/operators/labs/10-informer/api/node/v1alpha1"
	"lva.io/operators/labs/10-informer/internal/generated/clientset/versioned"
	informers "lva.io/operators/labs/10-informer/internal/generated/informers/externalversions/node/v1alpha1"
	listers "lva.io/operators/labs/10-informer/internal/generated/listers/node/v1alpha1"
	"lva.io/operators/labs/10-informer/internal/keyfile"
)

// TODO(lab): 9. What does the controller request from the API server? The markers generate config/rbac/role.yaml
// (make manifests). An informer needs list and watch.
// +kubebuilder:rbac:groups=node.chrishein.com,resources=authorizedkeys,verbs=list;watch

// Options configure a controller.
type Options struct {
	// File is the file that it keeps. Without a path it keeps none.
	File keyfile.File
	// Resync is how often it looks at the file although no object has changed; 0: never.
	Resync time.Duration
	// WriteStatus has it write the status of the objects. One controller of a cluster is enough for that, however many
	// keep a file.
	WriteStatus bool
}

// Controller keeps the file, and writes the status of the objects. Each of the two has its own queue: the limit of
// requests makes statuses wait, and the file must not wait with them.
type Controller struct {
	Options

	client   versioned.Interface
	lister   listers.AuthorizedKeyLister
	synced   cache.InformerSynced
	recorder events.EventRecorder
	// statuses has the names of objects whose status has to be looked at. files has the path of the file at most: a queue
	// holds an item once, so a thousand events are one reason to look at it.
	statuses, files workQueue
}

// workQueue holds names or paths.
type workQueue = workqueue.TypedRateLimitingInterface[string]

// How soon an item that failed is tried again: at first, and at most. The default is 5 ms, 10 ms, and so on up to 16
// minutes.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 5 * time.Second // in real life a minute
)

// newQueue is a queue to which an item that fails comes back later and later.
func newQueue() workQueue {
	return workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))
}

// New returns a controller that handles the events of an informer for AuthorizedKeys from now on.
func New(
	client versioned.Interface, keys informers.AuthorizedKeyInformer, recorder events.EventRecorder, options Options,
) (*Controller, error) {
	c := &Controller{
		Options: options, client: client, lister: keys.Lister(), recorder: recorder, statuses: newQueue(), files: newQueue(),
	}
	// TODO(lab): 5. Have each event call enqueue with the object: when one is added, updated, deleted.
	handlers, err := keys.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{})
	if err != nil {
		return nil, fmt.Errorf("add the handlers: %w", err)
	}
	// The handlers have synced when they have been called for each object of the first list. By then the lister has them
	// all, too.
	c.synced = handlers.HasSynced
	return c, nil
}

// enqueue has an object's status looked at, and the file. It is called one event after the other, so it does no work.
func (c *Controller) enqueue(object any) {
	// TODO(lab): 6. Find the object's name. It is not always an *AuthorizedKey that has been deleted: read about
	// cache.DeletedFinalStateUnknown. The name belongs into c.statuses, if the controller writes statuses at all. And
	// the file has to be looked at.
	c.statuses.Add(object.(*nodev1alpha1.AuthorizedKey).Name)
}

// enqueueFile has the file looked at, if the controller keeps one.
func (c *Controller) enqueueFile() {
	if c.File.Path != "" {
		c.files.Add(c.File.Path)
	}
}

// Run works until the context ends. Then it finishes what it has begun, and returns.
func (c *Controller) Run(ctx context.Context) {
	// TODO(lab): 7. Wait until the informer's cache is full (cache.WaitForCacheSync). Then take items out of both
	// queues, one after the other (next): names out of c.statuses for judge, and the file out of c.files for syncFile.
	// Neither waits for the other. When the context ends, ShutDown of the queues ends the wait for the next item.
	c.lookAgain(ctx)
}

// lookAgain has the file looked at now and in each period, until the context ends, whatever objects there are.
func (c *Controller) lookAgain(ctx context.Context) {
	// TODO(lab): 11. What if all objects were deleted while the controller was down? Check the file once (enqueueFile),
	// and then in each period c.Resync: another program may have changed it. The informer's own resync calls its
	// handlers once for each object. How often is that if there is none?
	<-ctx.Done()
}

// next takes one item out of a queue and works on it. It reports false when the queue is shut down.
func next(ctx context.Context, queue workQueue, work func(context.Context, string) error) bool {
	item, shutdown := queue.Get()
	if shutdown {
		return false
	}
	// From here on the queue gives the item to no other worker, until it is done.
	defer queue.Done(item)
	// TODO(lab): 8. If the work fails, the item comes back later, and later each time (AddRateLimited). If not, forget
	// its failures.
	_ = work(ctx, item)
	return true
}

// syncFile writes the lines of all objects, and not only of the one that has changed. Its item is the path.
func (c *Controller) syncFile(ctx context.Context, _ string) error {
	// TODO(lab): 8. Which keys may be in the file? Those of all objects that the lister knows, as far as they are
	// valid.
	return nil
}

// judge writes into the status of an object whether its key is accepted, and records an Event if it is not.
func (c *Controller) judge(ctx context.Context, name string) error {
	// TODO(lab): 10. Set the condition Accepted (api/node/v1alpha1 has its names) with observedGeneration, and write
	// the status only if it changes. For an invalid key also record an Event. The objects that the lister returns
	// are shared: change a DeepCopy.
	return nil
}

// noteLimit is how long the API server lets the note of an Event be, in bytes. It refuses a longer one, and the
// recorder only logs that.
const noteLimit = 1024

// note shortens a message, which may have the options of a key in it, for an Event.
func note(message string) string {
	const more = "…"
	if len(message) <= noteLimit {
		return message
	}
	return strings.ToValidUTF8(message[:noteLimit-len(more)], "") + more
}
