// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// The operator hears of its own status: the cache may be behind when an error is over, and then nothing is written. But
// of other words of an error it does not hear: each error that has some would call for the next one.
func TestOtherWordsAloneLeadToNoCall(t *testing.T) {
	before := &appsv1beta1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "words", ResourceVersion: "7", Generation: 1}}
	meta.SetStatusCondition(&before.Status.Conditions, metav1.Condition{
		Type: appsv1beta1.Degraded, Status: metav1.ConditionTrue, Reason: "Failed", Message: "port 1",
	})
	meta.SetStatusCondition(&before.Status.Conditions, metav1.Condition{
		Type: appsv1beta1.Available, Status: metav1.ConditionFalse, Reason: "Degraded", Message: "See the condition Degraded",
	})
	for _, test := range []struct {
		change string
		to     func(*appsv1beta1.WebApp)
		calls  bool
	}{
		{"the message of an error", func(app *appsv1beta1.WebApp) { app.Status.Conditions[0].Message = "port 2" }, false},
		{"another message", func(app *appsv1beta1.WebApp) { app.Status.Conditions[1].Message = "A user was here" }, true},
		{"the status of a condition", func(app *appsv1beta1.WebApp) { app.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		{"the replicas in the status", func(app *appsv1beta1.WebApp) { app.Status.Replicas = 2 }, true},
		{"the spec", func(app *appsv1beta1.WebApp) { app.Generation, app.Spec.Port = 2, 30192 }, true},
	} {
		now := before.DeepCopy()
		now.ResourceVersion = "8"
		test.to(now)
		if calls := notOnlyWords.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}); calls != test.calls {
			t.Errorf("%s: that it leads to a call is %t", test.change, calls)
		}
	}
}

// Here the manager decides when Reconcile is called.
func TestWhatLeadsToACall(t *testing.T) {
	s := newShop(t)
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme:     s.Scheme(),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	s.must(err)
	s.must((&WebAppReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	// Less than retryRefused: only an event can have led to a change by then.
	within := func(what string, done func(context.Context) bool) {
		t.Helper()
		condition := func(ctx context.Context) (bool, error) { return done(ctx), nil }
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 3*time.Second, true, condition)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	ours := func(child client.Object, app *appsv1alpha1.WebApp) func(context.Context) bool {
		return func(ctx context.Context) bool {
			return s.Get(ctx, client.ObjectKeyFromObject(app), child) == nil && metav1.IsControlledBy(child, app)
		}
	}
	for i, theirs := range []client.Object{
		&corev1.Service{ObjectMeta: s.meta("web-0"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&appsv1.Deployment{ObjectMeta: s.meta("web-1"), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "other"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other:v1"}}},
			},
		}},
	} {
		s.must(s.Create(t.Context(), theirs))
		app := s.create(theirs.GetName(), 30301+int32(i), nil)
		within("the condition of "+app.Name, func(ctx context.Context) bool {
			return s.Get(ctx, client.ObjectKeyFromObject(app), app) == nil &&
				meta.IsStatusConditionTrue(app.Status.Conditions, appsv1alpha1.Degraded)
		})
		s.must(s.Delete(t.Context(), theirs))
		for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			within("the children of "+app.Name, ours(child, app))
		}
		for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			within("a child to delete", ours(child, app))
			before := child.GetUID()
			s.must(s.Delete(t.Context(), child))
			within("a child that was deleted", func(ctx context.Context) bool {
				return ours(child, app)(ctx) && child.GetUID() != before
			})
		}
		deployment := s.deployment(app.Name)
		deployment.Spec.Replicas = new(int32(9))
		s.must(s.Update(t.Context(), deployment))
		within("a Deployment that was changed", func(context.Context) bool {
			return *s.deployment(app.Name).Spec.Replicas == 1
		})
		service := s.service(app.Name)
		service.Spec.Selector = nil
		s.must(s.Update(t.Context(), service))
		within("a Service that was changed", func(context.Context) bool { return len(s.service(app.Name).Spec.Selector) > 0 })
		s.must(s.Get(t.Context(), client.ObjectKeyFromObject(app), app))
		edited := app.DeepCopy()
		for i := range edited.Status.Conditions {
			edited.Status.Conditions[i].Message = "A user was here"
		}
		s.must(s.Status().Patch(t.Context(), edited, client.MergeFrom(app)))
		within("messages that were changed", func(context.Context) bool {
			return !slices.ContainsFunc(s.app(app.Name).Status.Conditions, func(is metav1.Condition) bool {
				return is.Message == "A user was here"
			})
		})
	}
}

// After an outage an object must not wait for as long as the outage took.
func TestRetriesHaveALongestPause(t *testing.T) {
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
