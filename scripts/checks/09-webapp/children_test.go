// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/faults"
)

// served needs no operator: it is about the CRD.
func served() frameworktypes.Feature {
	return features.New("the API server serves WebApps").
		Assess("with the fields of the task", check.Assess(assess(func(v visit) {
			const expected = "the API server serves apps.lva.io/v1alpha1, kind WebApp, plural webapps, namespaced, with the subresources status and scale"
			var names []string
			for _, r := range v.town.resources {
				names = append(names, r.Name)
			}
			i := slices.IndexFunc(v.town.resources, func(r metav1.APIResource) bool { return r.Name == webapps.Resource })
			switch {
			case len(names) == 0:
				v.Fail(v.t, expected, "it serves nothing of apps.lva.io/v1alpha1: no CRD of the submission says so")
			case i < 0:
				v.Fail(v.t, expected, "of apps.lva.io/v1alpha1 it serves "+strings.Join(names, ", "))
			case v.town.resources[i].Kind != kind.Kind || !v.town.resources[i].Namespaced:
				v.Fail(v.t, expected, fmt.Sprintf("the kind is %s, and namespaced: %t", v.town.resources[i].Kind, v.town.resources[i].Namespaced))
			}
			for _, subresource := range []string{"/status", "/scale"} {
				if !v.town.serves(webapps.Resource + subresource) {
					v.Fail(v.t, expected, "it serves "+strings.Join(names, ", "))
				}
			}
			v.validates(webapps)
		}))).Feature()
}

// validates sends WebApps of a version that are never stored: what is asked for is a dry run.
func (v visit) validates(version schema.GroupVersionResource) {
	v.t.Helper()
	port := portField(version)
	edits := []struct {
		what string
		ok   bool
		edit func(spec map[string]any)
	}{
		{"one with an image, a port and replicas", true, func(map[string]any) {}},
		{"one without replicas", true, func(spec map[string]any) { delete(spec, "replicas") }},
		{"one with 0 replicas", true, func(spec map[string]any) { spec["replicas"] = int64(0) }},
		{"one with a port that is out of the range of node ports, which is the cluster's and not the CRD's", true, func(spec map[string]any) { spec[port] = int64(80) }},
		{"one without an image", false, func(spec map[string]any) { delete(spec, "image") }},
		{"one with an empty image", false, func(spec map[string]any) { spec["image"] = "" }},
		{"one without a port", false, func(spec map[string]any) { delete(spec, port) }},
		{"one with port 0", false, func(spec map[string]any) { spec[port] = int64(0) }},
		{"one with port 65536", false, func(spec map[string]any) { spec[port] = int64(65536) }},
		{"one whose port is a text", false, func(spec map[string]any) { spec[port] = "30080" }},
		{"one with -1 replicas", false, func(spec map[string]any) { spec["replicas"] = int64(-1) }},
	}
	for _, e := range edits {
		object := v.town.draw(plans).in(version)
		spec := object.Object["spec"].(map[string]any)
		e.edit(spec)
		made, err := v.town.Dynamic.Resource(version).Namespace(plans).Create(v.ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			v.OK(v.t, "asking for a dry run", err)
		}
		switch {
		case e.ok && err != nil:
			v.Fail(v.t, "the API server accepts a WebApp of "+version.Version+" as the task has it: "+e.what, "it refuses it: "+err.Error())
		case !e.ok && err == nil:
			v.Fail(v.t, "the API server refuses a WebApp of "+version.Version+" that can't be meant: "+e.what, fmt.Sprintf("it accepts spec %v", spec))
		case e.ok && version == newer && spec["replicas"] == nil:
			if is, _, _ := unstructured.NestedInt64(made.Object, "spec", "replicas"); is != 1 {
				v.Fail(v.t, "a WebApp of "+version.Version+" without replicas has the default, spec.replicas: 1", fmt.Sprintf("it has spec %v", made.Object["spec"]))
			}
		}
	}
}

// deployment is the only Deployment of a WebApp, and service its only Service. wrong says what is there instead.
func (t *town) deployment(a *app) (found appsv1.Deployment, wrong string) {
	return workload.OnlyChild[appsv1.Deployment](t.Owners, workload.Deployments, "Deployment", a.object)
}

