// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package icecream accesses objects of the kind Icecream for checks, through the API server only and without the
// student's types. It creates, changes and deletes icecreams, and watches all of them. It gives no verdict.
package icecream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"lva.io/operators/scripts/checks/compare"
)

// Identity of the kind, as the lectures define it.
var (
	Resource = schema.GroupVersionResource{Group: "demo.lva.io", Version: "v1", Resource: "icecreams"}
	Kind     = Resource.GroupVersion().WithKind("Icecream")
)

// Icecream has the fields of an icecream that checks look at.
type Icecream struct {
	Name             string
	Created          time.Time
	Flavour, Topping []string
	// SoldOut and ToppingsCount are the status. Nil means that the field is not set.
	SoldOut       *bool
	ToppingsCount *int64
}

// CountIs compares the status's toppingsCount with its expected value. A 0 may be left out.
func (i Icecream) CountIs(want int64) compare.Field {
	return compare.IsOrZero("status.toppingsCount of "+i.Name, want, i.ToppingsCount)
}

// SoldOutIs compares the status's soldOut with its expected value. A false may be left out.
func (i Icecream) SoldOutIs(want bool) compare.Field {
	return compare.IsOrZero(fmt.Sprintf("status.soldOut of %s (%s)", i.Name, strings.Join(i.Flavour, ", ")),
		want, i.SoldOut)
}

// New returns the object of an icecream. Nil toppings are left out.
func New(name string, flavour, topping []string) *unstructured.Unstructured {
	spec := map[string]any{"flavour": list(flavour)}
	if topping != nil {
		spec["topping"] = list(topping)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(Kind)
	object.SetName(name)
	return object
}

func list(items []string) []any {
	values := make([]any, len(items))
	for i, item := range items {
		values[i] = item
	}
	return values
}

// View returns the fields of an object that checks look at.
func View(object *unstructured.Unstructured) Icecream {
	flavour, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "flavour")
	topping, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "topping")
	i := Icecream{Name: object.GetName(), Created: object.GetCreationTimestamp().Time, Flavour: flavour, Topping: topping}
	if soldOut, set, _ := unstructured.NestedBool(object.Object, "status", "soldOut"); set {
		i.SoldOut = &soldOut
	}
	if count, set, _ := unstructured.NestedInt64(object.Object, "status", "toppingsCount"); set {
		i.ToppingsCount = &count
	}
	return i
}

// Shop is all icecreams of a cluster.
type Shop struct {
	Client dynamic.ResourceInterface

	informer cache.SharedIndexInformer
	mutex    sync.Mutex
	changed  chan struct{}
	sent     map[string]*sending // creates that the watch has not reported yet
	lag      time.Duration
}

// sending is a create request. It is sequential if no other create was sent before its answer: concurrent creates wait
// for each other.
type sending struct {
	at                   time.Time
	sequential, answered bool
}

// Open watches all icecreams until the context ends.
func Open(ctx context.Context, config *rest.Config) (*Shop, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for icecreams: %w", err)
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(
		client, Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil,
	).Informer()
	s := &Shop{
		Client:   client.Resource(Resource),
		informer: informer,
		changed:  make(chan struct{}),
		sent:     map[string]*sending{},
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.arrived(object); s.notify() },
		UpdateFunc: func(any, any) { s.notify() },
		DeleteFunc: func(any) { s.notify() },
	}); err != nil {
		return nil, fmt.Errorf("watching icecreams: %w", err)
	}
	reasons := make(chan error, 1)
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		select {
		case reasons <- err: // the first one, which the others repeat
		default:
		}
	}); err != nil {
		return nil, fmt.Errorf("watching icecreams: %w", err)
	}
	go informer.RunWithContext(ctx)
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(syncing.Done(), informer.HasSynced) {
		err := fmt.Errorf("the API server has not listed them within %s", syncTimeout)
		select {
		case reason := <-reasons:
			err = fmt.Errorf("%w: %w", err, reason)
		default:
		}
		return nil, fmt.Errorf("watching icecreams: %w", err)
	}
	return s, nil
}

// syncTimeout limits the first list of icecreams, which takes some milliseconds.
const syncTimeout = 10 * time.Second

// arrived measures the lag of an icecream that we created. The icecreams of a burst would show how busy we are, and not
// how busy the machine is.
func (s *Shop) arrived(object any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := object.(*unstructured.Unstructured).GetName()
	if sent, ours := s.sent[name]; ours {
		if sent.sequential {
			s.lag = time.Since(sent.at)
		}
		delete(s.sent, name)
	}
}

