// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
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

func TestChildren(t *testing.T) {
	s := newShop(t)
	app := s.create("web", 30201, new(int32(2)))
	s.reconcile("web")

	deployment, service := s.deployment("web"), s.service("web")
	for _, child := range []client.Object{deployment, service} {
		owner := metav1.GetControllerOf(child)
		if owner == nil || owner.UID != app.UID || owner.Kind != "WebApp" ||
			!strings.HasPrefix(owner.APIVersion, "apps.lva.io/") || len(child.GetOwnerReferences()) != 1 {
			t.Errorf("%T has the owners %+v, want the WebApp as controller", child, child.GetOwnerReferences())
		}
	}
	containers := deployment.Spec.Template.Spec.Containers
	if len(containers) != 1 || containers[0].Image != "shop:v1" || *deployment.Spec.Replicas != 2 {
		t.Errorf("%d Pods run %+v, want 2 with shop:v1", *deployment.Spec.Replicas, containers)
	}
	if service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].NodePort != 30201 ||
		s.leadsTo("web") != 8080 {
		t.Errorf("the Service is %+v, want NodePort 30201 that leads to port 8080", service.Spec)
	}
	if !maps.Equal(service.Spec.Selector, deployment.Spec.Selector.MatchLabels) || len(service.Spec.Selector) == 0 ||
		!labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(deployment.Spec.Template.Labels)) {
		t.Errorf("the Service selects %v, the Deployment %v, and the Pods have %v",
			service.Spec.Selector, deployment.Spec.Selector, deployment.Spec.Template.Labels)
	}

	before := s.versions("web")
	s.reconcile("web")
	if after := s.versions("web"); after != before {
		t.Errorf("nothing has changed, and it wrote: %v, before %v", after, before)
	}

	app = s.app("web")
	app.Spec = appsv1alpha1.WebAppSpec{Image: "shop:v2", NodePortNumber: 30202, Replicas: new(int32(0))}
	s.must(s.Update(t.Context(), app))
	s.reconcile("web")
	changed := s.deployment("web")
	if changed.Spec.Template.Spec.Containers[0].Image != "shop:v2" || *changed.Spec.Replicas != 0 {
		t.Errorf("after a change the Deployment is %+v", changed.Spec)
	}
	if ports := s.service("web").Spec.Ports; len(ports) != 1 || ports[0].NodePort != 30202 {
		t.Errorf("after a change the Service has the ports %+v", ports)
	}
	if !maps.Equal(changed.Spec.Selector.MatchLabels, deployment.Spec.Selector.MatchLabels) ||
		changed.UID != deployment.UID {
		t.Error("after a change it is another Deployment")
	}
}

// leadsTo is the port of the Pods to which the Service sends requests. A name is that of the first container that has it.
func (s *shop) leadsTo(name string) int32 {
	s.Helper()
	target := s.service(name).Spec.Ports[0].TargetPort
	for _, container := range s.deployment(name).Spec.Template.Spec.Containers {
		for _, port := range container.Ports {
			if target.StrVal != "" && port.Name == target.StrVal {
				return port.ContainerPort
			}
		}
	}
	return target.IntVal
}

func TestASidecarWithTheSamePortNameGetsNoRequests(t *testing.T) {
	s := newShop(t)
	s.create("web", 30203, nil)
	s.reconcile("web")
	deployment := s.deployment("web")
	pod := &deployment.Spec.Template.Spec
	name := "http"
	if ports := pod.Containers[0].Ports; len(ports) > 0 && ports[0].Name != "" {
		name = ports[0].Name
	}
	pod.Containers = append([]corev1.Container{{
		Name: "sidecar", Image: "sidecar:v1", Ports: []corev1.ContainerPort{{Name: name, ContainerPort: 9090}},
	}}, pod.Containers...)
	s.must(s.Update(t.Context(), deployment))
	s.reconcile("web")
	if got := s.leadsTo("web"); got != 8080 {
		t.Errorf("the Service sends requests to port %d, that of the sidecar, want 8080", got)
	}
}

func TestTheDefaultIsOneReplica(t *testing.T) {
	s := newShop(t)
	s.create("web", 30211, nil)
	s.reconcile("web")
	if got := s.deployment("web").Spec.Replicas; got == nil || *got != 1 {
		t.Errorf("it has %v replicas, want 1", got)
	}
}

func TestTwoWebAppsDoNotMeet(t *testing.T) {
	s := newShop(t)
	s.create("one", 30221, nil)
	s.create("two", 30222, nil)
	s.reconcile("one")
	s.reconcile("two")
	one, two := s.service("one").Spec.Selector, s.deployment("two").Spec.Template.Labels
	if labels.SelectorFromSet(one).Matches(labels.Set(two)) {
		t.Errorf("the Service of one, %v, selects Pods of two, %v", one, two)
	}
}

