// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demov1 "lva.io/operators/labs/05-cert-manager/api/v1"
)

// ours is written out, since its name is a promise: renaming the constant would leave the old name on existing
// icecreams.
const ours = "demo.lva.io/finalizer"

// errRefused is the API server's answer wherever a test injects it.
var errRefused = apierrors.NewConflict(demov1.GroupVersion.WithResource("icecreams").GroupResource(), "icecream", nil)

func TestNothingIsTakenWithoutTheFinalizer(t *testing.T) {
	parlour := open(t, "bombe")
	parlour.make(t, "cream")
	parlour.faults.Patch = func(
		context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption,
	) error {
		return errRefused
	}
	if err := parlour.try(t, nil); !apierrors.IsConflict(err) {
		t.Errorf("the finalizer was refused, and Reconcile returns %v", err)
	}
	if out := parlour.out(); len(out) > 0 {
		t.Errorf("without the finalizer, %q is out of the freezer: who brings it back?", out)
	}
}

// The finalizers are one list of many controllers, and the order in it means nothing.
func TestFinalizersOfOthersStay(t *testing.T) {
	const first, last = "bakery.example.com/first", "bakery.example.com/last"
	parlour := open(t, "gateau")
	parlour.makeWith(t, first)
	parlour.reconcile(t, nil)
	parlour.finalizers(t, first, ours)

	icecream := parlour.read(t)
	icecream.Finalizers = append(icecream.Finalizers, last)
	if err := parlour.api.Update(t.Context(), icecream); err != nil {
		t.Fatal(err)
	}
	parlour.delete(t)
	parlour.reconcile(t, nil)
	parlour.finalizers(t, first, last)
	if out := parlour.out(); len(out) > 0 {
		t.Errorf("%q is out of the freezer", out)
	}
	parlour.reconcile(t, nil) // It is too late for a finalizer, and there is nothing to do.
}

// Another controller has added a finalizer, which the cache does not show yet.
func TestAFinalizerIsNotOverwritten(t *testing.T) {
	parlour := open(t, "coupe")
	parlour.make(t)
	old := parlour.read(t)
	icecream := parlour.read(t)
	icecream.Finalizers = []string{"bakery.example.com/first"}
	if err := parlour.api.Update(t.Context(), icecream); err != nil {
		t.Fatal(err)
	}
	if err := parlour.try(t, old); !apierrors.IsConflict(err) {
		t.Errorf("Reconcile returns %v, want a conflict", err)
	}
	parlour.finalizers(t, "bakery.example.com/first")
}

func TestADeletionWaitsForTheFreezer(t *testing.T) {
	parlour := open(t, "cassata")
	parlour.make(t, "cream")
	parlour.reconcile(t, nil)
	parlour.delete(t)

	parlour.down = errors.New("it is down")
	for range 2 {
		if err := parlour.try(t, nil); err == nil {
			t.Error("the freezer is down, and Reconcile returns no error")
		}
		parlour.finalizers(t, ours)
	}
	parlour.down, parlour.silent = nil, true
	if err := parlour.try(t, nil); err == nil {
		t.Error("the freezer does not say what is out, and Reconcile returns no error")
	}
	parlour.finalizers(t, ours)

	parlour.silent = false
	parlour.faults.Patch = func(
		context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption,
	) error {
		return errRefused
	}
	if err := parlour.try(t, nil); !apierrors.IsConflict(err) {
		t.Errorf("the finalizer can't be taken off, and Reconcile returns %v", err)
	}
}

// An error must not change the status each time: a change calls Reconcile, which fails again.
func TestAFailureIsToldOnce(t *testing.T) {
	parlour := open(t, "granita")
	parlour.make(t)
	parlour.down = errors.New("it is down")
	if err := parlour.try(t, nil); err == nil {
		t.Error("the freezer is down, and Reconcile returns no error")
	}
	before := parlour.read(t)
	if err := parlour.try(t, nil); err == nil {
		t.Error("the freezer is down, and Reconcile returns no error")
	}
	if after := parlour.read(t); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("nothing has changed, and the status was written again: %+v", after.Status.Conditions)
	}
}

func TestABookingThatIsRefusedIsAnError(t *testing.T) {
	parlour := open(t, "affogato")
	parlour.make(t, "cream", "nuts")
	parlour.lacks = "cream"
	if err := parlour.try(t, nil); err == nil {
		t.Error("there is no cream, and Reconcile returns no error")
	}
	parlour.has(t, metav1.ConditionFalse, "flavour affogato") // What comes after it waits, so that the order stays.
	parlour.says(t, freezerRefused)
	parlour.lacks = ""
	parlour.reconcile(t, nil)
	parlour.has(t, metav1.ConditionTrue, "flavour affogato", "topping cream", "topping nuts")
}