func (t *town) service(a *app) (found corev1.Service, wrong string) {
	return workload.OnlyChild[corev1.Service](t.Owners, workload.Services, "Service", a.object)
}

// wrong says what is wrong with the children of a WebApp; empty: they are as its spec says.
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

// d is nil if the Deployment is somebody else's.
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
	if leads := leadsTo(s.Spec.Ports[0], a.image, d.Spec.Template.Spec.Containers); leads != serverPort {
		return fmt.Sprintf("the Service %s has the targetPort %s, and that is port %d of the container", s.Name, s.Spec.Ports[0].TargetPort.String(), leads)
	}
	return ""
}

// leadsTo is the port of a container to which a Service's port leads; 0: to none.
func leadsTo(port corev1.ServicePort, image string, containers []corev1.Container) int32 {
	if port.TargetPort.Type == intstr.Int {
		if port.TargetPort.IntVal == 0 {
			return port.Port
		}
		return port.TargetPort.IntVal
	}
	for _, container := range containers {
		for _, named := range container.Ports {
			if named.Name == port.TargetPort.StrVal && container.Image == image {
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
	return fmt.Sprintf("%s has a Deployment with replicas: %d and the image %s, and a Service of type NodePort at %d that leads to port %d of its Pods, both called as it is",
		a.Name, a.replicas, a.image, a.port, serverPort)
}

// asSpecified waits until the children of WebApps are as their specs say.
func (v visit) asSpecified(apps ...*app) {
	v.t.Helper()
	v.asSpecifiedWithin(0, apps...)
}

// asSpecifiedWithin is asSpecified for an operator that may be silent for longer; 0: for no longer than usual.
func (v visit) asSpecifiedWithin(patience time.Duration, apps ...*app) {
	v.t.Helper()
	var wants []string
	for _, a := range apps {
		wants = append(wants, a.String())
	}
	v.eventually(patience, strings.Join(wants, "; "), func() string {
		for _, a := range apps {
			if wrong := v.town.wrong(a); wrong != "" {
				return wrong
			}
		}
		return ""
	})
}

// eventually waits until nothing is wrong any more.
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

// owner asks for all that the garbage collector goes by. The collector itself hears of a new kind within 30 s, and so long nobody waits here.
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
				expected := fmt.Sprintf("the %s %s has %s as its controller and as its only owner (metadata.ownerReferences), so that it goes with it", child.what, child.GetName(), a.Name)
				references := child.GetOwnerReferences()
				switch {
				case len(references) != 1:
					v.Fail(v.t, expected, "it has "+workload.Counted(len(references), "owner"))
				case references[0].UID != a.object.GetUID():
					v.Fail(v.t, expected, "its owner has another UID than "+a.Name)
				case references[0].APIVersion != kind.GroupVersion().String() || references[0].Kind != kind.Kind || references[0].Name != a.Name:
					v.Fail(v.t, expected, fmt.Sprintf("its owner has the right UID, and is called %s %s of %s", references[0].Kind, references[0].Name, references[0].APIVersion))
				case references[0].Controller == nil || !*references[0].Controller:
					v.Fail(v.t, expected, a.Name+" is an owner of it, and not its controller")
				case len(child.GetFinalizers()) > 0:
					v.Fail(v.t, expected, "it has a finalizer, which would keep it: "+strings.Join(child.GetFinalizers(), ", "))
				}
			}
			// With a finalizer of somebody else it is there for a while after it was deleted, and its children may go before it.
			v.OK(v.t, "adding a finalizer", v.finalizers(a, `["`+keepIt+`"]`))
			defer func() { _ = v.finalizers(a, "null") }()
			v.OK(v.t, "deleting a WebApp", v.town.Delete(v.ctx, a.NamespacedName))
			v.eventually(0, a.Name+" is being deleted", func() string {
				if object, there := v.town.Get(a.NamespacedName); there && object.GetDeletionTimestamp() == nil {
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

// staysGone removes the children of a WebApp that was deleted, as the garbage collector does, and fails if the operator goes on making some. That it has made one when its cache was behind is
// nobody's fault: the garbage collector finds that, too.
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
				fmt.Sprintf("there is %s, and there is %s", workload.Counted(deployments, "Deployment"), workload.Counted(services, "Service")))
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
			if _, there, _ := unstructured.NestedInt64(a.object.Object, "spec", "replicas"); !there {
				v.Fail(v.t, fmt.Sprintf("%s, which says nothing about replicas, is stored with the default, spec.replicas: 1", a.Name),
					"spec.replicas is not there, so that it has no scale: `kubectl scale` and an autoscaler get an error")
			}
			if is := v.scaleOf(a); is.Spec.Replicas != 1 {
				v.Fail(v.t, fmt.Sprintf("the scale of %s, which says nothing about replicas, has spec.replicas: 1", a.Name), fmt.Sprintf("it has spec.replicas: %d", is.Spec.Replicas))
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
			const expected = "image, port and replicas change, and Deployment and Service stay the same objects, with the same selectors"
			switch {
			case deploymentNow.UID != deployment.UID:
				v.Fail(v.t, expected, "the Deployment was deleted and made again: all its Pods ended at once")
			case serviceNow.UID != service.UID:
				v.Fail(v.t, expected, "the Service was deleted and made again: nobody was served meanwhile")
			case !reflect.DeepEqual(serviceNow.Spec.Selector, service.Spec.Selector):
				v.Fail(v.t, expected, fmt.Sprintf("the selector of the Service was changed from %s to %s", labels.Set(service.Spec.Selector), labels.Set(serviceNow.Spec.Selector)))
			}
		}))).Feature()
}

