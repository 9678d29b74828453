// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"lva.io/operators/scripts/checks/check"
)

// solverLabel is the label of the Pods and Services of HTTP-01 solvers.
const solverLabel = "acme.cert-manager.io/http01-solver=true"

var (
	certificates = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	requests     = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests"}
	orders       = schema.GroupVersionResource{Group: "acme.cert-manager.io", Version: "v1", Resource: "orders"}
	challenges   = schema.GroupVersionResource{Group: "acme.cert-manager.io", Version: "v1", Resource: "challenges"}
	pods         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	ingresses    = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
)

// record remembers the objects that cert-manager creates, even after they are deleted.
type record struct {
	suite *check.Suite
	began time.Time

	mutex   sync.Mutex
	objects map[types.UID]*unstructured.Unstructured // as they were last seen
	states  map[reason]string                        // the state of an object when it had a reason
}

// reason is a reason in an object's status.
type reason struct {
	uid  types.UID
	text string
}

// state returns the state of an object when it had a reason. found is false if the object never had this reason.
func (r *record) state(uid types.UID, text string) (state string, found bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	state, found = r.states[reason{uid, text}]
	return state, found
}

// watch records until the context ends.
func watch(ctx context.Context, suite *check.Suite, client dynamic.Interface) (*record, error) {
	r := &record{
		suite:   suite,
		began:   time.Now(),
		objects: map[types.UID]*unstructured.Unstructured{},
		states:  map[reason]string{},
	}
	all := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	solvers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, metav1.NamespaceAll,
		func(o *metav1.ListOptions) { o.LabelSelector = solverLabel })
	for factory, resources := range map[dynamicinformer.DynamicSharedInformerFactory][]schema.GroupVersionResource{
		all: {certificates, requests, orders, challenges, ingresses}, solvers: {pods, services},
	} {
		for _, resource := range resources {
			if _, err := factory.ForResource(resource).Informer().AddEventHandler(r.handler()); err != nil {
				return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
			}
		}
		factory.Start(ctx.Done())
		for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return nil, fmt.Errorf("watching %s: %w", resource.Resource, context.Cause(ctx))
			}
		}
	}
	return r, nil
}

func (r *record) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			o := object.(*unstructured.Unstructured)
			r.see(o, "is made")
		},
		UpdateFunc: func(before, now any) {
			o := now.(*unstructured.Unstructured)
			state := stateOf(o)
			if state == stateOf(before.(*unstructured.Unstructured)) {
				state = ""
			}
			r.see(o, state)
		},
		DeleteFunc: func(object any) {
			if o, ok := object.(*unstructured.Unstructured); ok {
				r.see(o, "is gone")
			}
		},
	}
}

// see records an object, and reports what is new about it.
func (r *record) see(o *unstructured.Unstructured, news string) {
	r.mutex.Lock()
	r.objects[o.GetUID()] = o
	r.states[reason{o.GetUID(), strings.TrimSpace(text(o, "status", "reason"))}] = text(o, "status", "state")
	r.mutex.Unlock()
	if news != "" && !o.GetCreationTimestamp().Time.Before(r.began.Truncate(time.Second)) {
		r.suite.Note(time.Now(), 0, fmt.Sprintf("%s %s/%s %s", o.GetKind(), o.GetNamespace(), o.GetName(), news))
	}
}

// stateOf returns the state of an object as a person would look it up.
func stateOf(o *unstructured.Unstructured) string {
	if state, _, _ := unstructured.NestedString(o.Object, "status", "state"); state != "" {
		return "is " + state
	}
	if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase != "" {
		return "is " + phase
	}
	if status, _ := condition(o, "Ready"); status == "True" {
		return "is Ready"
	}
	return ""
}

// condition returns the status of a condition, and its message.
func condition(o *unstructured.Unstructured, kind string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range conditions {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprint(c["status"]), fmt.Sprint(c["message"])
		}
	}
	return "", ""
}

// owned returns the recorded objects of a kind that an object owns. If the kind is empty, it returns objects of all
// kinds.
func (r *record) owned(kind, namespace, ownerKind, owner string) (found []*unstructured.Unstructured) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, o := range r.objects {
		if o.GetNamespace() != namespace || kind != "" && o.GetKind() != kind {
			continue
		}
		if slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.Kind == ownerKind && ref.Name == owner
		}) {
			found = append(found, o)
		}
	}
	return found
}

// placed is an Order and a Challenge of it.
type placed struct{ order, challenge *unstructured.Unstructured }

// placed returns the recorded orders of a certificate, by the names of their Challenges.
func (r *record) placed(namespace, certificate string) (all []placed) {
	for _, request := range r.owned("CertificateRequest", namespace, "Certificate", certificate) {
		for _, order := range r.owned("Order", namespace, "CertificateRequest", request.GetName()) {
			for _, challenge := range r.owned("Challenge", namespace, "Order", order.GetName()) {
				all = append(all, placed{order, challenge})
			}
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(strings.Compare(a.challenge.GetName(), b.challenge.GetName()),
			cmp.Compare(a.challenge.GetUID(), b.challenge.GetUID()))
	})
	// A request that was created again has the name of the previous one.
	return slices.CompactFunc(all, func(a, b placed) bool { return a.challenge.GetUID() == b.challenge.GetUID() })
}

// names returns the names of objects.
func names(objects []*unstructured.Unstructured) (names []string) {
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	slices.Sort(names)
	return names
}

// text returns a field of an object. It is empty if the object has no such field.
func text(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(o.Object, path...)
	return value
}
