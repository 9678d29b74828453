// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	demov1 "lva.io/operators/labs/04-webhook/api/v1"
)

func TestStatusFollowsTheSpec(t *testing.T) {
	api := apiServer(t)
	reconciler := newReconciler(api, interceptor.Funcs{})
	order(t, api, "sorbet", "lemon")

	// It was changed before the first call of Reconcile.
	change(t, api, "sorbet", "nuts", "cream")
	mustReconcile(t, reconciler, "sorbet")
	hasToppings(t, api, "sorbet", 2)

	change(t, api, "sorbet", "nuts")
	mustReconcile(t, reconciler, "sorbet")
	hasToppings(t, api, "sorbet", 1)
}

func TestStatusIsCorrected(t *testing.T) {
	api := apiServer(t)
	reconciler := newReconciler(api, interceptor.Funcs{})
	order(t, api, "parfait", "lemon")
	mustReconcile(t, reconciler, "parfait")

	parfait := read(t, api, "parfait")
	parfait.Status.ToppingsCount = new(int32(7))
	if err := api.Status().Update(t.Context(), parfait); err != nil {
		t.Fatal(err)
	}
	mustReconcile(t, reconciler, "parfait")
	hasToppings(t, api, "parfait", 0)
}

func TestOneSoldOutFlavourIsEnough(t *testing.T) {
	api := apiServer(t)
	order(t, api, "kiwi-1", "kiwi")
	order(t, api, "kiwi-2", "kiwi")
	order(t, api, "kiwi-lime", "kiwi", "lime")
	mustReconcile(t, newReconciler(api, interceptor.Funcs{}), "kiwi-lime")
	if got := read(t, api, "kiwi-lime").Status.SoldOut; got == nil || !*got {
		t.Errorf("soldOut of kiwi-lime is %v, want true: there are three with kiwi", got)
	}
}

// A correct status is neither written again nor requeued: each request has a cost.
func TestReconcileSettles(t *testing.T) {
	api := apiServer(t)
	icecreams, statuses := 0, 0
	reconciler := newReconciler(api, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			icecreams++
			return c.Update(ctx, object, options...)
		},
		SubResourceUpdate: func(
			ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption,
		) error {
			statuses++
			return c.SubResource(name).Update(ctx, object, options...)
		},
	})
	order(t, api, "sundae", "lemon")
	for range 2 {
		result, err := reconciler.Reconcile(t.Context(), request("sundae"))
		if err != nil || !result.IsZero() {
			t.Errorf("nothing is wrong, and Reconcile wants to be called again: %+v, %v", result, err)
		}
		if icecreams != 0 || statuses != 1 {
			t.Errorf("the icecream was written %d times and its status %d times, want 0 and 1", icecreams, statuses)
		}
	}
}

// When Reconcile returns an error, it is called again. An error that is only logged is forgotten.
func TestErrorsAreReturned(t *testing.T) {
	api := apiServer(t)
	refused := apierrors.NewConflict(demov1.GroupVersion.WithResource("icecreams").GroupResource(), "split", nil)
	noList := interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
	}
	tests := []struct {
		name              string
		client, apiReader interceptor.Funcs
		icecream          string
	}{
		{name: "the cache can't list", client: noList, icecream: "split-1"},
		{name: "the API server refuses to list", apiReader: noList, icecream: "split-4"},
		{name: "the status conflicts", icecream: "split-1", client: interceptor.Funcs{
			SubResourceUpdate: func(
				context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption,
			) error {
				return refused
			},
		}},
		{name: "the deletion conflicts", icecream: "split-4", client: interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return refused },
		}},
	}
	for i := range 4 {
		order(t, api, fmt.Sprintf("split-%d", i+1), "banana")
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reconciler := newReconciler(api, test.client)
			reconciler.APIReader = interceptor.NewClient(api, test.apiReader)
			if _, err := reconciler.Reconcile(t.Context(), request(test.icecream)); !apierrors.IsConflict(err) {
				t.Errorf("Reconcile returns %v, want %v", err, refused)
			}
			read(t, api, test.icecream)
		})
	}
}

// The cache still shows a deleted icecream. The API server does not, so the fourth is the third by now.
func TestACacheThatIsBehindDeletesNobody(t *testing.T) {
	api := apiServer(t)
	for i := range 4 {
		order(t, api, fmt.Sprintf("acai-%d", i+1), "acai")
	}
	var old demov1.IcecreamList
	if err := api.List(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), read(t, api, "acai-1")); err != nil {
		t.Fatal(err)
	}
	reconciler := newReconciler(api, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
			old.DeepCopyInto(into.(*demov1.IcecreamList))
			return nil
		},
	})
	mustReconcile(t, reconciler, "acai-4")
	read(t, api, "acai-4")
}

// The icecream that is to be deleted has changed since it was read: it may have a place now.
func TestWhatHasChangedIsNotDeleted(t *testing.T) {
	api := apiServer(t)
	for i := range 4 {
		order(t, api, fmt.Sprintf("sloe-%d", i+1), "sloe")
	}
	old := read(t, api, "sloe-4")
	change(t, api, "sloe-4", "cream")
	reconciler := newReconciler(api, interceptor.Funcs{
		Get: func(
			_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption,
		) error {
			old.DeepCopyInto(into.(*demov1.Icecream))
			return nil
		},
	})
	if _, err := reconciler.Reconcile(t.Context(), request("sloe-4")); !apierrors.IsConflict(err) {
		t.Errorf("Reconcile returns %v, want a conflict", err)
	}
	read(t, api, "sloe-4")
}