// secondTry is how long an operator may take if its first create is refused: Kubernetes frees the node port of a Service that was deleted a
// moment later, and what is refused is not tried again at once.
const secondTry = 10 * time.Second

func deletedChild() frameworktypes.Feature {
	return features.New("a child that is deleted is made again").
		Assess("each alone, and both at once", check.Assess(assess(func(v visit) {
			a, b, c := v.planned(), v.planned(), v.planned()
			deployments, services := map[*app]types.UID{}, map[*app]types.UID{}
			for _, one := range []*app{a, c} {
				deployment, _ := v.town.deployment(one)
				deployments[one] = deployment.UID
			}
			for _, one := range []*app{b, c} {
				service, _ := v.town.service(one)
				services[one] = service.UID
			}
			v.Idle(v.ctx, v.t) // what comes now is an answer to the deletions
			for one := range deployments {
				v.OK(v.t, "deleting a Deployment", v.town.Client.AppsV1().Deployments(plans).Delete(v.ctx, one.Name, metav1.DeleteOptions{}))
			}
			for one := range services {
				v.OK(v.t, "deleting a Service", v.town.Client.CoreV1().Services(plans).Delete(v.ctx, one.Name, metav1.DeleteOptions{}))
			}
			v.eventually(secondTry, fmt.Sprintf("the Deployment of %s, the Service of %s, and both of %s, deleted by hand, are made again", a.Name, b.Name, c.Name), func() string {
				for _, one := range []*app{a, b, c} {
					if wrong := v.town.wrong(one); wrong != "" {
						return wrong
					}
					deployment, _ := v.town.deployment(one)
					service, _ := v.town.service(one)
					if deployment.UID == deployments[one] || service.UID == services[one] {
						return "the watch has not told of the deletion"
					}
				}
				return ""
			})
		}))).Feature()
}

func (v visit) editDeployment(a *app, change func(*appsv1.Deployment)) *appsv1.Deployment {
	v.t.Helper()
	edited, err := workload.Edit(v.ctx, v.town.Client.AppsV1().Deployments(a.Namespace), a.Name, change)
	v.OK(v.t, "editing a child of "+a.Name, err)
	return edited
}

func (v visit) editService(a *app, change func(*corev1.Service)) *corev1.Service {
	v.t.Helper()
	edited, err := workload.Edit(v.ctx, v.town.Client.CoreV1().Services(a.Namespace), a.Name, change)
	v.OK(v.t, "editing a child of "+a.Name, err)
	return edited
}

// ours is the index of the container of the WebApp.
func ours(d *appsv1.Deployment, image string) int {
	return max(0, slices.IndexFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Image == image }))
}