// Behind reports whether an icecream was created that the watch has not reported yet. In that case All is older than
// what the operator may know.
func (s *Shop) Behind() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.sent) > 0
}

// Lag returns how long it took from sending the last create that was sent alone until the watch reported it.
func (s *Shop) Lag() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.lag
}

func (s *Shop) notify() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed returns a channel that is closed when an icecream is created, changed, marked for deletion or deleted.
func (s *Shop) Changed() <-chan struct{} {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.changed
}

// All returns the icecreams that are not being deleted, oldest first, and by name if they have the same age in seconds.
func (s *Shop) All() []Icecream {
	var all []Icecream
	for _, object := range s.informer.GetStore().List() {
		if object := object.(*unstructured.Unstructured); object.GetDeletionTimestamp() == nil {
			all = append(all, View(object))
		}
	}
	slices.SortFunc(all, Older)
	return all
}

// Older orders by age, and by name within the same second. This is the order in which icecreams get their places.
func Older(a, b Icecream) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// Get returns the icecream of that name, unless it is being deleted.
func (s *Shop) Get(name string) (Icecream, bool) {
	object, exists := s.Object(name)
	if !exists || object.GetDeletionTimestamp() != nil {
		return Icecream{}, false
	}
	return View(object), true
}

// Object returns the whole icecream of that name, even if it is being deleted. It is shared: do not change it.
func (s *Shop) Object(name string) (*unstructured.Unstructured, bool) {
	object, exists, err := s.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil, false
	}
	return object.(*unstructured.Unstructured), true
}

// Create creates an icecream.
func (s *Shop) Create(ctx context.Context, name string, flavour []string, topping ...string) (Icecream, error) {
	object, err := s.CreateObject(ctx, New(name, flavour, topping))
	if err != nil {
		return Icecream{}, fmt.Errorf("creating the icecream %s: %w", name, err)
	}
	return View(object), nil
}

// CreateObject creates an icecream from an object that New returned, or that was written by hand, and returns it as it
// is stored.
func (s *Shop) CreateObject(ctx context.Context,
	object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	sent := s.send(object.GetName())
	created, err := s.Client.Create(ctx, object, metav1.CreateOptions{})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	sent.answered = true
	if err != nil {
		delete(s.sent, object.GetName()) // the watch will not report it
	}
	return created, err
}

func (s *Shop) send(name string) *sending {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	sent := &sending{at: time.Now(), sequential: true}
	for _, other := range s.sent {
		if !other.answered {
			other.sequential, sent.sequential = false, false
		}
	}
	s.sent[name] = sent
	return sent
}

// Patch changes an icecream by a JSON merge patch.
func (s *Shop) Patch(ctx context.Context, name, patch string) error {
	if _, err := s.Client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patching the icecream %s: %w", name, err)
	}
	return nil
}

// Delete deletes an icecream.
func (s *Shop) Delete(ctx context.Context, name string) error {
	if err := s.Client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the icecream %s: %w", name, err)
	}
	return nil
}

// emptyPatience is how long an operator may take over its finalizers before Empty removes them itself.
const emptyPatience = 3 * time.Second

// Empty deletes all icecreams and waits until they are gone, including those with a finalizer that no controller
// removes. It waits for as long as their number decreases.
func (s *Shop) Empty(ctx context.Context) error {
	if err := s.Client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting all icecreams: %w", err)
	}
	force := time.After(emptyPatience)
	giveUp := time.NewTimer(3 * emptyPatience)
	defer giveUp.Stop()
	for fewest := math.MaxInt; ; {
		changed := s.Changed()
		left := s.informer.GetStore().ListKeys()
		if len(left) == 0 {
			return nil
		}
		if len(left) < fewest {
			fewest = len(left)
			giveUp.Reset(3 * emptyPatience)
		}
		select {
		case <-changed:
		case <-force:
			for _, name := range left {
				if err := s.Patch(ctx, name, `{"metadata":{"finalizers":null}}`); err != nil &&
					!apierrors.IsNotFound(errors.Unwrap(err)) {
					return err
				}
			}
		case <-giveUp.C:
			return fmt.Errorf("%d icecreams could not be deleted, such as %v", len(left), left[:min(len(left), 5)])
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
