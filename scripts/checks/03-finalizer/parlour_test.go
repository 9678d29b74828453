// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"lva.io/operators/scripts/checks/icecream"
)

// parlour is all icecreams of the cluster. Unlike the shop, it still sees those that are being deleted.
type parlour struct {
	*icecream.Shop

	informer cache.SharedIndexInformer
	mutex    sync.Mutex
	changed  chan struct{}
	sent     map[string]time.Time // creates that the watch has not told of yet
	lag      time.Duration
}

// order is what a check looks at of an icecream.
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
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for icecreams: %w", err)
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(
		client, icecream.Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	p := &parlour{Shop: shop, informer: informer, changed: make(chan struct{}), sent: map[string]time.Time{}}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.arrived(object); p.notify() },
		UpdateFunc: func(any, any) { p.notify() },
		DeleteFunc: func(any) { p.notify() },
	}); err != nil {
		return nil, fmt.Errorf("watching icecreams: %w", err)
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("watching icecreams: the API server did not list them")
	}
	return p, nil
}

// create orders an icecream, and measures how long it takes until the watch tells of it.
func (p *parlour) create(ctx context.Context, object *unstructured.Unstructured) (order, error) {
	p.mutex.Lock()
	p.sent[object.GetName()] = time.Now()
	p.mutex.Unlock()
	created, err := p.Client.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return order{}, err
	}
	return view(created), nil
}

func (p *parlour) arrived(object any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	name := object.(*unstructured.Unstructured).GetName()
	if sent, ours := p.sent[name]; ours {
		p.lag = time.Since(sent)
		delete(p.sent, name)
	}
}

// Lag is how long it took from sending the last create until the watch told of it.
func (p *parlour) Lag() time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.lag
}

func (p *parlour) notify() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Changed is closed when an icecream has come, changed, begun to die or gone.
func (p *parlour) Changed() <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.changed
}

// find is the icecream that was ordered, as it is now: not a later one of the same name.
func (p *parlour) find(o order) (order, bool) {
	object, there, err := p.informer.GetStore().GetByKey(o.name)
	if err != nil || !there {
		return order{name: o.name, uid: o.uid}, false
	}
	now := view(object.(*unstructured.Unstructured))
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
		// A status that is otherwise has no conditions that a check could see.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(found, &status)
	}
	o.conditions = status.Conditions
	return o
}

// held tells whether the operator's finalizer is on it.
func (o order) held() bool { return slices.Contains(o.finalizers, finalizer) }
