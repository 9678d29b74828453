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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Recording records every state of objects from a moment on, because a state that is wrong only for a moment is still
// wrong.
type Recording struct {
	mutex  sync.Mutex
	states []*unstructured.Unstructured
	stop   context.CancelFunc
}

// Record begins to record an owner with its next change.
func (o *Owners) Record(ctx context.Context, owner *unstructured.Unstructured) (*Recording, error) {
	client := o.Dynamic.Resource(o.Resource).Namespace(owner.GetNamespace())
	return record(ctx, client, owner.GetName(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + owner.GetName(), ResourceVersion: owner.GetResourceVersion(),
	}, owner)
}

// RecordChildren begins to record all objects of a kind of child in a namespace with their next change.
func (o *Owners) RecordChildren(ctx context.Context, resource schema.GroupVersionResource,
	namespace string,
) (*Recording, error) {
	client := o.Dynamic.Resource(resource).Namespace(namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	return record(ctx, client, resource.Resource, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
}

// record begins a recording with these states. Its errors name what is watched.
func record(ctx context.Context, client dynamic.ResourceInterface, what string, options metav1.ListOptions,
	states ...*unstructured.Unstructured,
) (*Recording, error) {
	ctx, stop := context.WithCancel(ctx)
	watch, err := client.Watch(ctx, options)
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching %s: %w", what, err)
	}
	r := &Recording{stop: stop, states: states}
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

// States returns the states so far. The first one of a recorded owner is its state before the recording.
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
