// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demov1 "lva.io/operators/labs/04-webhook/api/v1"
)

// The test calls Reconcile itself, and so decides when it looks, and at what.
func TestReconcile(t *testing.T) {
	api := apiServer(t)
	recorder := events.NewFakeRecorder(10)
	reconciler := &IcecreamReconciler{Client: api, APIReader: api, Recorder: recorder}
	reconcile := func(name string) {
		t.Helper()
		req := ctrl.Request{NamespacedName: client.ObjectKey{Name: name}}
		if _, err := reconciler.Reconcile(t.Context(), req); err != nil {
			t.Fatalf("reconcile %s: %v", name, err)
		}
	}
	read := func(name string) (icecream demov1.Icecream, err error) {
		return icecream, api.Get(t.Context(), client.ObjectKey{Name: name}, &icecream)
	}
	// Whether or not they are created in the same second, d is the last of the four.
	for _, name := range []string{"a", "b", "c", "d"} {
		if err := api.Create(t.Context(), &demov1.Icecream{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       demov1.IcecreamSpec{Flavour: []string{"vanilla"}, Topping: []string{"cream", "nuts"}},
		}); err != nil {
			t.Fatal(err)
		}
	}

	reconcile("d")
	if _, err := read("d"); !apierrors.IsNotFound(err) {
		t.Errorf("d has no place, and reading it ends with %v", err)
	}
	reconcile("a")
	a, err := read("a")
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Status.ToppingsCount; got == nil || *got != 2 {
		t.Errorf("toppingsCount of a is %v, want 2", got)
	}
	if got := a.Status.SoldOut; got == nil || !*got {
		t.Errorf("soldOut of a is %v, want true: three have a place", got)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("there are %d events, want one that says why d was deleted", len(recorder.Events))
	}
	ready := meta.FindStatusCondition(a.Status.Conditions, "Ready")
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != a.Generation {
		t.Errorf("the condition Ready of a is %+v, want True for generation %d", ready, a.Generation)
	}

	reconcile("a")
	if again, err := read("a"); err != nil || again.ResourceVersion != a.ResourceVersion {
		t.Errorf("nothing has changed, and a was written again (%v)", err)
	}

	b, err := read("b")
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	reconcile("a")
	if a, err = read("a"); err != nil || a.Status.SoldOut == nil || *a.Status.SoldOut {
		t.Errorf("soldOut of a is %v, want false: two have a place (%v)", a.Status.SoldOut, err)
	}
	reconcile("b") // A deleted icecream is no error.
}
