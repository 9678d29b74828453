// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	nodev1alpha1 "lva.io/operators/solutions/10-informer/api/node/v1alpha1"
	"lva.io/operators/solutions/10-informer/internal/generated/clientset/versioned"
	informers "lva.io/operators/solutions/10-informer/internal/generated/informers/externalversions/node/v1alpha1"
	listers "lva.io/operators/solutions/10-informer/internal/generated/listers/node/v1alpha1"
	"lva.io/operators/solutions/10-informer/internal/keyfile"
)

//lab:begin role
// +kubebuilder:rbac:groups=node.chrishein.com,resources=authorizedkeys,verbs=list;watch
// +kubebuilder:rbac:groups=node.chrishein.com,resources=authorizedkeys/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//lab:else
// // TODO(lab): 9. What does the controller ask the API server for? The markers make config/rbac/role.yaml (make manifests). An informer needs
// // list and watch.
// // +kubebuilder:rbac:groups=node.chrishein.com,resources=authorizedkeys,verbs=list;watch
//lab:end

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
	//lab:begin handlers
	// An event is a reason to look, and not the work. A resync is an update with the same object twice: it must get through, since the file
	// may have changed although no object has.
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, now any) { c.enqueue(now) },
		DeleteFunc: c.enqueue,
	})
	//lab:else
	// // TODO(lab): 5. Have each event put the object's name into the queue (enqueue): when one is added, updated, deleted.
	// _, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	//lab:end
	if err != nil {
		return nil, fmt.Errorf("add the handlers: %w", err)
	}
	return c, nil
}

// enqueue puts the name of an object into the queue. It is called one event after the other, so it does no work.
func (c *Controller) enqueue(object any) {
	//lab:begin enqueue
	// Of an object that was deleted while the watch was away we get a cache.DeletedFinalStateUnknown: this function unpacks it.
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		runtime.HandleError(fmt.Errorf("find the name of %T: %w", object, err))
		return
	}
	c.queue.Add(name)
	//lab:else
	// // TODO(lab): 6. Find the object's name. It is not always an *AuthorizedKey that has been deleted: read about
	// // cache.DeletedFinalStateUnknown.
	// c.queue.Add(object.(*nodev1alpha1.AuthorizedKey).Name)
	//lab:end
}

// Run works until the context ends. Then it finishes what it has begun, and returns.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	//lab:begin run
	// Half a list is no list: who writes the file before the cache is full locks out everybody who comes later in it.
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return context.Cause(ctx)
	}
	// If all objects were deleted while nobody ran, no event tells.
	c.queue.Add(theFile)
	// When there is nothing more to come, the loop below ends.
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	// One worker: there is one file.
	for c.next(ctx) {
	}
	return nil
	//lab:else
	// // TODO(lab): 7. Wait until the informer's cache is full (cache.WaitForCacheSync). Then take names out of the queue, one after the other
	// // (next), until the context ends: queue.ShutDown ends the wait for the next name. And what if all objects were deleted while nobody ran?
	// <-ctx.Done()
	// return nil
	//lab:end
}

// next takes one name out of the queue and works on it. It reports false when the queue is shut down.
func (c *Controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	// From here on the queue gives the name to nobody else, until it is done.
	defer c.queue.Done(name)
	//lab:begin next
	if err := c.sync(ctx, name); err != nil {
		klog.FromContext(ctx).Error(err, "It will be tried again", "authorizedkey", name, "failures", c.queue.NumRequeues(name)+1)
		c.queue.AddRateLimited(name)
		return true
	}
	// The next failure is the first one again.
	c.queue.Forget(name)
	//lab:else
	// // TODO(lab): 8. Call sync. If it fails, the name comes back later, and later each time (AddRateLimited). If not, forget its failures.
	// _ = c.sync(ctx, name)
	//lab:end
	return true
}

// sync looks at the object of a name, says what it has found, and makes the file right.
func (c *Controller) sync(ctx context.Context, name string) error {
	//lab:begin controller-sync
	return errors.Join(c.judge(ctx, name), c.syncFile(ctx))
	//lab:else
	// // TODO(lab): 8. Judge the key, and make the file right, also if the status could not be written.
	// return nil
	//lab:end
}

// syncFile makes the file right for all objects, and not only for the one that has changed.
func (c *Controller) syncFile(ctx context.Context) error {
	//lab:begin sync-file
	all, err := c.lister.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list the AuthorizedKeys: %w", err)
	}
	keys := map[string]string{}
	for _, object := range all {
		if key, err := keyfile.Parse(object.Data.Key); err == nil {
			keys[object.Name] = key
		}
	}
	changed, err := c.file.Sync(keys)
	if changed && err == nil {
		klog.FromContext(ctx).Info("Wrote the authorized keys", "path", c.file.Path, "keys", len(keys))
	}
	return err
	//lab:else
	// // TODO(lab): 8. Which keys may be in the file? Those of all objects that the lister knows, as far as they are valid.
	// return nil
	//lab:end
}

// judge writes into the status of an object whether its key is accepted, and tells its owner by an Event if it is not.
func (c *Controller) judge(ctx context.Context, name string) error {
	if name == theFile {
		return nil
	}
	//lab:begin judge
	object, err := c.lister.Get(name)
	if apierrors.IsNotFound(err) {
		return nil // it has gone, and its line goes with syncFile
	}
	if err != nil {
		return fmt.Errorf("get the AuthorizedKey %s: %w", name, err)
	}
	condition := metav1.Condition{
		Type: nodev1alpha1.Accepted, Status: metav1.ConditionTrue, Reason: nodev1alpha1.ReasonValid,
		Message: "It may log in to the nodes", ObservedGeneration: object.Generation,
	}
	if _, err := keyfile.Parse(object.Data.Key); err != nil {
		condition.Status, condition.Reason = metav1.ConditionFalse, nodev1alpha1.ReasonInvalid
		condition.Message = "The key is not accepted: " + err.Error()
	}
	// What a lister returns belongs to everybody who reads it.
	object = object.DeepCopy()
	if !meta.SetStatusCondition(&object.Status.Conditions, condition) {
		return nil
	}
	if _, err := c.client.NodeV1alpha1().AuthorizedKeys().UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("write the status of the AuthorizedKey %s: %w", name, err)
	}
	// After the status, so that it is told once and not with each attempt.
	if condition.Status == metav1.ConditionFalse {
		c.recorder.Eventf(object, nil, corev1.EventTypeWarning, condition.Reason, "Validate", "%s", condition.Message)
	}
	return nil
	//lab:else
	// // TODO(lab): 10. Set the condition Accepted (api/node/v1alpha1 has its names) with observedGeneration, and write the status only if it changes.
	// // For an invalid key also record an Event. What the lister returns belongs to everybody: change a DeepCopy.
	// return nil
	//lab:end
}
