// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/story"
)

// parlour gives access to all icecreams of the cluster, including those that are being deleted.
type parlour struct{ *icecream.Shop }

// order holds what a check looks at in an icecream.
type order struct {
	name, uid  string
	generation int64
	finalizers []string
	dying      bool
	conditions []metav1.Condition
}

func open(ctx context.Context, config *rest.Config) (*parlour, error) {
	shop, err := icecream.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &parlour{shop}, nil
}

// create creates an icecream.
func (p *parlour) create(ctx context.Context, object *unstructured.Unstructured) (order, error) {
	created, err := p.CreateObject(ctx, object)
	if err != nil {
		return order{}, err
	}
	return view(created), nil
}

// find returns the current state of the icecream that was ordered, and not a later one with the same name.
func (p *parlour) find(o order) (order, bool) {
	object, exists := p.Object(o.name)
	if !exists {
		return order{name: o.name, uid: o.uid}, false
	}
	now := view(object)
	return now, now.uid == o.uid
}

func view(object *unstructured.Unstructured) order {
	o := order{
		name: object.GetName(), uid: string(object.GetUID()), generation: object.GetGeneration(),
		finalizers: object.GetFinalizers(), dying: object.GetDeletionTimestamp() != nil,
	}
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if found, ok, _ := unstructured.NestedMap(object.Object, "status"); ok {
		// A status of another form has no conditions that a check could read.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(found, &status)
	}
	o.conditions = status.Conditions
	return o
}

// finalizersOf lists finalizers, as the observation of a check.
func finalizersOf(finalizers []string) string {
	switch len(finalizers) {
	case 0:
		return "it has no finalizers"
	case 1:
		return "its finalizer is " + finalizers[0]
	}
	return "its finalizers are " + story.List(finalizers)
}

// hasFinalizer reports whether the icecream has the operator's finalizer.
func (o order) hasFinalizer() bool { return slices.Contains(o.finalizers, finalizer) }