// serviceEdits are hand edits of all that the spec of a WebApp says of a Service. The number and the protocol of a port are not among the edits, here
// and in the Deployment: for an operator that applies they are the key of the port, and an edit of the key adds another port with the same name.
var serviceEdits = append(slices.Clone(workload.ServiceEdits),
	workload.ServiceEdit{What: "the type was changed to LoadBalancer", Change: func(s *corev1.ServiceSpec, _ int32) { s.Type = corev1.ServiceTypeLoadBalancer }},
	workload.ServiceEdit{What: "the label app=nobody was added to the selector", Change: func(s *corev1.ServiceSpec, _ int32) { s.Selector["app"] = "nobody" }},
	workload.ServiceEdit{What: "a label of the selector was removed", Change: func(s *corev1.ServiceSpec, _ int32) {
		delete(s.Selector, slices.Sorted(maps.Keys(s.Selector))[0])
	}},
)

// handEdit is an edit of a child by hand. undone says what is left of it; empty: nothing.
type handEdit struct {
	what   string
	undone func() string
}

// drift edits one child of each of some WebApps: no other event then calls Reconcile for that WebApp.
func drift() frameworktypes.Feature {
	return features.New("a hand edit is undone").
		Assess("of whatever the spec says", check.Assess(assess(func(v visit) {
			foreign := v.town.drawImage()
			deployments := []struct {
				what   string
				change func(*appsv1.Deployment, *corev1.Container)
			}{
				{"the image was changed", func(_ *appsv1.Deployment, c *corev1.Container) { c.Image = foreign }},
				{"replicas were changed", func(d *appsv1.Deployment, _ *corev1.Container) { *d.Spec.Replicas += 3 }},
				{"replicas were changed to 0", func(d *appsv1.Deployment, _ *corev1.Container) { d.Spec.Replicas = new(int32(0)) }},
				{"the port of the container was renamed", func(_ *appsv1.Deployment, c *corev1.Container) {
					for i := range c.Ports {
						c.Ports[i].Name = fmt.Sprintf("edited-%d", i)
					}
				}},
			}
			var apps []*app
			for range len(deployments) + len(serviceEdits) {
				apps = append(apps, v.create(v.town.draw(plans)))
			}
			v.asSpecified(apps...)
			v.Idle(v.ctx, v.t)
			var edits []handEdit
			for i, edit := range deployments {
				a := apps[i]
				a.before = append(a.before, foreign)
				template := v.editDeployment(a, func(d *appsv1.Deployment) { edit.change(d, &d.Spec.Template.Spec.Containers[ours(d, a.image)]) })
				edits = append(edits, handEdit{fmt.Sprintf("%s in the Deployment of %s", edit.what, a.Name), func() string { return v.town.deploymentEdited(a, template) }})
			}
			for i, edit := range serviceEdits {
				a := apps[len(deployments)+i]
				before, _ := v.town.service(a)
				edited := v.editService(a, func(s *corev1.Service) { edit.Change(&s.Spec, v.town.ports.Draw()) })
				edits = append(edits, handEdit{fmt.Sprintf("%s in the Service of %s", edit.What, a.Name), func() string { return v.town.serviceEdited(a, edited, before.Spec.Selector) }})
			}
			var told []string
			for _, edit := range edits {
				told = append(told, edit.what)
			}
			v.eventually(0, strings.Join(told, ", ")+", all by hand, and the operator puts it back", func() string {
				for _, edit := range edits {
					if left := edit.undone(); left != "" {
						return edit.what + ", and " + left
					}
				}
				return ""
			})
		}))).
		Assess("also when that fails at first", check.Assess(assess(refusedRepairs))).
		Assess("and one of the status", check.Assess(assess(statusEdits))).Feature()
}

// told is what the status of a WebApp tells, without words and times.
func told(object *unstructured.Unstructured) string {
	var tells []string
	for _, of := range []string{availableType, degradedType} {
		if is, there := workload.ConditionOf(object, of); there {
			tells = append(tells, fmt.Sprintf("%s: %s", of, is.Status))
		}
	}
	replicas, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	selector, _, _ := unstructured.NestedString(object.Object, "status", "selector")
	return strings.Join(append(tells, fmt.Sprintf("replicas: %d", replicas), fmt.Sprintf("selector: %q", selector)), ", ")
}

