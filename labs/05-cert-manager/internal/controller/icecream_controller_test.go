// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	demov1 "lva.io/operators/labs/05-cert-manager/api/v1"
	"lva.io/operators/labs/05-cert-manager/internal/freezer"
)

// The tests call Reconcile themselves, and so decide when it looks, and at what.
func TestReconcile(t *testing.T) {
	parlour := open(t, "sundae")
	parlour.make(t, "cream")
	parlour.reconcile(t, nil)
	parlour.has(t, metav1.ConditionTrue, "flavour sundae", "topping cream")

	parlour.change(t, "cream", "nuts")
	parlour.down = errors.New("it is down")
	if err := parlour.try(t, nil); err == nil {
		t.Error("the freezer is down, and Reconcile returns no error")
	}
	parlour.has(t, metav1.ConditionFalse, "flavour sundae", "topping cream")
	parlour.says(t, freezerUnavailable)

	parlour.down = nil
	parlour.reconcile(t, nil)
	parlour.has(t, metav1.ConditionTrue, "flavour sundae", "topping cream", "topping nuts")

	if err := parlour.api.Delete(t.Context(), parlour.read(t)); err != nil {
		t.Fatal(err)
	}
	parlour.reconcile(t, nil)
	err := parlour.api.Get(t.Context(), client.ObjectKey{Name: parlour.name}, &demov1.Icecream{})
	if out := parlour.out(); !apierrors.IsNotFound(err) || len(out) > 0 {
		t.Errorf("it was deleted: reading it ends with %v, and %q is out of the freezer", err, out)
	}
}

// The operator was started again, and its cache begins with a list from before the last change.
func TestNothingIsBookedForAnOldSpec(t *testing.T) {
	parlour := open(t, "split")
	parlour.make(t)
	parlour.reconcile(t, nil)
	old := parlour.read(t)
	parlour.change(t, "cream")
	parlour.reconcile(t, nil)
	parlour.has(t, metav1.ConditionTrue, "flavour split", "topping cream")

	if err := parlour.try(t, old); err == nil {
		t.Error("the cache is behind, and Reconcile does not say so")
	}
	parlour.reconcile(t, nil)
	parlour.has(t, metav1.ConditionTrue, "flavour split", "topping cream")
}

// The answer to each booking is 200, and the books say something else.
func TestTheConditionIsAboutTheBooks(t *testing.T) {
	parlour := open(t, "float")
	parlour.forgets = true
	parlour.make(t, "cream")
	if err := parlour.try(t, nil); err == nil {
		t.Error("nothing is in the books, and Reconcile returns no error")
	}
	parlour.has(t, metav1.ConditionFalse)
	parlour.says(t, unbalanced)
}

// However long an outage was, an icecream waits for its end no longer than lastRetry.
func TestRetriesHaveALongestPause(t *testing.T) {
	if options().MaxConcurrentReconciles < 2 {
		t.Error("while one icecream waits for the freezer, all others wait")
	}
	pauses := options().RateLimiter
	var last time.Duration
	for range 30 {
		pause := pauses.When(ctrl.Request{})
		if pause < last || pause > lastRetry {
			t.Fatalf("after %s the next pause is %s", last, pause)
		}
		last = pause
	}
	if last != lastRetry {
		t.Errorf("the longest pause is %s, want %s", last, lastRetry)
	}
}

// A freezer that refuses a movement is well.
func TestEachFailureHasItsReason(t *testing.T) {
	nobody := httptest.NewServer(nil)
	nobody.Close()
	_, unanswered := freezer.NewClient(nobody.URL, time.Second).Outstanding(t.Context(), "5d1")
	failures := map[error]string{unanswered: freezerUnavailable, errUnbalanced: unbalanced}
	for code, want := range map[int]string{
		http.StatusBadRequest: freezerRefused, http.StatusConflict: freezerRefused,
		http.StatusTooManyRequests: freezerUnavailable, http.StatusInternalServerError: freezerUnavailable,
		http.StatusServiceUnavailable: freezerUnavailable,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		defer server.Close()
		_, err := freezer.NewClient(server.URL, time.Second).Outstanding(t.Context(), "5d1")
		failures[err] = want
	}
	for failure, want := range failures {
		if got := reason(fmt.Errorf("ask what is out: %w", failure)); got != want {
			t.Errorf("%v: the reason is %q, want %q", failure, got, want)
		}
	}
}

// parlour has one icecream, and a freezer that keeps its books in memory.
type parlour struct {
	api     client.WithWatch
	name    string
	freezer *freezer.Client

	mutex     sync.Mutex
	movements map[string]freezer.Movement
	order     []string
	down      error  // the freezer answers 503
	forgets   bool   // the freezer says that it has booked, and has not
	silent    bool   // the freezer books, and does not list outstanding ingredients
	lacks     string // the ingredient that the freezer does not have: 409

	// faults are the failures between Reconcile and the API server.
	faults interceptor.Funcs
}

