// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options configure a Proxy.
type Options struct {
	// Client may list and watch Services and EndpointSlices, and get Pods.
	Client kubernetes.Interface
	// Node is this node's name.
	Node string
	// Publish is called after each change with the ports of the node that the machine publishes, too. It may be nil.
	Publish func(ports []Port)
	// Report is called with each error. The Proxy retries by itself.
	Report func(error)
}

// Proxy updates the kernel's rules when the API's objects change. All methods are safe for concurrent use.
type Proxy struct {
	options Options
	kernel  *kernel
	dirty   chan struct{} // room for one: later changes are planned together

	mutex     sync.Mutex
	hostPorts map[string]HostPorts
	// readyPods are the Pods to which the kernel's current rules route new connections on purpose.
	readyPods map[types.UID]bool
	changed   chan struct{} // closed when readyPods is replaced
}

// New returns a Proxy for the network namespace of the caller. Rules that an earlier Proxy has left apply until Run
// replaces them.
func New(options Options) (*Proxy, error) {
	kernel, err := openKernel()
	if err != nil {
		return nil, fmt.Errorf("preparing for Services: %w", err)
	}
	return &Proxy{
		options:   options,
		kernel:    kernel,
		dirty:     make(chan struct{}, 1),
		hostPorts: map[string]HostPorts{},
		changed:   make(chan struct{}),
	}, nil
}

// retryInterval is how long the proxy waits before it retries a failed update.
const retryInterval = time.Second

// Run updates the rules until the context ends. It can't be called again. The rules stay.
func (p *Proxy) Run(ctx context.Context) error {
	defer func() { _ = p.kernel.close() }()
	factory := informers.NewSharedInformerFactoryWithOptions(
		p.options.Client, 0, informers.WithTransform(withoutManagedFields),
	)
	services, slices := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	// The kind of the change does not matter, because the plan is computed again from all objects.
	something := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { p.wake() }, UpdateFunc: func(_, _ any) { p.wake() }, DeleteFunc: func(any) { p.wake() },
	}
	for _, informer := range []cache.SharedIndexInformer{services.Informer(), slices.Informer()} {
		if _, err := informer.AddEventHandler(something); err != nil {
			return fmt.Errorf("watching Services: %w", err)
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	// With only a part of the objects, Services would seem to have no endpoints.
	if !cache.WaitForCacheSync(ctx.Done(), services.Informer().HasSynced, slices.Informer().HasSynced) {
		return context.Cause(ctx)
	}
	p.wake()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.dirty:
		}
		state := State{Node: p.options.Node}
		var err error
		if state.Services, err = services.Lister().List(labels.Everything()); err == nil {
			state.Slices, err = slices.Lister().List(labels.Everything())
		}
		if err == nil {
			err = p.follow(state)
		}
		if err != nil {
			p.report(err)
			time.AfterFunc(retryInterval, p.wake)
		}
	}
}

// follow updates the kernel to match the objects.
func (p *Proxy) follow(state State) error {
	p.mutex.Lock()
	state.HostPorts = maps.Clone(p.hostPorts)
	p.mutex.Unlock()
	plan := Rules(state)
	if err := p.kernel.apply(plan); err != nil {
		return err
	}
	p.mutex.Lock()
	p.readyPods = readyPods(state.Slices)
	close(p.changed)
	p.changed = make(chan struct{})
	p.mutex.Unlock()
	if p.options.Publish != nil {
		p.options.Publish(plan.Published())
	}
	return nil
}

// withoutManagedFields drops the managed fields, which are half of an object, and which no code here reads.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func (p *Proxy) wake() {
	select {
	case p.dirty <- struct{}{}:
	default: // an update is already due
	}
}

func (p *Proxy) report(err error) {
	if p.options.Report != nil {
		p.options.Report(err)
	}
}

// SetHostPorts gives a Pod ports of the node, by the ID of its sandbox. It replaces the earlier ports of the sandbox.
func (p *Proxy) SetHostPorts(id string, ports HostPorts) {
	p.mutex.Lock()
	p.hostPorts[id] = ports
	p.mutex.Unlock()
	p.wake()
}

// ClearHostPorts removes the ports of a Pod.
func (p *Proxy) ClearHostPorts(id string) {
	p.mutex.Lock()
	delete(p.hostPorts, id)
	p.mutex.Unlock()
	p.wake()
}