// statusEdits lets another client write the status of WebApps: the conditions, the numbers, or nothing at all. Whether the status was right before
// is for other checks.
func statusEdits(v visit) {
	apps := []*app{v.planned(), v.planned(), v.planned()}
	for _, a := range apps {
		v.forbidden(a)
	}
	v.Idle(v.ctx, v.t)
	read := func(a *app) *unstructured.Unstructured {
		object, err := v.town.Dynamic.Resource(webapps).Namespace(a.Namespace).Get(v.ctx, a.Name, metav1.GetOptions{})
		v.OK(v.t, "reading "+a.Name, err)
		return object
	}
	var conditions []string
	for _, of := range []string{availableType, degradedType} {
		if is, there := workload.ConditionOf(read(apps[0]), of); there {
			other := map[string]string{"True": "False"}[is.Status]
			if other == "" {
				other = "True"
			}
			conditions = append(conditions, fmt.Sprintf(
				`{"type":%q,"status":%q,"observedGeneration":%d,"lastTransitionTime":%q,"reason":"Edited","message":"another client has written this"}`,
				of, other, is.ObservedGeneration, time.Now().UTC().Format(time.RFC3339)))
		}
	}
	if len(conditions) == 0 {
		return // then there is no status that the operator could put back
	}
	patches := []string{
		fmt.Sprintf(`{"status":{"conditions":[%s]}}`, strings.Join(conditions, ",")),
		`{"status":{"replicas":7,"selector":"app=nobody"}}`,
		`{"status":null}`,
	}
	before, edited := map[*app]string{}, map[*app]*unstructured.Unstructured{}
	for i, a := range apps {
		before[a] = told(read(a))
		object, err := v.town.Dynamic.Resource(webapps).Namespace(a.Namespace).Patch(v.ctx, a.Name, types.MergePatchType, []byte(patches[i]), metav1.PatchOptions{}, "status")
		v.OK(v.t, "writing the status of "+a.Name, err)
		edited[a] = object
	}
	expected := fmt.Sprintf("another client has written the conditions of %s, replicas and selector of %s, and removed the status of %s, and the operator puts it back",
		apps[0].Name, apps[1].Name, apps[2].Name)
	v.eventually(statusPatience, expected, func() string {
		for _, a := range apps {
			object, there := v.town.Get(a.NamespacedName)
			if !there || !workload.Newer(object, edited[a]) {
				return fmt.Sprintf("nobody has written the status of %s since, which tells %s", a.Name, told(edited[a]))
			}
			if is := told(object); is != before[a] {
				return fmt.Sprintf("the status of %s tells %s, and before that it told %s", a.Name, is, before[a])
			}
		}
		return ""
	})
}

// deploymentEdited says what is left of a hand edit of a Deployment; empty: nothing. An edit may have changed nothing.
func (t *town) deploymentEdited(a *app, edited *appsv1.Deployment) string {
	if wrong := t.wrong(a); wrong != "" {
		return wrong
	}
	if now, _ := t.deployment(a); now.ResourceVersion != edited.ResourceVersion && !workload.Newer(&now, edited) {
		return workload.Unseen
	}
	return ""
}

// serviceEdited says what is left of a hand edit of a Service that had this selector; empty: nothing.
func (t *town) serviceEdited(a *app, edited *corev1.Service, selector map[string]string) string {
	if wrong := t.wrong(a); wrong != "" {
		return wrong
	}
	is, _ := t.service(a)
	switch {
	case !reflect.DeepEqual(is.Spec.Selector, selector):
		return fmt.Sprintf("the Service %s has the selector %s", is.Name, labels.Set(is.Spec.Selector))
	case !workload.Newer(&is, edited):
		return workload.Unseen
	}
	return ""
}

// refusedRepairs lets the only writes that matter fail: those by which a hand edit is undone. Nothing else happens that would give another chance to
// an operator which forgets an error, since the status stays as it is.
func refusedRepairs(v visit) {
	a, b := v.planned(), v.planned()
	service, _ := v.town.service(b)
	foreign := v.town.drawImage()
	a.before = append(a.before, foreign)
	var template *appsv1.Deployment
	var edited *corev1.Service
	v.RefusedAtFirst(v.ctx, v.t, faults.ServerError, faults.Write, func() {
		template = v.editDeployment(a, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[ours(d, a.image)].Image = foreign })
		edited = v.editService(b, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "nobody"} })
	})
	expected := fmt.Sprintf("the image of the Deployment of %s and the selector of the Service of %s were changed by hand, the API server answered "+
		"what the operator wrote then with an error, and when it does so no longer the operator puts both back", a.Name, b.Name)
	v.eventually(0, expected, func() string {
		if left := v.town.deploymentEdited(a, template); left != "" {
			return left
		}
		return v.town.serviceEdited(b, edited, service.Spec.Selector)
	})
}

