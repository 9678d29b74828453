// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package bugs

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// Board is a display outside the cluster.
type Board interface {
	Show(greenhouse string, spec playv1.GreenhouseSpec) error
	Clear(greenhouse string) error
}

// Lister reads greenhouses from the cache of an informer. Its error is NotFound for one that was deleted.
type Lister interface {
	Get(name string) (*playv1.Greenhouse, error)
}

// Controller shows greenhouses on a board, and has three intentional bugs.
type Controller struct {
	lister Lister
	queue  workqueue.TypedRateLimitingInterface[string]
	board  Board
}

func (c *Controller) enqueue(object any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	c.queue.Add(key)
}

// handlers are wrong on purpose: a resync calls UpdateFunc with the same object twice, and is ignored.
func (c *Controller) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		DeleteFunc: c.enqueue,
		//lab:begin update-func
		UpdateFunc: func(old, now any) {
			if old.(*playv1.Greenhouse).ResourceVersion ==
				now.(*playv1.Greenhouse).ResourceVersion {
				return // nothing has changed
			}
			c.enqueue(now)
		},
		//lab:end
	}
}

// sync is wrong on purpose: it ignores that the greenhouse was deleted, and looks for a deletionTimestamp that an
// object without finalizers never has.
func (c *Controller) sync(name string) error {
	//lab:begin sync
	greenhouse, _ := c.lister.Get(name)
	if !greenhouse.DeletionTimestamp.IsZero() {
		return c.board.Clear(name)
	}
	return c.board.Show(name, greenhouse.Spec)
	//lab:end
}

// next is wrong on purpose: it forgets a name whose sync has failed.
//
//lab:begin next
func (c *Controller) next() bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	if err := c.sync(name); err != nil {
		utilruntime.HandleError(err)
	}
	c.queue.Forget(name)
	return true
}

//lab:end
