// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// deployment returns the only Deployment of a WebApp, and service its only Service. wrong describes what exists
// instead.
func (t *town) deployment(a *app) (found appsv1.Deployment, wrong string) {
	return workload.OnlyChild[appsv1.Deployment](t.Owners, workload.Deployments, "Deployment", a.object)
}

func (t *town) service(a *app) (found corev1.Service, wrong string) {
	return workload.OnlyChild[corev1.Service](t.Owners, workload.Services, "Service", a.object)
}

// wrong returns what is wrong with the children of a WebApp. Empty: they match its spec.
func (t *town) wrong(a *app) string {
	deployment, wrong := t.deployment(a)
	if wrong != "" {
		return wrong
	}
	if wrong := wrongDeployment(a, &deployment); wrong != "" {
		return wrong
	}
	service, wrong := t.service(a)
	if wrong != "" {
		return wrong
	}
	return wrongService(a, &service, &deployment)
}

func wrongDeployment(a *app, d *appsv1.Deployment) string {
	containers := d.Spec.Template.Spec.Containers
	has := func(image string) bool {
		return slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Image == image })
	}
	switch {
	case d.Name != a.Name:
		return fmt.Sprintf("its Deployment is called %s", d.Name)
	case d.Spec.Replicas == nil || *d.Spec.Replicas != a.replicas:
		return fmt.Sprintf("the Deployment %s has replicas: %d", d.Name, deref(d.Spec.Replicas))
	case !has(a.image):
		return fmt.Sprintf("the Deployment %s has the image %s", d.Name, containers[0].Image)
	}
	for _, image := range a.before {
		if image != a.image && has(image) {
			return fmt.Sprintf("the Deployment %s has the image of before as well: %s", d.Name, image)
		}
	}
	return ""
}

// wrongService returns what is wrong with the Service of a WebApp. Empty: nothing. d is nil if the Deployment is not
// the operator's.
func wrongService(a *app, s *corev1.Service, d *appsv1.Deployment) string {
	if s.Name != a.Name {
		return fmt.Sprintf("its Service is called %s", s.Name)
	}
	if d == nil {
		return workload.WrongService(s, a.port, nil)
	}
	if wrong := workload.WrongService(s, a.port, &d.Spec.Template); wrong != "" {
		return wrong
	}
	if target := targetPort(s.Spec.Ports[0], d.Spec.Template.Spec.Containers); target != serverPort {
		return fmt.Sprintf("the Service %s has the targetPort %s, and that is port %d of the Pods",
			s.Name, s.Spec.Ports[0].TargetPort.String(), target)
	}
	return ""
}

// targetPort returns the port of a Pod to which a Service forwards a port. 0: to none. A name stands for the port of
// the first container that has a port of this name, whichever container that is.
func targetPort(port corev1.ServicePort, containers []corev1.Container) int32 {
	if port.TargetPort.Type == intstr.Int {
		if port.TargetPort.IntVal == 0 {
			return port.Port
		}
		return port.TargetPort.IntVal
	}
	for _, container := range containers {
		for _, named := range container.Ports {
			if named.Name == port.TargetPort.StrVal {
				return named.ContainerPort
			}
		}
	}
	return 0
}

func deref(n *int32) int32 {
	if n == nil {
		return -1
	}
	return *n
}

func (a *app) String() string {
	return fmt.Sprintf("%s has a Deployment with replicas: %d and the image %s, "+
		"and a Service of type NodePort at %d that leads to port %d of its Pods, both called as it is",
		a.Name, a.replicas, a.image, a.port, serverPort)
}

// asSpecified waits until the children of WebApps match their specs.
func (v visit) asSpecified(apps ...*app) {
	v.t.Helper()
	v.asSpecifiedWithin(0, apps...)
}

// asSpecifiedWithin is asSpecified for an operator that may be silent for longer. 0: for no longer than usual.
func (v visit) asSpecifiedWithin(patience time.Duration, apps ...*app) {
	v.t.Helper()
	var phrases []string
	for _, a := range apps {
		phrases = append(phrases, a.String())
	}
	v.eventually(patience, strings.Join(phrases, "; "), func() string {
		for _, a := range apps {
			if wrong := v.town.wrong(a); wrong != "" {
				return wrong
			}
		}
		return ""
	})
}