// Whoever has no stake in a field leaves it alone. What others own is not the operator's, and a repair would be a fight.
func othersFields() frameworktypes.Feature {
	return features.New("what others own is left alone").
		Assess("while image and port change", check.Assess(assess(func(v visit) {
			const contact, centre, restarted = "team.example.com/contact", "team.example.com/cost-centre", "team.example.com/restarted-at"
			sidecar := func(name string) corev1.Container {
				return corev1.Container{Name: name, Image: "registry.example.com/" + name + ":v1"}
			}
			a := v.planned()
			edited := v.editDeployment(a, func(d *appsv1.Deployment) {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, contact, "somebody")
				metav1.SetMetaDataLabel(&d.ObjectMeta, centre, "web")
				metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, restarted, "today")
				metav1.SetMetaDataLabel(&d.Spec.Template.ObjectMeta, centre, "web")
				pod := &d.Spec.Template.Spec
				own := &pod.Containers[ours(d, a.image)]
				own.Env = append(own.Env, corev1.EnvVar{Name: "REGION", Value: "north"})
				own.VolumeMounts = append(own.VolumeMounts, corev1.VolumeMount{Name: "team", MountPath: "/team"})
				pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "team", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
				pod.InitContainers = append(pod.InitContainers, sidecar("sunscreen"))
				pod.Containers = append([]corev1.Container{sidecar("parasol")}, append(pod.Containers, sidecar("lantern"))...)
			})
			v.editService(a, func(s *corev1.Service) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, contact, "somebody")
				metav1.SetMetaDataLabel(&s.ObjectMeta, centre, "web")
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			})
			lost := func() string {
				if wrong := v.town.wrong(a); wrong != "" {
					return wrong
				}
				d, _ := v.town.deployment(a)
				s, _ := v.town.service(a)
				lost := lostSidecars(d.Spec.Template.Spec.Containers, sidecar("parasol"), sidecar("lantern"))
				if len(lost) == 0 {
					lost = lostInPod(&edited.Spec.Template.Spec, &d.Spec.Template.Spec, &d.Spec.Template.Spec.Containers[ours(&d, a.image)])
				}
				for what, is := range map[string]bool{
					"an annotation of the Deployment is gone":                                 d.Annotations[contact] == "",
					"a label of the Deployment is gone":                                       d.Labels[centre] == "",
					"an annotation of the template (as of `kubectl rollout restart`) is gone": d.Spec.Template.Annotations[restarted] == "",
					"a label of the template is gone":                                         d.Spec.Template.Labels[centre] == "",
					"an annotation of the Service is gone":                                    s.Annotations[contact] == "",
					"a label of the Service is gone":                                          s.Labels[centre] == "",
					"the Service's sessionAffinity is no longer ClientIP":                     s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP,
				} {
					if is {
						lost = append(lost, what)
					}
				}
				slices.Sort(lost)
				return strings.Join(lost, "; ")
			}
			expected := fmt.Sprintf("what others have set in the children of %s stays: labels, annotations, a container in front of its own and "+
				"one behind it, an init container, a volume, a variable and a mount of its own container, the session affinity", a.Name)
			v.Settle(v.ctx, v.t)
			v.eventually(0, expected, lost)
			a.before, a.image, a.port = append(a.before, a.image), v.town.drawImage(), v.town.ports.Draw()
			v.set(a)
			v.asSpecified(a)
			v.Settle(v.ctx, v.t)
			v.eventually(0, expected+", also when image and port have changed", lost)
		}))).
		Assess("also when it was set a moment ago", check.Assess(assess(setMeanwhile))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// While late, the operator hears of each change after this time, and between a change of a WebApp and the edits of its children so much passes.
const (
	late      = 400 * time.Millisecond
	meanwhile = 150 * time.Millisecond
)

// setMeanwhile lets others edit the children of a WebApp after its spec has changed, and before the operator has heard of either. When it hears of
// the spec, its cache has the children as they were before the edits.
func setMeanwhile(v visit) {
	const contact = "team.example.com/contact"
	a, b := v.planned(), v.town.draw(plans)
	v.forbidden(a)
	v.Settle(v.ctx, v.t)
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
		{Kind: faults.Stale, Class: faults.Write, Service: faults.API, For: metav1.Duration{Duration: late}}, // each write, and so the first one
	}}))
	v.create(b)
	v.asSpecified(b)
	a.before, a.image, a.port = append(a.before, a.image), v.town.drawImage(), v.town.ports.Draw()
	v.set(a)
	v.Pause(v.ctx, v.t, meanwhile)
	lantern := corev1.Container{Name: "lantern", Image: "registry.example.com/lantern:v1"}
	v.editDeployment(a, func(d *appsv1.Deployment) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, contact, "somebody")
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, lantern)
	})
	v.editService(a, func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, contact, "somebody") })
	v.asSpecified(a)
	v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
	v.Settle(v.ctx, v.t)
	v.asSpecified(a)
	d, _ := v.town.deployment(a)
	s, _ := v.town.service(a)
	lost := lostSidecars(d.Spec.Template.Spec.Containers, lantern)
	if d.Annotations[contact] == "" {
		lost = append(lost, "an annotation of the Deployment is gone")
	}
	if s.Annotations[contact] == "" {
		lost = append(lost, "an annotation of the Service is gone")
	}
	if len(lost) > 0 {
		v.Fail(v.t, fmt.Sprintf("what others have set in the children of %s stays, also when the operator updates these children before its cache has the change", a.Name),
			strings.Join(lost, "; "))
	}
}