func open(t *testing.T, name string) *parlour {
	t.Helper()
	p := &parlour{api: apiServer(t), name: name, movements: map[string]freezer.Movement{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.freezer = freezer.NewClient(server.URL, time.Second)
	return p
}

// ServeHTTP is the freezer.
func (p *parlour) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	id, isMovement := strings.CutPrefix(r.URL.Path, "/v1/movements/")
	var movement freezer.Movement
	switch {
	case p.down != nil:
		http.Error(w, p.down.Error(), http.StatusServiceUnavailable)
	case !isMovement && p.silent:
		http.Error(w, "no answer today", http.StatusServiceUnavailable)
	case !isMovement:
		_ = json.NewEncoder(w).Encode(map[string]any{"out": p.outstanding()})
	case json.NewDecoder(r.Body).Decode(&movement) != nil:
		http.Error(w, "this is no movement", http.StatusBadRequest)
	case movement.Name == p.lacks && movement.Direction == freezer.Out:
		http.Error(w, "none left", http.StatusConflict)
	default:
		if _, booked := p.movements[id]; !booked && !p.forgets {
			p.movements[id], p.order = movement, append(p.order, id)
		}
	}
}

// outstanding lists the ingredients that were taken and not returned.
func (p *parlour) outstanding() []freezer.Ingredient {
	var out []freezer.Ingredient
	for _, id := range p.order {
		switch movement := p.movements[id]; movement.Direction {
		case freezer.Out:
			out = append(out, movement.Ingredient)
		case freezer.In:
			out = slices.DeleteFunc(out, func(i freezer.Ingredient) bool { return i == movement.Ingredient })
		}
	}
	return out
}

func (p *parlour) make(t *testing.T, topping ...string) {
	t.Helper()
	if err := p.api.Create(t.Context(), &demov1.Icecream{
		ObjectMeta: metav1.ObjectMeta{Name: p.name},
		Spec:       demov1.IcecreamSpec{Flavour: []string{p.name}, Topping: topping},
	}); err != nil {
		t.Fatal(err)
	}
}

func (p *parlour) read(t *testing.T) *demov1.Icecream {
	t.Helper()
	var icecream demov1.Icecream
	if err := p.api.Get(t.Context(), client.ObjectKey{Name: p.name}, &icecream); err != nil {
		t.Fatal(err)
	}
	return &icecream
}

func (p *parlour) change(t *testing.T, topping ...string) {
	t.Helper()
	icecream := p.read(t)
	icecream.Spec.Topping = topping
	if err := p.api.Update(t.Context(), icecream); err != nil {
		t.Fatal(err)
	}
}

// cached reads one icecream as it was, as a cache does that is behind.
type cached struct {
	client.Client
	old *demov1.Icecream
}

func (c cached) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.old.DeepCopyInto(into.(*demov1.Icecream))
	return nil
}

// try calls Reconcile, to which the cache shows the icecream as it was once; nil: as it is.
func (p *parlour) try(t *testing.T, old *demov1.Icecream) error {
	t.Helper()
	reconciler := &IcecreamReconciler{
		Client: interceptor.NewClient(p.api, p.faults), APIReader: p.api,
		Recorder: events.NewFakeRecorder(10), Freezer: p.freezer,
	}
	if old != nil {
		reconciler.Client = cached{Client: reconciler.Client, old: old}
	}
	result, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: p.name}})
	if !result.IsZero() {
		t.Errorf("Reconcile wants to be called again, which an error or an event does: %+v", result)
	}
	return err
}

func (p *parlour) reconcile(t *testing.T, old *demov1.Icecream) {
	t.Helper()
	if err := p.try(t, old); err != nil {
		t.Fatalf("reconcile %s: %v", p.name, err)
	}
}

// out lists what the freezer has booked out, in words, sorted.
func (p *parlour) out() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var out []string
	for _, ingredient := range p.outstanding() {
		out = append(out, string(ingredient.Kind)+" "+ingredient.Name)
	}
	slices.Sort(out)
	return out
}

// says fails unless the condition has this reason.
func (p *parlour) says(t *testing.T, reason string) {
	t.Helper()
	condition := meta.FindStatusCondition(p.read(t).Status.Conditions, settled)
	if condition == nil || condition.Reason != reason {
		t.Errorf("the condition Settled is %+v, want the reason %s", condition, reason)
	}
}

// has fails unless exactly this is out of the freezer, and the condition says that all is settled, or not.
func (p *parlour) has(t *testing.T, status metav1.ConditionStatus, ingredients ...string) {
	t.Helper()
	if out := p.out(); !slices.Equal(out, ingredients) {
		t.Errorf("%s has %q out of the freezer, want %q", p.name, out, ingredients)
	}
	icecream := p.read(t)
	condition := meta.FindStatusCondition(icecream.Status.Conditions, settled)
	if condition == nil || condition.Status != status || condition.ObservedGeneration != icecream.Generation {
		t.Errorf("the condition Settled is %+v, want %s for generation %d", condition, status, icecream.Generation)
	}
}
