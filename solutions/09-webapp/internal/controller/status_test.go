// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
)

func TestAPortThatIsTaken(t *testing.T) {
	s := newShop(t)
	s.create("first", 30261, nil)
	s.create("second", 30261, nil)
	s.reconcile("first")
	result := s.reconcile("second")
	s.is("second", appsv1alpha1.Degraded, metav1.ConditionTrue, "30261")
	if result.RequeueAfter <= 0 {
		t.Error("it does not look again")
	}
	s.deployment("second")
	s.must(s.Delete(t.Context(), s.service("first")))
	s.reconcile("second")
	s.is("second", appsv1alpha1.Degraded, metav1.ConditionFalse, "")
}

func TestTheStatusFollowsTheDeployment(t *testing.T) {
	s := newShop(t)
	s.create("web", 30271, new(int32(2)))
	s.reconcile("web")
	s.is("web", appsv1alpha1.Available, metav1.ConditionFalse, "")
	s.is("web", appsv1alpha1.Degraded, metav1.ConditionFalse, "")
	run := func(ready int32) {
		t.Helper()
		deployment := s.deployment("web")
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation,
			Replicas:           2,
			UpdatedReplicas:    2,
			ReadyReplicas:      ready,
			AvailableReplicas:  ready,
		}
		s.must(s.Status().Update(t.Context(), deployment))
		s.reconcile("web")
	}
	run(1)
	s.is("web", appsv1alpha1.Available, metav1.ConditionFalse, "")
	run(2)
	s.is("web", appsv1alpha1.Available, metav1.ConditionTrue, "30271")
	status := s.app("web").Status
	selector, err := labels.Parse(status.Selector)
	if err != nil || !selector.Matches(labels.Set(s.deployment("web").Spec.Template.Labels)) || selector.Empty() {
		t.Errorf("the selector is %q (%v), which does not select its Pods", status.Selector, err)
	}
	if status.Replicas != 2 {
		t.Errorf("it counts %d Pods, want 2", status.Replicas)
	}

	// As soon as the spec changes, the Pods that are ready are not the desired ones.
	app := s.app("web")
	app.Spec.Image = "shop:v2"
	s.must(s.Update(t.Context(), app))
	s.reconcile("web")
	s.is("web", appsv1alpha1.Available, metav1.ConditionFalse, "")
}

// While Pods are replaced, the old ones are ready, too. They are not the desired ones.
func TestPodsOfBeforeDoNotCount(t *testing.T) {
	s := newShop(t)
	s.create("web", 30272, new(int32(2)))
	s.reconcile("web")
	deployment := s.deployment("web")
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation,
		Replicas:           3,
		UpdatedReplicas:    2,
		ReadyReplicas:      2,
		AvailableReplicas:  2,
	}
	s.must(s.Status().Update(t.Context(), deployment))
	s.reconcile("web")
	s.is("web", appsv1alpha1.Available, metav1.ConditionFalse, "")
}

func TestNoPodsAreAskedFor(t *testing.T) {
	s := newShop(t)
	s.create("web", 30273, new(int32(0)))
	s.reconcile("web")
	run := func(replicas int32) {
		t.Helper()
		deployment := s.deployment("web")
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation, Replicas: replicas, UpdatedReplicas: replicas,
		}
		s.must(s.Status().Update(t.Context(), deployment))
		s.reconcile("web")
	}
	run(1)
	s.is("web", appsv1alpha1.Available, metav1.ConditionFalse, "")
	run(0)
	s.is("web", appsv1alpha1.Available, metav1.ConditionTrue, "no Pods")
	s.is("web", appsv1alpha1.Degraded, metav1.ConditionFalse, "")
	if got := meta.FindStatusCondition(s.app("web").Status.Conditions, appsv1alpha1.Available); got.Reason != "ScaledToZero" {
		t.Errorf("the reason is %s, want ScaledToZero", got.Reason)
	}
}

// A webhook that does not answer is an error of the API server (500), and no refusal. It may be over at the next try.
func TestAnErrorIsReportedAndReturned(t *testing.T) {
	s := newShop(t)
	s.create("web", 30274, nil)
	down := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:         "down.example.com",
			ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{
					APIGroups: []string{"", "apps"}, APIVersions: []string{"v1"}, Resources: []string{"services", "deployments"},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace},
			},
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	s.must(s.Create(t.Context(), down))
	t.Cleanup(func() { s.must(client.IgnoreNotFound(s.Delete(context.Background(), down))) })
	probe := func() error {
		service := &corev1.Service{
			ObjectMeta: s.meta("probe"),
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		return s.Create(t.Context(), service, client.DryRunAll)
	}
	s.until("the webhook is down", func() bool { return apierrors.IsInternalError(probe()) })

	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: "web"}}
	if _, err := s.reconciler.Reconcile(t.Context(), request); err == nil {
		t.Error("it returns no error, so no one calls it again")
	}
	s.is("web", appsv1alpha1.Available, metav1.ConditionFalse, "")
	for _, says := range []string{"Deployment", "Service", "down.example.com"} {
		s.is("web", appsv1alpha1.Degraded, metav1.ConditionTrue, says)
	}

	s.must(s.Delete(t.Context(), down))
	s.until("the webhook is gone", func() bool { return probe() == nil })
	s.reconcile("web")
	s.is("web", appsv1alpha1.Degraded, metav1.ConditionFalse, "")
}

// refusing answers each creation of a Deployment with an error, if it has one.
type refusing struct {
	client.Client
	answer error
}

func (r *refusing) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if _, ok := object.(*appsv1.Deployment); ok && r.answer != nil {
		return r.answer
	}
	return r.Client.Create(ctx, object, options...)
}

// The API server answers 409 if the cache is behind: the next call will see the current state. A webhook that answers
// 409 may do so each time.
func TestAConflictIsRetriedAndThatOfAWebhookReported(t *testing.T) {
	s := newShop(t)
	s.create("web", 30276, nil)
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	api := &refusing{Client: s.Client}
	s.reconciler.Client = api
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: "web"}}
	for _, answer := range []error{
		apierrors.NewConflict(deployments, "web", errors.New("the object has been modified")),
		apierrors.NewAlreadyExists(deployments, "web"),
	} {
		api.answer = answer
		if _, err := s.reconciler.Reconcile(t.Context(), request); err == nil {
			t.Errorf("after %v it returns no error, so no one calls it again", answer)
		}
		if got := s.app("web").Status.Conditions; len(got) > 0 {
			t.Errorf("after %v the status has %+v", answer, got)
		}
	}
	api.answer = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Message: `admission webhook "shop" denied the request`,
	}}
	if _, err := s.reconciler.Reconcile(t.Context(), request); err == nil {
		t.Error("it returns no error, so no one calls it again")
	}
	s.is("web", appsv1alpha1.Degraded, metav1.ConditionTrue, "denied the request")
	api.answer = nil
	s.reconcile("web")
	s.is("web", appsv1alpha1.Degraded, metav1.ConditionFalse, "")
}