// eventually waits until nothing is wrong.
func (v visit) eventually(patience time.Duration, expected string, wrong func() string) {
	v.t.Helper()
	look := func() (string, bool) {
		is := wrong()
		return is, is == ""
	}
	if patience == 0 {
		v.Eventually(v.ctx, v.t, expected, v.town.Changed, look)
		return
	}
	v.EventuallyWithin(v.ctx, v.t, expected, patience, v.town.Changed, look)
}

func children() frameworktypes.Feature {
	return features.New("a WebApp has a Deployment and a Service").
		Assess("of what its spec says", check.Assess(assess(func(v visit) {
			a := v.town.draw(plans)
			a.replicas = int32(2 + v.town.random.IntN(4)) //nolint:gosec // it is below 6
			v.create(a)
			v.asSpecified(a)
			v.Settle(v.ctx, v.t)
			if wrong := v.town.wrong(a); wrong != "" {
				v.Fail(v.t, "the children of "+a.Name+" stay as they are", wrong)
			}
		}))).Feature()
}

// owner checks everything that determines whether the garbage collector deletes a child. The garbage collector itself
// discovers a new kind within 30 s, which is too long to wait here.
func owner() frameworktypes.Feature {
	return features.New("a WebApp is the controller of its children").
		Assess("by their owner references", check.Assess(assess(func(v visit) {
			a := v.planned()
			v.Settle(v.ctx, v.t) // an operator may write the owner references after the rest
			deployment, _ := v.town.deployment(a)
			service, _ := v.town.service(a)
			for _, child := range []struct {
				what string
				metav1.Object
			}{{"Deployment", &deployment}, {"Service", &service}} {
				expected := fmt.Sprintf("the %s %s has %s as its controller and as its only owner (metadata.ownerReferences), "+
					"so that it is deleted with it", child.what, child.GetName(), a.Name)
				references := child.GetOwnerReferences()
				switch {
				case len(references) != 1:
					v.Fail(v.t, expected, "it has "+workload.Counted(len(references), "owner"))
				case references[0].UID != a.object.GetUID():
					v.Fail(v.t, expected, "its owner has another UID than "+a.Name)
				case references[0].APIVersion != kind.GroupVersion().String() ||
					references[0].Kind != kind.Kind || references[0].Name != a.Name:
					v.Fail(v.t, expected, fmt.Sprintf("its owner has the right UID, and is called %s %s of %s",
						references[0].Kind, references[0].Name, references[0].APIVersion))
				case references[0].Controller == nil || !*references[0].Controller:
					v.Fail(v.t, expected, a.Name+" is an owner of it, and not its controller")
				case len(child.GetFinalizers()) > 0:
					v.Fail(v.t, expected, "it has a finalizer, which would keep it: "+strings.Join(child.GetFinalizers(), ", "))
				}
			}
			// With a finalizer of another controller, a deleted WebApp stays for a while, and its children may be deleted before
			// it.
			v.OK(v.t, "adding a finalizer", v.finalizers(a, `["`+keepIt+`"]`))
			defer func() { _ = v.finalizers(a, "null") }()
			v.OK(v.t, "deleting a WebApp", v.town.Delete(v.ctx, a.NamespacedName))
			v.eventually(0, a.Name+" is being deleted", func() string {
				if object, exists := v.town.Get(a.NamespacedName); exists && object.GetDeletionTimestamp() == nil {
					return "it is not"
				}
				return ""
			})
			v.staysGone(a)
			v.OK(v.t, "removing the finalizer", v.finalizers(a, "null"))
			v.staysGone(a)
		}))).Feature()
}

// finalizers sets the finalizers of a WebApp to a JSON list.
func (v visit) finalizers(a *app, list string) error {
	_, err := v.town.Patch(v.ctx, a.NamespacedName, `{"metadata":{"finalizers":`+list+`}}`)
	return workload.IgnoreGone(err)
}

