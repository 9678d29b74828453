// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// Board is a display outside the cluster. It is empty whenever the program starts. Each call may be repeated.
type Board interface {
	Show(greenhouse, text string) error
	Clear(greenhouse string) error
}

// BoardController shows the climate of each greenhouse on a board.
type BoardController struct {
	store  cache.Store
	synced cache.InformerSynced
	queue  workqueue.TypedRateLimitingInterface[string]
	board  Board
}

//lab:begin handlers

// NewBoardController adds handlers to an informer of greenhouses. The queue holds keys (NAMESPACE/NAME), not objects.
func NewBoardController(greenhouses cache.SharedIndexInformer, board Board) (*BoardController, error) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enqueue := func(object any) {
		// The object is a *Greenhouse, or a tombstone if the informer missed the deletion. Both have a key.
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("find the key of %T: %w", object, err))
			return
		}
		queue.Add(key)
	}
	handlers, err := greenhouses.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, now any) { enqueue(now) },
		DeleteFunc: enqueue,
	})
	if err != nil {
		return nil, fmt.Errorf("add the handlers: %w", err)
	}
	return &BoardController{store: greenhouses.GetStore(), synced: handlers.HasSynced, queue: queue, board: board}, nil
}

//lab:end

// Run processes one key after the other until the context ends.
func (c *BoardController) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return // The context has ended.
	}
	for c.next() {
	}
}

// next works on one key, and reports false when the queue is shut down. The lecture does not show it, since its readers
// look for the bug in another version.
func (c *BoardController) next() bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if err := c.update(key); err != nil {
		utilruntime.HandleError(fmt.Errorf("update the board: %w", err))
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	return true
}

//lab:begin update

// update shows what the store has under a key now, whatever event put the key into the queue.
func (c *BoardController) update(key string) error {
	object, exists, err := c.store.GetByKey(key)
	if err != nil {
		return fmt.Errorf("read %s from the store: %w", key, err)
	}
	if !exists {
		return c.board.Clear(key) // The greenhouse was deleted. Its key is all that this needs.
	}
	greenhouse, ok := object.(*playv1.Greenhouse)
	if !ok {
		return fmt.Errorf("the store has a %T under %s, and not a greenhouse", object, key)
	}
	return c.board.Show(key, fmt.Sprintf("%d to %d °C", greenhouse.Spec.MinCelsius, greenhouse.Spec.MaxCelsius))
}

//lab:end
