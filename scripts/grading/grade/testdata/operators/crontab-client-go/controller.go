// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

var cronTabs = schema.GroupVersionResource{Group: "stable.example.com", Version: "v1", Resource: "crontabs"}

// Controller writes into a CronTab's status when it was last checked.
type Controller struct {
	client dynamic.NamespaceableResourceInterface
	lister cache.GenericLister
	synced cache.InformerSynced
	queue  workqueue.TypedRateLimitingInterface[string]
}

// NewController returns a controller that gets changes from the informer.
func NewController(client dynamic.NamespaceableResourceInterface, informer informers.GenericInformer) *Controller {
	c := &Controller{
		client: client, lister: informer.Lister(), synced: informer.Informer().HasSynced,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			c.queue.Add(key)
		}
	}
	informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, changed any) { enqueue(changed) }, DeleteFunc: enqueue,
	})
	return c
}

// Run starts the workers, and waits until the context ends.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer c.queue.ShutDown()
	klog.Info("Waiting for informer caches to sync")
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return fmt.Errorf("failed to wait for caches to sync")
	}
	for range workers {
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			for c.next(ctx) {
			}
		}, time.Second)
	}
	<-ctx.Done()
	return nil
}

func (c *Controller) next(ctx context.Context) bool {
	key, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(key)
	if err := c.sync(ctx, key); err != nil {
		klog.Errorf("Error syncing %q: %v", key, err)
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	return true
}

func (c *Controller) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	object, err := c.lister.ByNamespace(namespace).Get(name)
	if errors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	cronTab := object.(*unstructured.Unstructured).DeepCopy()
	replicas, _, _ := unstructured.NestedInt64(cronTab.Object, "spec", "replicas")
	if err := unstructured.SetNestedField(cronTab.Object, replicas, "status", "replicas"); err != nil {
		return err
	}
	_, err = c.client.Namespace(namespace).UpdateStatus(ctx, cronTab, metav1.UpdateOptions{})
	return err
}