// staysGone removes the children of a deleted WebApp, as the garbage collector does, and fails if the operator keeps
// creating some. If it creates a child once because its cache was stale, that is no mistake: the garbage collector
// finds the child, too.
func (v visit) staysGone(a *app) {
	v.t.Helper()
	const most = 2
	v.OK(v.t, "removing the children of "+a.Name, v.town.Collect(v.ctx, a.object))
	for n := 0; ; n++ {
		v.Settle(v.ctx, v.t)
		deployments := len(workload.Children[appsv1.Deployment](v.town.Owners, workload.Deployments, a.object))
		services := len(workload.Children[corev1.Service](v.town.Owners, workload.Services, a.object))
		if deployments+services == 0 {
			return
		}
		if n == most {
			v.Fail(v.t, fmt.Sprintf("nothing is made for %s, which was deleted", a.Name),
				fmt.Sprintf("there is %s, and there is %s",
					workload.Counted(deployments, "Deployment"), workload.Counted(services, "Service")))
		}
		v.OK(v.t, "removing the children of "+a.Name, v.town.Collect(v.ctx, a.object))
	}
}

func defaultReplicas() frameworktypes.Feature {
	return features.New("a WebApp has one Pod unless it says otherwise").
		Assess("which its scale tells as well", check.Assess(assess(func(v visit) {
			a := v.town.draw(plans)
			a.silent = true
			v.create(a)
			v.asSpecified(a)
			if _, exists, _ := unstructured.NestedInt64(a.object.Object, "spec", "replicas"); !exists {
				v.Fail(v.t,
					fmt.Sprintf("%s, which says nothing about replicas, is stored with the default, spec.replicas: 1", a.Name),
					"spec.replicas is not there, so that it has no scale: `kubectl scale` and an autoscaler get an error")
			}
			if is := v.scaleOf(a); is.Spec.Replicas != 1 {
				v.Fail(v.t, fmt.Sprintf("the scale of %s, which says nothing about replicas, has spec.replicas: 1", a.Name),
					fmt.Sprintf("it has spec.replicas: %d", is.Spec.Replicas))
			}
		}))).Feature()
}

func replicasZero() frameworktypes.Feature {
	return features.New("0 replicas are none").
		Assess("at the beginning and later", check.Assess(assess(func(v visit) {
			a, b := v.town.draw(plans), v.planned()
			a.replicas = 0
			v.create(a)
			v.setReplicas(b, 0)
			v.asSpecified(a, b)
			v.setReplicas(a, 2)
			v.asSpecified(a)
		}))).Feature()
}

func changes() frameworktypes.Feature {
	return features.New("children follow the spec").
		Assess("and stay the same objects", check.Assess(assess(func(v visit) {
			a := v.planned()
			deployment, _ := v.town.deployment(a)
			service, _ := v.town.service(a)
			edits := []func(){
				func() { v.setImage(a, v.town.drawImage()) },
				func() { v.setPort(a, v.town.ports.Draw()) },
				func() { v.setReplicas(a, a.replicas+2) },
			}
			for _, i := range v.town.random.Perm(len(edits)) {
				edits[i]()
				v.asSpecified(a)
			}
			a.before, a.image, a.port, a.replicas = append(a.before, a.image), v.town.drawImage(), v.town.ports.Draw(), 1
			v.set(a)
			v.asSpecified(a)
			deploymentNow, _ := v.town.deployment(a)
			serviceNow, _ := v.town.service(a)
			const expected = "image, port and replicas change, and Deployment and Service stay the same objects, " +
				"with the same selectors"
			switch {
			case deploymentNow.UID != deployment.UID:
				v.Fail(v.t, expected, "the Deployment was deleted and made again: all its Pods ended at once")
			case serviceNow.UID != service.UID:
				v.Fail(v.t, expected, "the Service was deleted and made again: no client was served meanwhile")
			case !reflect.DeepEqual(serviceNow.Spec.Selector, service.Spec.Selector):
				v.Fail(v.t, expected, fmt.Sprintf("the selector of the Service was changed from %s to %s",
					labels.Set(service.Spec.Selector), labels.Set(serviceNow.Spec.Selector)))
			}
		}))).Feature()
}
