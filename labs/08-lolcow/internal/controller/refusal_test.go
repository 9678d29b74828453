// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	lolcowv1alpha1 "lva.io/operators/labs/08-lolcow/api/v1alpha1"
)

func TestAPortThatIsRefused(t *testing.T) {
	t.Skip("TODO(lab): 6. remove this line when you begin with refusals; then: make test")
	h := newHerd(t)
	h.create("greta", 30141, "Moo")
	h.reconcile("greta")
	h.create("heidi", 30141, "Moo")
	h.create("ida", 80, "Moo")
	for _, name := range []string{"heidi", "ida"} {
		if again := h.reconcile(name).RequeueAfter; again <= 0 || again > firstWait {
			t.Errorf("%s is tried again in %s", name, again)
		}
		h.deployment(name) // The Deployment can't help it.
		h.is(name, lolcowv1alpha1.Available, metav1.ConditionFalse, "")
	}
	h.is("heidi", lolcowv1alpha1.Degraded, metav1.ConditionTrue, "30141")
	h.is("ida", lolcowv1alpha1.Degraded, metav1.ConditionTrue, "80")

	// On a busy machine the first waits may be over by now; each is twice as long as the one before.
	const attempts = 6
	for n, asked := 1, true; asked; n++ {
		h.reconcile("heidi")
		writes := h.writes
		h.reconcile("heidi")
		if asked = h.writes != writes; asked && n == attempts {
			t.Fatal("it asks for the port again at once, however often it was refused")
		}
	}
	h.told(2, 9)

	h.change("ida", func(cow *lolcowv1alpha1.Lolcow) { cow.Spec.Port = 30142 })
	if again := h.reconcile("ida").RequeueAfter; again != 0 {
		t.Errorf("ida has a port that is free, and is tried again in %s", again)
	}
	h.is("ida", lolcowv1alpha1.Degraded, metav1.ConditionFalse, "")

	h.delete(h.service("greta"))
	h.restart() // It remembers no refusal.
	h.reconcile("heidi")
	h.is("heidi", lolcowv1alpha1.Degraded, metav1.ConditionFalse, "")
	h.told(0, 4)
}

func TestAnErrorOfTheAPIServer(t *testing.T) {
	t.Skip("TODO(lab): 6. remove this line when you begin with refusals; then: make test")
	h := newHerd(t)
	h.create("paula", 30181, "Moo")
	end := h.refuseServices("'not on a Sunday'")
	err := h.fails("paula")
	h.deployment("paula") // The Deployment can't help it.
	h.is("paula", lolcowv1alpha1.Degraded, metav1.ConditionTrue, "not on a Sunday")
	h.is("paula", lolcowv1alpha1.Available, metav1.ConditionFalse, "")

	before := h.lolcow("paula").ResourceVersion
	if again := h.fails("paula"); apierrors.ReasonForError(again) != apierrors.ReasonForError(err) {
		t.Errorf("the first error is %v, and the second %v", err, again)
	}
	if now := h.lolcow("paula").ResourceVersion; now != before {
		t.Error("the same error was written into the status twice")
	}
	h.told(1, 3)

	end()
	h.reconcile("paula")
	h.is("paula", lolcowv1alpha1.Degraded, metav1.ConditionFalse, "")
	h.told(0, 2)
}

// What became of the Deployment decides whether anything can still be served.
func TestADeploymentThatCannotBeWritten(t *testing.T) {
	t.Skip("TODO(lab): 6. remove this line when you begin with refusals; then: make test")
	h := newHerd(t)
	h.create("sally", 30201, "Moo")
	h.reconcile("sally")
	h.rollOut("sally", appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue})
	h.reconcile("sally")
	h.is("sally", lolcowv1alpha1.Available, metav1.ConditionTrue, "")

	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	h.refusal = apierrors.NewForbidden(deployments, "sally", errors.New("exceeded quota"))
	h.change("sally", func(cow *lolcowv1alpha1.Lolcow) { cow.Spec.Greeting = "Hey" })
	h.reconcile("sally")
	h.is("sally", lolcowv1alpha1.Degraded, metav1.ConditionTrue, "exceeded quota")
	h.is("sally", lolcowv1alpha1.Available, metav1.ConditionTrue, "") // The Pods of before still serve.

	h.delete(h.deployment("sally"))
	h.reconcile("sally")
	h.is("sally", lolcowv1alpha1.Degraded, metav1.ConditionTrue, "exceeded quota")
	h.is("sally", lolcowv1alpha1.Available, metav1.ConditionFalse, "") // Its Pods go with it.
}

// The API server answers 409 if the cache is behind: the next call will see the current state. A webhook that answers
// 409 may do so each time.
func TestAConflictIsRetriedAndThatOfAWebhookReported(t *testing.T) {
	t.Skip("TODO(lab): 6. remove this line when you begin with refusals; then: make test")
	h := newHerd(t)
	h.create("viola", 30231, "Moo")
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, err := range []error{
		apierrors.NewConflict(deployments, "viola", errors.New("the object has been modified")),
		apierrors.NewAlreadyExists(deployments, "viola"),
	} {
		h.refusal = err
		_ = h.fails("viola") // The work queue calls again.
		if got := h.lolcow("viola").Status.Conditions; len(got) > 0 {
			t.Errorf("after the error %v the status has %+v", err, got)
		}
	}
	h.refusal = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Message: `admission webhook "herd" denied the request`,
	}}
	_ = h.fails("viola")
	h.is("viola", lolcowv1alpha1.Degraded, metav1.ConditionTrue, "denied the request")
	h.refusal = nil
	h.reconcile("viola")
	h.is("viola", lolcowv1alpha1.Degraded, metav1.ConditionFalse, "")
}

func TestTheReasonOfAnErrorIsOneWord(t *testing.T) {
	t.Skip("TODO(lab): 6. remove this line when you begin with refusals; then: make test")
	for _, test := range []struct {
		err  error
		want string
	}{
		{apierrors.NewServiceUnavailable("down"), "ServiceUnavailable"},
		{fmt.Errorf("apply the Service: %w", apierrors.NewTooManyRequests("later", 1)), "TooManyRequests"},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Reason: "no cows on a Sunday", Message: "denied"}}, "Failed"},
		{context.DeadlineExceeded, "Failed"},
	} {
		if got := failure(test.err); got == nil || got.reason != test.want ||
			!strings.Contains(got.message, test.err.Error()) {
			t.Errorf("of the error %q the status says %+v, want the reason %s", test.err, got, test.want)
		}
	}
}