func TestAToppingIsExchanged(t *testing.T) {
	parlour := open(t, "frappe")
	parlour.make(t, "cream")
	parlour.reconcile(t, nil)
	parlour.change(t, "nuts")
	parlour.reconcile(t, nil)
	parlour.has(t, metav1.ConditionTrue, "flavour frappe", "topping nuts")
	parlour.change(t, "cream")
	parlour.reconcile(t, nil)
	parlour.has(t, metav1.ConditionTrue, "flavour frappe", "topping cream")
}

// Any client may have written a status. The books are in the freezer.
func TestTheConditionIsNotBelieved(t *testing.T) {
	parlour := open(t, "semifreddo")
	parlour.make(t)
	icecream := parlour.read(t)
	meta.SetStatusCondition(&icecream.Status.Conditions, metav1.Condition{
		Type: settled, Status: metav1.ConditionTrue, ObservedGeneration: icecream.Generation, Reason: balanced,
	})
	if err := parlour.api.Status().Update(t.Context(), icecream); err != nil {
		t.Fatal(err)
	}
	parlour.reconcile(t, nil)
	parlour.has(t, metav1.ConditionTrue, "flavour semifreddo")
}

func TestWhatIsGoneIsNoError(t *testing.T) {
	open(t, "nobody").reconcile(t, nil)
}

// The fourth has ingredients already. It is deleted, but not before they are returned.
func TestOneWithoutAPlaceReturnsWhatItHas(t *testing.T) {
	parlour := fourth(t, "tartufo")
	parlour.reconcile(t, nil)
	if icecream := parlour.read(t); icecream.DeletionTimestamp.IsZero() {
		t.Error("it has no place, and is not deleted")
	}
	parlour.finalizers(t, ours)
}

func TestADeletionThatIsRefusedIsAnError(t *testing.T) {
	parlour := fourth(t, "zuccotto")
	parlour.faults.Delete = func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return errRefused
	}
	if err := parlour.try(t, nil); !apierrors.IsConflict(err) {
		t.Errorf("the deletion was refused, and Reconcile returns %v", err)
	}
}

// The cache shows a deleted icecream. The API server does not, so the fourth is the third by now.
func TestACacheThatIsBehindDeletesNobody(t *testing.T) {
	parlour := fourth(t, "stracciatella")
	var old demov1.IcecreamList
	if err := parlour.api.List(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	parlour.faults.List = func(
		_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption,
	) error {
		old.DeepCopyInto(into.(*demov1.IcecreamList))
		return nil
	}
	if err := parlour.api.Delete(t.Context(), &demov1.Icecream{
		ObjectMeta: metav1.ObjectMeta{Name: "stracciatella-1"},
	}); err != nil {
		t.Fatal(err)
	}
	parlour.reconcile(t, nil)
	if icecream := parlour.read(t); !icecream.DeletionTimestamp.IsZero() {
		t.Error("it has a place, and is deleted")
	}
}

// The icecream that is to be deleted has changed since it was read: it may have a place now.
func TestWhatHasChangedIsNotDeleted(t *testing.T) {
	parlour := fourth(t, "nocciola")
	old := parlour.read(t)
	parlour.change(t, "cream")
	if err := parlour.try(t, old); !apierrors.IsConflict(err) {
		t.Errorf("Reconcile returns %v, want a conflict", err)
	}
	if icecream := parlour.read(t); !icecream.DeletionTimestamp.IsZero() {
		t.Error("it has changed, and is deleted")
	}
}

// fourth is a parlour whose icecream has our finalizer and no place: there are three of its flavour before it.
func fourth(t *testing.T, name string) *parlour {
	t.Helper()
	for _, number := range []string{"-1", "-2", "-3"} {
		before := open(t, name+number)
		icecream := &demov1.Icecream{
			ObjectMeta: metav1.ObjectMeta{Name: before.name},
			Spec:       demov1.IcecreamSpec{Flavour: []string{name + "-4"}},
		}
		if err := before.api.Create(t.Context(), icecream); err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, name+"-4")
	p.makeWith(t, ours)
	return p
}

func (p *parlour) makeWith(t *testing.T, finalizers ...string) {
	t.Helper()
	icecream := &demov1.Icecream{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Finalizers: finalizers},
		Spec:       demov1.IcecreamSpec{Flavour: []string{p.name}},
	}
	if err := p.api.Create(t.Context(), icecream); err != nil {
		t.Fatal(err)
	}
}

func (p *parlour) delete(t *testing.T) {
	t.Helper()
	if err := p.api.Delete(t.Context(), p.read(t)); err != nil {
		t.Fatal(err)
	}
}

// finalizers fails unless the icecream has exactly these.
func (p *parlour) finalizers(t *testing.T, want ...string) {
	t.Helper()
	if got := p.read(t).Finalizers; !slices.Equal(got, want) {
		t.Fatalf("the finalizers of %s are %q, want %q", p.name, got, want)
	}
}