func TestReconcileDeletesOnlyItsOwnIcecream(t *testing.T) {
	api := apiServer(t)
	for i := range 4 {
		order(t, api, fmt.Sprintf("zwetschke-%d", i+1), "zwetschke")
	}
	mustReconcile(t, newReconciler(api, interceptor.Funcs{}), "zwetschke-1")
	read(t, api, "zwetschke-4")
}

func TestANameIsOrderedAgain(t *testing.T) {
	api := apiServer(t)
	reconciler := newReconciler(api, interceptor.Funcs{})
	for i := range 3 {
		order(t, api, fmt.Sprintf("mocha-%d", i+1), "mocha")
	}
	for range 2 {
		order(t, api, "mocha-4", "mocha")
		mustReconcile(t, reconciler, "mocha-4")
		err := api.Get(t.Context(), client.ObjectKey{Name: "mocha-4"}, &demov1.Icecream{})
		if !apierrors.IsNotFound(err) {
			t.Fatalf("mocha-4 has no place, and reading it ends with %v", err)
		}
	}
}

func TestALargeShop(t *testing.T) {
	api := apiServer(t)
	const many = 25
	for i := range many {
		order(t, api, fmt.Sprintf("large-%02d", i+1), fmt.Sprintf("large-%02d", i+1))
	}
	last := fmt.Sprintf("large-%02d", many)
	mustReconcile(t, newReconciler(api, interceptor.Funcs{}), last)
	hasToppings(t, api, last, 0)
}

func TestAChangeConcernsEverybody(t *testing.T) {
	api := apiServer(t)
	order(t, api, "twin-1", "fig")
	order(t, api, "twin-2", "fig")
	reconciler := newReconciler(api, interceptor.Funcs{})
	reconciler.APIReader = nil // The cache knows, and a map function is called often.
	requests := reconciler.everybody(t.Context(), read(t, api, "twin-2"))
	for _, name := range []string{"twin-1", "twin-2"} {
		if !slices.Contains(requests, request(name)) {
			t.Errorf("twin-2 has changed, and %s is not named: %v", name, requests)
		}
	}
}

// The other tests call Reconcile. In this one the manager calls it: for existing icecreams, and when one is created or
// deleted.
func TestTheManagerCallsReconcile(t *testing.T) {
	api := apiServer(t)
	for i := range 3 {
		order(t, api, fmt.Sprintf("melon-%d", i+1), "melon")
	}
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: api.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	reconciler := &IcecreamReconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("icecream"),
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the manager ends with %v", err)
		}
	}()
	soldOut := func(want bool) {
		t.Helper()
		reached := func(context.Context) (bool, error) {
			got := read(t, api, "melon-1").Status.SoldOut
			return got != nil && *got == want, nil
		}
		if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 5*time.Second, true, reached); err != nil {
			t.Fatalf("soldOut of melon-1 does not become %t: %v", want, err)
		}
	}
	soldOut(true)
	// Twice: after the first deletion, a call of Reconcile for an icecream of the start may hide that the deletion led to
	// none.
	for range 2 {
		if err := api.Delete(ctx, read(t, api, "melon-3")); err != nil {
			t.Fatal(err)
		}
		soldOut(false)
		order(t, api, "melon-3", "melon")
		soldOut(true)
	}
}

// newReconciler reads and writes through a client with faults. Its APIReader has none.
func newReconciler(api client.WithWatch, faults interceptor.Funcs) *IcecreamReconciler {
	return &IcecreamReconciler{
		Client: interceptor.NewClient(api, faults), APIReader: api, Recorder: events.NewFakeRecorder(10),
	}
}

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Name: name}}
}

func mustReconcile(t *testing.T, reconciler *IcecreamReconciler, name string) {
	t.Helper()
	if _, err := reconciler.Reconcile(t.Context(), request(name)); err != nil {
		t.Fatalf("reconcile %s: %v", name, err)
	}
}

// order creates an icecream. It is deleted when the test ends, so each test has a shop of its own.
func order(t *testing.T, api client.Client, name string, flavours ...string) {
	t.Helper()
	icecream := &demov1.Icecream{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demov1.IcecreamSpec{Flavour: flavours}}
	if err := api.Create(t.Context(), icecream); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(t.Context()), icecream); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

func change(t *testing.T, api client.Client, name string, topping ...string) {
	t.Helper()
	icecream := read(t, api, name)
	icecream.Spec.Topping = topping
	if err := api.Update(t.Context(), icecream); err != nil {
		t.Fatal(err)
	}
}

// read fails if there is no such icecream.
func read(t *testing.T, api client.Client, name string) *demov1.Icecream {
	t.Helper()
	var icecream demov1.Icecream
	if err := api.Get(t.Context(), client.ObjectKey{Name: name}, &icecream); err != nil {
		t.Fatal(err)
	}
	return &icecream
}

func hasToppings(t *testing.T, api client.Client, name string, want int32) {
	t.Helper()
	if got := read(t, api, name).Status.ToppingsCount; got == nil || *got != want {
		t.Errorf("toppingsCount of %s is %v, want %d", name, got, want)
	}
}