// lostInPod says what has become of what others have set in a Pod's template besides sidecars, if anything has. own is the operator's container.
func lostInPod(edited, is *corev1.PodSpec, own *corev1.Container) (lost []string) {
	var before, after []string
	for _, c := range edited.Containers {
		before = append(before, c.Name)
	}
	for _, c := range is.Containers {
		after = append(after, c.Name)
	}
	if !slices.Equal(before, after) {
		lost = append(lost, fmt.Sprintf("the containers were %s, and are %s", strings.Join(before, ", "), strings.Join(after, ", ")))
	}
	for what, there := range map[string]bool{
		"the init container sunscreen, which was injected, is gone": slices.ContainsFunc(is.InitContainers, func(c corev1.Container) bool { return c.Name == "sunscreen" }),
		"the volume team is gone":                                   slices.ContainsFunc(is.Volumes, func(volume corev1.Volume) bool { return volume.Name == "team" }),
		"the variable REGION of its own container is gone":          slices.ContainsFunc(own.Env, func(e corev1.EnvVar) bool { return e.Name == "REGION" && e.Value == "north" }),
		"the mount of the volume in its own container is gone":      slices.ContainsFunc(own.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "team" }),
	} {
		if !there {
			lost = append(lost, what)
		}
	}
	return lost
}

// lostSidecars says what has become of containers that were injected, if anything has.
func lostSidecars(containers []corev1.Container, injected ...corev1.Container) (lost []string) {
	for _, sidecar := range injected {
		i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == sidecar.Name })
		switch {
		case i < 0:
			lost = append(lost, fmt.Sprintf("the container %s, which was injected, is gone", sidecar.Name))
		case containers[i].Image != sidecar.Image:
			lost = append(lost, fmt.Sprintf("the container %s, which was injected, has the image %s instead of its own", sidecar.Name, containers[i].Image))
		}
	}
	return lost
}

// apart fails unless no selector of one WebApp matches Pods of the other.
func (v visit) apart(a, b *app) {
	v.t.Helper()
	for _, pair := range [][2]*app{{a, b}, {b, a}} {
		one, _ := v.town.deployment(pair[0])
		service, _ := v.town.service(pair[0])
		other, _ := v.town.deployment(pair[1])
		overlap, err := workload.Overlap(pair[0].Name, &service, &one, pair[1].Name, &other)
		v.OK(v.t, "reading a selector", err)
		if overlap != "" {
			v.Fail(v.t, fmt.Sprintf("no selector of %s matches Pods of %s", pair[0].Name, pair[1].Name), overlap)
		}
	}
}

// longestName is how long the name of a Service may be.
const longestName = 63