func TestDriftIsRepairedAndOthersFieldsStay(t *testing.T) {
	s := newShop(t)
	s.create("web", 30231, new(int32(2)))
	s.reconcile("web")

	deployment := s.deployment("web")
	deployment.Labels["team"] = "sales"
	deployment.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "today"}
	deployment.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "sidecar", Image: "sidecar:v1"}},
		deployment.Spec.Template.Spec.Containers...)
	s.must(s.Update(t.Context(), deployment))
	service := s.service("web")
	service.Annotations = map[string]string{"team": "sales"}
	s.must(s.Update(t.Context(), service))
	before := s.versions("web")
	s.reconcile("web")
	if after := s.versions("web"); after != before {
		t.Errorf("what others own was changed, and it wrote: %v, before %v", after, before)
	}

	deployment = s.deployment("web")
	deployment.Spec.Template.Spec.Containers[1].Image = "other:v1"
	deployment.Spec.Replicas = new(int32(7))
	s.must(s.Update(t.Context(), deployment))
	service = s.service("web")
	service.Spec.Type = corev1.ServiceTypeClusterIP
	service.Spec.Selector = map[string]string{"app": "other"}
	service.Spec.Ports[0].NodePort = 0
	s.must(s.Update(t.Context(), service))
	s.reconcile("web")
	deployment, service = s.deployment("web"), s.service("web")
	containers := deployment.Spec.Template.Spec.Containers
	if containers[1].Image != "shop:v1" || *deployment.Spec.Replicas != 2 {
		t.Errorf("the Deployment is still %+v", deployment.Spec)
	}
	if service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].NodePort != 30231 ||
		!maps.Equal(service.Spec.Selector, selectorLabels("web")) {
		t.Errorf("the Service is still %+v", service.Spec)
	}
	if len(containers) != 2 || deployment.Labels["team"] != "sales" ||
		service.Annotations["team"] != "sales" || len(deployment.Spec.Template.Annotations) != 1 {
		t.Error("it took away what others own")
	}

	s.must(s.Delete(t.Context(), deployment))
	s.must(s.Delete(t.Context(), service))
	s.reconcile("web")
	s.deployment("web")
	s.service("web")
}

func TestWhatBelongsToOthersIsNotTouched(t *testing.T) {
	for _, kind := range []string{"Service", "Deployment"} {
		t.Run(kind, func(t *testing.T) {
			s := newShop(t)
			var other client.Object = &corev1.Service{
				ObjectMeta: s.meta("web"),
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			}
			port := int32(30241)
			if kind == "Deployment" {
				theirs := map[string]string{"app": "other"}
				other = &appsv1.Deployment{ObjectMeta: s.meta("web"), Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: theirs},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: theirs},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "other:v1"}}},
					},
				}}
				port = 30242
			}
			s.must(s.Create(t.Context(), other))
			if kind == "Deployment" { // its Pods are none of the WebApp's
				running := other.DeepCopyObject().(*appsv1.Deployment)
				running.Status = appsv1.DeploymentStatus{
					ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
				}
				s.must(s.Status().Update(t.Context(), running))
				other = running
			}
			before := other.GetResourceVersion()
			app := s.create("web", port, nil)
			if result := s.reconcile("web"); result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
				t.Errorf("it looks again after %s", result.RequeueAfter)
			}
			if got := read(s, other); got.GetResourceVersion() != before || len(got.GetOwnerReferences()) > 0 {
				t.Errorf("the %s of another owner was changed: %+v", kind, got)
			}
			s.is("web", appsv1alpha1.Degraded, metav1.ConditionTrue, kind+" web")
			s.is("web", appsv1alpha1.Available, metav1.ConditionFalse, "")
			if got := s.app("web").Status.Replicas; got != 0 {
				t.Errorf("it counts %d Pods of others", got)
			}
			// The other child is there all the same.
			if kind == "Service" {
				s.deployment("web")
			} else {
				s.service("web")
			}

			s.must(s.Delete(t.Context(), other))
			s.reconcile("web")
			for _, child := range []client.Object{s.deployment("web"), s.service("web")} {
				if !metav1.IsControlledBy(child, app) {
					t.Errorf("%T does not belong to the WebApp", child)
				}
			}
			s.is("web", appsv1alpha1.Degraded, metav1.ConditionFalse, "")
		})
	}
}

// A child of an earlier WebApp of the same name is about to be collected: it has another owner.
func TestChildrenOfAnEarlierWebAppAreNotTaken(t *testing.T) {
	s := newShop(t)
	earlier := s.create("web", 30251, nil)
	s.reconcile("web")
	s.must(s.Delete(t.Context(), earlier))
	s.create("web", 30252, nil)
	before := s.service("web").ResourceVersion
	s.reconcile("web")
	if got := s.service("web"); got.ResourceVersion != before {
		t.Errorf("it changed the Service of the earlier one: %+v", got)
	}
	s.is("web", appsv1alpha1.Degraded, metav1.ConditionTrue, "web")
}

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
