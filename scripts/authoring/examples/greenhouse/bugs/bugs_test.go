// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package bugs

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// store has the greenhouses that were not deleted, by their keys.
type store map[string]*playv1.Greenhouse

func (s store) Get(name string) (*playv1.Greenhouse, error) {
	if greenhouse, exists := s[name]; exists {
		return greenhouse, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{
		Group: playv1.GroupVersion.Group, Resource: "greenhouses",
	}, name)
}

// broken is a board that shows nothing.
type broken struct{ shown int }

func (b *broken) Show(string, playv1.GreenhouseSpec) error {
	b.shown++
	return errors.New("no power")
}

func (*broken) Clear(string) error { return nil }

func newController(t *testing.T, board Board, greenhouses ...*playv1.Greenhouse) *Controller {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(queue.ShutDown)
	existing := store{}
	for _, greenhouse := range greenhouses {
		existing[greenhouse.Namespace+"/"+greenhouse.Name] = greenhouse
	}
	return &Controller{lister: existing, queue: queue, board: board}
}

func vines(resourceVersion string) *playv1.Greenhouse {
	return &playv1.Greenhouse{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "vines", ResourceVersion: resourceVersion,
	}}
}

func TestResyncIsIgnored(t *testing.T) {
	t.Parallel()
	c := newController(t, &broken{})
	c.handlers().OnUpdate(vines("1"), vines("1"))
	if n := c.queue.Len(); n != 0 {
		t.Errorf("a resync adds %d names to the queue, want 0 because of the bug", n)
	}
	c.handlers().OnUpdate(vines("1"), vines("2"))
	if n := c.queue.Len(); n != 1 {
		t.Errorf("a change adds %d names to the queue, want 1", n)
	}
}

func TestDeletedGreenhousePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("sync does not panic, want a panic because of the bug")
		}
	}()
	if err := newController(t, &broken{}).sync("default/vines"); err != nil {
		t.Error(err)
	}
}

func TestFailedNameIsDropped(t *testing.T) {
	t.Parallel()
	board := &broken{}
	c := newController(t, board, vines("1"))
	c.queue.Add("default/vines")
	if !c.next() || board.shown != 1 {
		t.Fatalf("the board was called %d times, want 1", board.shown)
	}
	if failures, waiting := c.queue.NumRequeues("default/vines"), c.queue.Len(); failures != 0 || waiting != 0 {
		t.Errorf("the queue has %d failures and %d names, want none because of the bug", failures, waiting)
	}
}