func twoWebApps() frameworktypes.Feature {
	return features.New("two WebApps never meet").
		Assess("in one namespace, and of one name in two", check.Assess(assess(func(v visit) {
			a, b, c := v.town.draw(plans), v.town.draw(plans), v.town.draw(suburb)
			b.image, b.Name, c.Name = a.image, a.Name+"-b", a.Name
			for _, one := range []*app{a, b, c} {
				v.create(one)
			}
			// The longest names that Services may have, which differ at their end.
			long, longer := v.town.draw(plans), v.town.draw(plans)
			stem := a.Name + "-" + strings.Repeat("x", longestName-len(a.Name)-len("-")-len("a"))
			long.Name, longer.Name, longer.image = stem+"a", stem+"b", long.image
			v.create(long)
			v.create(longer)
			v.asSpecified(a, b, c, long, longer)
			v.apart(a, b)
			v.apart(long, longer)
			v.setPort(a, v.town.ports.Draw())
			v.asSpecified(a, b, c)
			v.remove(a)
			v.OK(v.t, "removing the children, as the garbage collector does", v.town.Collect(v.ctx, a.object))
			v.Settle(v.ctx, v.t)
			v.asSpecified(b, c)
		}))).
		Assess("also when many change at once", check.Assess(assess(many))).Feature()
}

// crowd is how many WebApps are created and changed at once.
const crowd = 8

// many creates WebApps, and changes all of them, at once. No child may ever say what the spec of another WebApp says, not even for a moment.
func many(v visit) {
	deployments, services := v.record(workload.Deployments, plans), v.record(workload.Services, plans)
	var apps []*app
	images, ports := map[string]string{}, map[int64]string{} // of which WebApp they are
	note := func(a *app) { images[a.image], ports[int64(a.port)] = a.Name, a.Name }
	for range crowd {
		a := v.town.draw(plans)
		a.image += "-" + a.Name // the image of one WebApp only
		note(a)
		apps = append(apps, v.create(a))
	}
	v.asSpecified(apps...)
	for _, a := range apps {
		a.before, a.image, a.port = append(a.before, a.image), v.town.drawImage()+"-"+a.Name, v.town.ports.Draw()
		note(a)
		v.set(a)
	}
	v.asSpecified(apps...)
	v.Settle(v.ctx, v.t)
	const expected = "no child ever has what the spec of another WebApp says, while %d WebApps are created and changed at once"
	for _, state := range services() {
		listed, _, _ := unstructured.NestedSlice(state.Object, "spec", "ports")
		for _, port := range listed {
			nodePort, _ := port.(map[string]any)["nodePort"].(int64)
			if of := ports[nodePort]; of != "" && of != state.GetName() {
				v.Fail(v.t, fmt.Sprintf(expected, crowd), fmt.Sprintf("for a moment the Service %s had the node port %d, which is that of %s", state.GetName(), nodePort, of))
			}
		}
	}
	for _, state := range deployments() {
		containers, _, _ := unstructured.NestedSlice(state.Object, "spec", "template", "spec", "containers")
		for _, container := range containers {
			image, _ := container.(map[string]any)["image"].(string)
			if of := images[image]; of != "" && of != state.GetName() {
				v.Fail(v.t, fmt.Sprintf(expected, crowd), fmt.Sprintf("for a moment the Deployment %s had the image %s, which is that of %s", state.GetName(), image, of))
			}
		}
	}
}

// record records every state of the children of one kind in a namespace, from now on until the check ends.
func (v visit) record(of schema.GroupVersionResource, namespace string) (states func() []*unstructured.Unstructured) {
	v.t.Helper()
	client := v.town.Dynamic.Resource(of).Namespace(namespace)
	list, err := client.List(v.ctx, metav1.ListOptions{})
	v.OK(v.t, "listing "+of.Resource, err)
	watch, err := client.Watch(v.ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	v.OK(v.t, "watching "+of.Resource, err)
	v.t.Cleanup(watch.Stop)
	var mutex sync.Mutex
	var recorded []*unstructured.Unstructured
	go func() {
		for event := range watch.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				mutex.Lock()
				recorded = append(recorded, object)
				mutex.Unlock()
			}
		}
	}()
	return func() []*unstructured.Unstructured {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(recorded)
	}
}
