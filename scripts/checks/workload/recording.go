// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Recording records every state of an owner from a moment on, because a condition that is wrong only for a moment is
// still wrong.
type Recording struct {
	mutex  sync.Mutex
	states []*unstructured.Unstructured
	stop   context.CancelFunc
}

// Record begins to record an owner with its next change.
func (o *Owners) Record(ctx context.Context, owner *unstructured.Unstructured) (*Recording, error) {
	ctx, stop := context.WithCancel(ctx)
	watch, err := o.Dynamic.Resource(o.Resource).Namespace(owner.GetNamespace()).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + owner.GetName(), ResourceVersion: owner.GetResourceVersion(),
	})
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching %s: %w", owner.GetName(), err)
	}
	r := &Recording{stop: stop, states: []*unstructured.Unstructured{owner}}
	go func() {
		for event := range watch.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				r.mutex.Lock()
				r.states = append(r.states, object)
				r.mutex.Unlock()
			}
		}
	}()
	return r, nil
}

// Stop ends the recording.
func (r *Recording) Stop() { r.stop() }

// States returns the states so far. The first one is the state before the recording.
func (r *Recording) States() []*unstructured.Unstructured {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.states)
}

// Shows reports whether a condition ever had a status since the recording began.
func (r *Recording) Shows(conditionType, status string) bool {
	return slices.ContainsFunc(r.States()[1:], func(object *unstructured.Unstructured) bool {
		is, _ := ConditionOf(object, conditionType)
		return is.Status == status
	})
}

// Claims reports whether a condition ever had a status for a generation.
func (r *Recording) Claims(conditionType, status string, generation int64) bool {
	return slices.ContainsFunc(r.States(), func(object *unstructured.Unstructured) bool {
		is, _ := ConditionOf(object, conditionType)
		return is.Status == status && is.ObservedGeneration == generation
	})
}

// Transitions returns how often the status of one of the given conditions has changed.
func (r *Recording) Transitions(all ...string) (transitions int) {
	states := r.States()
	for i := 1; i < len(states); i++ {
		for _, conditionType := range all {
			before, _ := ConditionOf(states[i-1], conditionType)
			if after, _ := ConditionOf(states[i], conditionType); after.Status != before.Status {
				transitions++
			}
		}
	}
	return transitions
}

// Writes returns how often the status was written: how many states have other conditions than the state before.
func (r *Recording) Writes(all ...string) (writes int) {
	states := r.States()
	for i := 1; i < len(states); i++ {
		if slices.ContainsFunc(all, func(conditionType string) bool {
			before, _ := ConditionOf(states[i-1], conditionType)
			after, _ := ConditionOf(states[i], conditionType)
			return before != after
		}) {
			writes++
		}
	}
	return writes
}
