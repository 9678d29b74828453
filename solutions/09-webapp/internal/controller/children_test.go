// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
)

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
	service.Spec.Ports[0].Port, service.Spec.Ports[0].NodePort = 81, 0
	s.must(s.Update(t.Context(), service))
	s.reconcile("web")
	deployment, service = s.deployment("web"), s.service("web")
	containers := deployment.Spec.Template.Spec.Containers
	if containers[1].Image != "shop:v1" || *deployment.Spec.Replicas != 2 {
		t.Errorf("the Deployment is still %+v", deployment.Spec)
	}
	if service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].NodePort != 30231 ||
		service.Spec.Ports[0].Port != 80 || !maps.Equal(service.Spec.Selector, selectorLabels("web")) {
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
