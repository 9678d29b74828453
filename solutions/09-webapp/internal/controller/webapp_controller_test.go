// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
)

// shop is a namespace of one test, and calls Reconcile there.
type shop struct {
	*testing.T
	client.Client
	namespace  string
	reconciler *WebAppReconciler
}

func newShop(t *testing.T) *shop {
	t.Helper()
	api := apiServer(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	if err := api.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return &shop{t, api, namespace.Name, &WebAppReconciler{Client: api, Scheme: api.Scheme()}}
}

func (s *shop) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.namespace}
}

func (s *shop) create(name string, port int32, replicas *int32) *appsv1alpha1.WebApp {
	s.Helper()
	app := &appsv1alpha1.WebApp{
		ObjectMeta: s.meta(name),
		Spec:       appsv1alpha1.WebAppSpec{Image: "shop:v1", NodePortNumber: port, Replicas: replicas},
	}
	s.must(s.Create(s.Context(), app))
	return app
}

func (s *shop) reconcile(name string) ctrl.Result {
	s.Helper()
	result, err := s.reconciler.Reconcile(s.Context(),
		ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: name}})
	s.must(err)
	return result
}

// read reads an object again.
func read[T client.Object](s *shop, object T) T {
	s.Helper()
	s.must(s.Get(s.Context(), client.ObjectKeyFromObject(object), object))
	return object
}

func (s *shop) app(name string) *appsv1alpha1.WebApp {
	s.Helper()
	return read(s, &appsv1alpha1.WebApp{ObjectMeta: s.meta(name)})
}

func (s *shop) deployment(name string) *appsv1.Deployment {
	s.Helper()
	return read(s, &appsv1.Deployment{ObjectMeta: s.meta(name)})
}

func (s *shop) service(name string) *corev1.Service {
	s.Helper()
	return read(s, &corev1.Service{ObjectMeta: s.meta(name)})
}

// versions are the resource versions of a WebApp and of its children: each write changes one.
func (s *shop) versions(name string) [3]string {
	s.Helper()
	return [3]string{s.app(name).ResourceVersion, s.deployment(name).ResourceVersion, s.service(name).ResourceVersion}
}

// until waits for a state that no watch of the test reports.
func (s *shop) until(what string, done func() bool) {
	s.Helper()
	condition := func(context.Context) (bool, error) { return done(), nil }
	err := wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, 10*time.Second, true, condition)
	if err != nil {
		s.Errorf("%s: %v", what, err)
	}
}

func (s *shop) is(name, condition string, status metav1.ConditionStatus, says string) {
	s.Helper()
	app := s.app(name)
	got := meta.FindStatusCondition(app.Status.Conditions, condition)
	if got == nil || got.Status != status || !strings.Contains(got.Message, says) ||
		got.ObservedGeneration != app.Generation {
		s.Errorf("%s of %s is %+v, want %s for generation %d, with %q", condition, name, got, status, app.Generation, says)
	}
}

// The operator answers the API server when that converts WebApps. If it had to be asked itself before it can read them,
// a certificate that has expired, or a start in the wrong order, would be a deadlock.
func TestTheOperatorNeedsNoConversion(t *testing.T) {
	s := newShop(t)
	s.create("web", 30275, nil)
	var crd apiextensionsv1.CustomResourceDefinition
	s.must(s.Get(t.Context(), client.ObjectKey{Name: "webapps.apps.lva.io"}, &crd))
	broken := crd.DeepCopy()
	broken.Spec.Conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}
	converts := func(ctx context.Context) bool {
		return s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "web"}, &appsv1alpha1.WebApp{}) == nil
	}
	s.must(s.Patch(t.Context(), broken, client.MergeFrom(&crd)))
	t.Cleanup(func() {
		works := broken.DeepCopy()
		works.Spec.Conversion = crd.Spec.Conversion
		s.must(s.Patch(context.Background(), works, client.MergeFrom(broken)))
		s.until("the conversion works again", func() bool { return converts(context.Background()) })
	})
	// With one version (v1beta1 may not be installed yet) there is nothing to convert, and it always works.
	s.until("the conversion is broken", func() bool { return len(crd.Spec.Versions) == 1 || !converts(t.Context()) })

	s.reconcile("web")
	s.deployment("web")
	s.service("web")
}

func TestScale(t *testing.T) {
	s := newShop(t)
	app := s.create("web", 30281, nil)
	s.reconcile("web")
	var scale autoscalingv1.Scale
	s.must(s.SubResource("scale").Get(t.Context(), app, &scale))
	if scale.Spec.Replicas != 1 || scale.Status.Selector == "" {
		t.Errorf("the scale is %+v", scale)
	}
	scale.Spec.Replicas = 3
	s.must(s.SubResource("scale").Update(t.Context(), app, client.WithSubResourceBody(&scale)))
	s.reconcile("web")
	if got := *s.deployment("web").Spec.Replicas; got != 3 {
		t.Errorf("scaled to 3, the Deployment has %d", got)
	}
}

func TestWhatGoesOrIsGone(t *testing.T) {
	s := newShop(t)
	s.reconcile("never-there")
	app := s.create("web", 30291, nil)
	app.Finalizers = []string{"example.com/hold"}
	s.must(s.Update(t.Context(), app))
	s.must(s.Delete(t.Context(), app))
	s.reconcile("web")
	for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(app), child); !apierrors.IsNotFound(err) {
			t.Errorf("a WebApp that is going got a %T (%v)", child, err)
		}
	}
}
