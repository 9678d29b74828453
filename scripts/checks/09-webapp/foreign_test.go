// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// foreign is a Deployment or a Service of somebody else that has the name of a WebApp, as it was before the WebApp came.
type foreign struct {
	kind  string // Deployment or Service
	is    metav1.Object
	spec  any
	since audit.Mark
	whose string
	of    *app
	dying bool // that it is being deleted is no work of the operator
}

func (f *foreign) String() string {
	return fmt.Sprintf("the %s %s, which %s,", f.kind, f.of.Name, f.whose)
}

// now is the object as the watch knows it; false: it is gone.
func (f *foreign) now(t *town) (is metav1.Object, spec any, there bool) {
	if f.kind == "Service" {
		service, there := workload.Named[corev1.Service](t.Owners, workload.Services, f.of.NamespacedName)
		return &service, service.Spec, there
	}
	deployment, there := workload.Named[appsv1.Deployment](t.Owners, workload.Deployments, f.of.NamespacedName)
	return &deployment, deployment.Spec, there
}

// controllerManager is who writes Deployments besides their owner: their revision, and their status.
const controllerManager = "kube-controller-manager"

// writers are the field managers of an object, with what each has set, but for the controller of Deployments.
func writers(of metav1.Object) (all []metav1.ManagedFieldsEntry) {
	for _, entry := range of.GetManagedFields() {
		if entry.Manager != controllerManager {
			all = append(all, entry)
		}
	}
	return all
}

// touched says what the operator has done with somebody else's object; empty: nothing.
func (v visit) touched(f *foreign) string {
	wrote := v.Audit.Since(f.since, v.ByOperator().And(audit.Writes, func(e audit.Event) bool {
		return e.Resource == strings.ToLower(f.kind)+"s" && e.Namespace == f.of.Namespace && e.Name == f.of.Name && e.Verb != "create" && e.Code < http.StatusMultipleChoices &&
			(!f.dying || e.Verb != "delete") // the garbage collector deletes it as well
	}))
	now, spec, there := f.now(v.town)
	switch {
	case !there:
		return "it is gone"
	case now.GetUID() != f.is.GetUID():
		return "it was deleted, and there is another one"
	case now.GetDeletionTimestamp() != nil && !f.dying:
		return "it is being deleted"
	case !reflect.DeepEqual(now.GetOwnerReferences(), f.is.GetOwnerReferences()):
		return "its metadata.ownerReferences are others: it was adopted"
	case !reflect.DeepEqual(spec, f.spec):
		return "its spec was changed"
	case !reflect.DeepEqual(now.GetLabels(), f.is.GetLabels()):
		return "its labels were changed"
	case f.kind == "Service" && !f.dying && now.GetResourceVersion() != f.is.GetResourceVersion():
		return fmt.Sprintf("its resourceVersion was %s, and is %s", f.is.GetResourceVersion(), now.GetResourceVersion())
	case !f.dying && !reflect.DeepEqual(writers(now), writers(f.is)):
		return "its metadata.managedFields are others: somebody has written it"
	case len(wrote) > 0:
		return "it was written: " + wrote[0].String()
	}
	return ""
}

// untouched fails if the operator has touched what is somebody else's.
func (v visit) untouched(all ...*foreign) {
	v.t.Helper()
	v.Settle(v.ctx, v.t)
	for _, f := range all {
		if touched := v.touched(f); touched != "" {
			v.Fail(v.t, f.String()+" is not touched", touched)
		}
	}
}

// The ways in which something is somebody else's.
const (
	nobodys  = "was made by hand and has no owner"
	another  = "has another controller, a ConfigMap"
	anothers = "has another WebApp as its controller"
)

// owners are the owner references of something that is somebody else's.
func (v visit) owners(a *app, whose string) []metav1.OwnerReference {
	v.t.Helper()
	switch whose {
	case another:
		owner, err := v.town.Client.CoreV1().ConfigMaps(a.Namespace).Create(v.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner-of-" + a.Name}}, metav1.CreateOptions{})
		v.OK(v.t, "making an owner", err)
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)}}
	case anothers:
		other := v.create(v.town.draw(plans))
		return []metav1.OwnerReference{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: other.Name, UID: other.object.GetUID(), Controller: new(true)}}
	}
	return nil
}

// foreignService makes a Service of somebody else, with the name that a WebApp will have.
func (v visit) foreignService(a *app, whose string) *foreign {
	v.t.Helper()
	service := v.town.foreignService(a.NamespacedName)
	service.OwnerReferences = v.owners(a, whose)
	made, err := v.town.Client.CoreV1().Services(a.Namespace).Create(v.ctx, service, metav1.CreateOptions{})
	v.OK(v.t, "making a Service by hand", err)
	return &foreign{kind: "Service", is: made, spec: made.Spec, since: v.Audit.Now(), whose: whose, of: a}
}

// foreignDeployment makes a Deployment of somebody else, and waits until its controller is done with it.
func (v visit) foreignDeployment(a *app, replicas int32, whose string) *foreign {
	v.t.Helper()
	pods := map[string]string{"team": "somebody", "of": a.Name}
	_, err := v.town.Client.AppsV1().Deployments(a.Namespace).Create(v.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, Labels: map[string]string{"team": "somebody"}, OwnerReferences: v.owners(a, whose)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pods},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pods},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "somebody", Image: "registry.example.com/somebody:v1"}}},
			},
		},
	}, metav1.CreateOptions{})
	v.OK(v.t, "making a Deployment by hand", err)
	f := &foreign{kind: "Deployment", whose: whose, of: a}
	v.EventuallyWithin(v.ctx, v.t, "the controller of Deployments is done with "+a.Name, podPatience, v.town.Changed, func() (string, bool) {
		is, there := workload.Named[appsv1.Deployment](v.town.Owners, workload.Deployments, a.NamespacedName)
		f.is, f.spec = &is, is.Spec
		return fmt.Sprintf("it has %d of %d Pods", is.Status.Replicas, replicas), there && is.Status.ObservedGeneration == is.Generation && is.Status.Replicas == replicas
	})
	f.since = v.Audit.Now()
	return f
}

// notOurs are the conditions of a WebApp one of whose children is somebody else's.
func notOurs(f *foreign) []workload.Wanted {
	return []workload.Wanted{{Of: degradedType, Status: "True", Says: []string{f.kind, f.of.Name}}, {Of: availableType, Status: "False"}}
}

func foreignService() frameworktypes.Feature {
	return features.New("a Service of somebody else is not touched").
		Assess("whoever it belongs to", check.Assess(assess(func(v visit) {
			var all []*foreign
			for _, whose := range []string{nobodys, another, anothers} {
				all = append(all, v.foreignService(v.town.draw(plans), whose))
			}
			for _, f := range all {
				v.create(f.of)
			}
			for _, f := range all {
				v.conditions(f.of, f.String()+" is in the way", notOurs(f)...)
			}
			for _, f := range all {
				v.eventually(0, fmt.Sprintf("%s is somebody else's, and the Deployment of %s is made all the same", f, f.of.Name), func() string {
					deployment, wrong := v.town.deployment(f.of)
					if wrong != "" {
						return wrong
					}
					return wrongDeployment(f.of, &deployment)
				})
			}
			v.untouched(all...)
			f := all[v.town.random.IntN(len(all))]
			f.of.before, f.of.image, f.of.port = append(f.of.before, f.of.image), v.town.drawImage(), v.town.ports.Draw()
			v.set(f.of)
			v.conditions(f.of, f.String()+" is still in the way", notOurs(f)...)
			v.untouched(all...)
		}))).Feature()
}

func foreignDeployment() frameworktypes.Feature {
	return features.New("a Deployment of somebody else is not touched").
		Assess("and its Pods are not counted", check.Assess(assess(func(v visit) {
			const replicas = 2
			all := []*foreign{
				v.foreignDeployment(v.town.draw(waiting), replicas, nobodys), v.foreignDeployment(v.town.draw(waiting), replicas, another),
			}
			for _, f := range all {
				v.create(f.of)
			}
			for _, f := range all {
				v.conditions(f.of, f.String()+" is in the way", notOurs(f)...)
				v.eventually(0, fmt.Sprintf("%s is somebody else's, and the Service of %s is made all the same", f, f.of.Name), func() string {
					service, wrong := v.town.service(f.of)
					if wrong != "" {
						return wrong
					}
					return wrongService(f.of, &service, nil)
				})
				if is := v.scaleOf(f.of); is.Status.Replicas != 0 {
					v.Fail(v.t, fmt.Sprintf("%s is somebody else's, so that %s has no Pods: status.replicas is 0", f, f.of.Name), fmt.Sprintf("it is %d", is.Status.Replicas))
				}
			}
			v.untouched(all...)
		}))).Feature()
}

// obstructed makes two WebApps, to one of which a Service is in the way, and to the other one a Deployment.
func (v visit) obstructed() (service, deployment *foreign) {
	v.t.Helper()
	service = v.foreignService(v.town.draw(plans), nobodys)
	deployment = v.foreignDeployment(v.town.draw(plans), 0, nobodys)
	for _, f := range []*foreign{service, deployment} {
		v.create(f.of)
	}
	for _, f := range []*foreign{service, deployment} {
		v.conditions(f.of, f.String()+" is in the way", notOurs(f)...)
	}
	return service, deployment
}

func foreignStays() frameworktypes.Feature {
	return features.New("what is somebody else's stays").
		Assess("when the WebApp goes", check.Assess(assess(func(v visit) {
			service, deployment := v.obstructed()
			for _, f := range []*foreign{service, deployment} {
				v.remove(f.of)
				v.OK(v.t, "removing the children, as the garbage collector does", v.town.Collect(v.ctx, f.of.object))
			}
			v.untouched(service, deployment)
		}))).Feature()
}

// healPatience is how long an operator may wait before it tries again.
const healPatience = 20 * time.Second

func foreignGoes() frameworktypes.Feature {
	return features.New("a WebApp heals").
		Assess("when what is in the way goes", check.Assess(assess(func(v visit) {
			service, deployment := v.obstructed()
			v.OK(v.t, "deleting a Service", v.town.Client.CoreV1().Services(plans).Delete(v.ctx, service.of.Name, metav1.DeleteOptions{}))
			v.OK(v.t, "deleting a Deployment", v.town.Client.AppsV1().Deployments(plans).Delete(v.ctx, deployment.of.Name, metav1.DeleteOptions{}))
			v.asSpecifiedWithin(healPatience, service.of, deployment.of)
			for _, f := range []*foreign{service, deployment} {
				v.conditions(f.of, f.String()+" has gone", workload.Wanted{Of: degradedType, Status: "False"})
			}
		}))).Feature()
}

// keepIt is a finalizer that keeps a child whose WebApp is gone: whether the garbage collector has heard of WebApps by then is left to luck.
const keepIt = "team.example.com/keep-it"

func earlierWebApp() frameworktypes.Feature {
	return features.New("children of an earlier WebApp are somebody else's").
		Assess("also when it had the same name", check.Assess(assess(func(v visit) {
			a := v.planned()
			deployment := v.editDeployment(a, func(d *appsv1.Deployment) { d.Finalizers = append(d.Finalizers, keepIt) })
			service := v.editService(a, func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, keepIt) })
			v.asSpecified(a)
			v.Settle(v.ctx, v.t)
			v.remove(a)
			again := v.town.draw(plans)
			again.Name = a.Name
			whose := "belongs to an earlier WebApp of that name, with another UID"
			since := v.Audit.Now()
			all := []*foreign{
				{kind: "Service", is: service, spec: service.Spec, since: since, whose: whose, of: again, dying: true},
				{kind: "Deployment", is: deployment, spec: deployment.Spec, since: since, whose: whose, of: again, dying: true},
			}
			v.create(again)
			v.conditions(again, "its children of before are in the way", workload.Wanted{Of: degradedType, Status: "True", Says: []string{again.Name}},
				workload.Wanted{Of: availableType, Status: "False"})
			v.untouched(all...)
			unbound := []byte(`{"metadata":{"finalizers":null}}`)
			_, err := v.town.Client.AppsV1().Deployments(plans).Patch(v.ctx, a.Name, types.MergePatchType, unbound, metav1.PatchOptions{})
			v.OK(v.t, "removing a finalizer", workload.IgnoreGone(err))
			_, err = v.town.Client.CoreV1().Services(plans).Patch(v.ctx, a.Name, types.MergePatchType, unbound, metav1.PatchOptions{})
			v.OK(v.t, "removing a finalizer", workload.IgnoreGone(err))
			v.OK(v.t, "removing the children, as the garbage collector does", v.town.Collect(v.ctx, a.object))
			v.asSpecifiedWithin(healPatience, again)
			v.conditions(again, "its children of before have gone", workload.Wanted{Of: degradedType, Status: "False"})
		}))).Feature()
}

// portTaken looks at a WebApp that was made before the first check.
func portTaken() frameworktypes.Feature {
	return features.New("a port that is taken is reported").
		Assess("and tried again later and later", check.Assess(assess(func(v visit) {
			s := v.town.squatted
			v.town.squatted = nil // if the check fails, nobody else shall be bothered by it
			if s == nil {
				var err error
				s, err = v.town.squat(v.ctx, v.Suite)
				v.OK(v.t, "making a WebApp whose port is taken", err)
			}
			v.BeganAt(s.Since)
			v.EventuallyWithin(v.ctx, v.t, s.Expected(), statusPatience, v.town.Changed, s.Reported)
			v.eventually(0, fmt.Sprintf("the Deployment of %s, whose port is taken, is made all the same", s.Name), func() string {
				deployment, wrong := v.town.deployment(s.app)
				if wrong != "" {
					return wrong
				}
				return wrongDeployment(s.app, &deployment)
			})
			v.OK(v.t, "taking a node port for a while", s.Wait(v.ctx))
			v.Measure("tries while the port was taken", float64(len(s.Tries)), "requests")
			if expected, observed := s.Loop(); observed != "" {
				v.Fail(v.t, expected, observed, audit.Lines(s.Tries)...)
			}
			v.town.squatted = s
		}))).Feature()
}

// portHeals comes late: an operator that tries later and later has waited for some seconds before the port was given back, and waits again.
func portHeals() frameworktypes.Feature {
	return features.New("a WebApp heals").
		Assess("when its port is free", check.Assess(assess(func(v visit) {
			s := v.town.squatted
			if s == nil {
				v.Fail(v.t, "a WebApp has a port that is taken", "there is none")
			}
			v.town.squatted = nil // whatever comes of it, no other check needs it
			v.BeganAt(s.Freed)
			v.asSpecifiedWithin(healPatience, s.app)
			v.conditions(s.app, fmt.Sprintf("node port %d is free", s.port), workload.Wanted{Of: degradedType, Status: "False"})
		}))).Feature()
}

func portRange() frameworktypes.Feature {
	return features.New("a port that is no node port is reported").
		Assess("until it is another one", check.Assess(assess(func(v visit) {
			a := v.town.draw(plans)
			a.port = int32(1000 + v.town.random.IntN(20000)) //nolint:gosec // it is below 32768
			v.create(a)
			v.conditions(a, "the port is out of the range of node ports", workload.Wanted{Of: degradedType, Status: "True", Says: []string{fmt.Sprint(a.port)}},
				workload.Wanted{Of: availableType, Status: "False"})
			v.setPort(a, v.town.ports.Draw())
			v.asSpecified(a)
			v.conditions(a, "the port is another one", workload.Wanted{Of: degradedType, Status: "False"})
		}))).Feature()
}

// errorReported lets the API server answer with an error whenever a Service is created.
func errorReported() frameworktypes.Feature {
	return features.New("an error of the API server is reported").
		Assess("while it lasts", check.Assess(assess(func(v visit) {
			a := v.town.draw(plans)
			isUp, err := v.town.WebhookDown(v.ctx, plans)
			v.OK(v.t, "registering a webhook that is down", err)
			defer isUp()
			v.create(a)
			v.conditions(a, "the API server answers with an error when the Service is created, since a webhook is down",
				workload.Wanted{Of: degradedType, Status: "True", Says: []string{workload.DownName}},
				workload.Wanted{Of: availableType, Status: "False"})
			isUp()
			v.asSpecifiedWithin(healPatience, a)
			v.conditions(a, "the API server answers again", workload.Wanted{Of: degradedType, Status: "False"})
		}))).Feature()
}

// scenario is the lab in one story. What is somebody else's is not touched on a bad day either.
func scenario(v visit) {
	const patience = 10 * time.Second
	a, b := v.town.draw(plans), v.town.draw(plans)
	f := v.foreignService(v.town.draw(plans), nobodys)
	v.create(a)
	v.create(f.of)
	v.asSpecifiedWithin(patience, a)
	v.setImage(a, v.town.drawImage())
	v.create(b)
	v.asSpecifiedWithin(patience, a, b)
	v.setPort(a, v.town.ports.Draw())
	service, wrong := v.town.service(b)
	if wrong == "" {
		err := v.town.Client.CoreV1().Services(b.Namespace).Delete(v.ctx, service.Name, metav1.DeleteOptions{})
		v.OK(v.t, "deleting a Service by hand", workload.IgnoreGone(err))
	}
	v.asSpecifiedWithin(patience, a)
	v.eventually(patience, fmt.Sprintf("the Service of %s, deleted by hand, is made again", b.Name), func() string {
		if wrong := v.town.wrong(b); wrong != "" {
			return wrong
		}
		if again, _ := v.town.service(b); again.UID == service.UID {
			return "the watch has not told of the deletion"
		}
		return ""
	})
	v.conditionsWithin(f.of, f.String()+" is in the way", patience, notOurs(f)...)
	v.conditionsWithin(a, "no Pod is let in", patience, workload.Wanted{Of: availableType, Status: "False"})
	v.untouched(f)
	v.OK(v.t, "deleting a Service by hand", v.town.Client.CoreV1().Services(plans).Delete(v.ctx, f.of.Name, metav1.DeleteOptions{}))
	v.setReplicas(a, 0)
	v.asSpecifiedWithin(patience, a)
	v.asSpecifiedWithin(healPatience, f.of)
	v.conditionsWithin(a, "no Pod is asked for", patience, workload.Wanted{Of: availableType, Status: "True"})
	v.conditionsWithin(f.of, f.String()+" has gone", patience, workload.Wanted{Of: degradedType, Status: "False"})
	v.remove(b)
	v.staysGone(b)
}

// waitFor is how often something is asked for of which no watch tells.
const waitFor = 50 * time.Millisecond

// podsOf are the Pods of a Deployment that live, by its ReplicaSets.
func (v visit) podsOf(d *appsv1.Deployment) (pods []corev1.Pod) {
	v.t.Helper()
	sets, err := v.town.Client.AppsV1().ReplicaSets(d.Namespace).List(v.ctx, metav1.ListOptions{})
	v.OK(v.t, "asking for the ReplicaSets", err)
	all, err := v.town.Client.CoreV1().Pods(d.Namespace).List(v.ctx, metav1.ListOptions{})
	v.OK(v.t, "asking for the Pods", err)
	for _, pod := range all.Items {
		if pod.DeletionTimestamp == nil && slices.ContainsFunc(sets.Items, func(set appsv1.ReplicaSet) bool {
			return metav1.IsControlledBy(&set, d) && metav1.IsControlledBy(&pod, &set)
		}) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// getReady says of Pods, as a kubelet would, that they run and are ready.
func (v visit) getReady(pods ...corev1.Pod) {
	v.t.Helper()
	for _, pod := range pods {
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
			continue
		}
		patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		_, err := v.town.Client.CoreV1().Pods(pod.Namespace).Patch(v.ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if !apierrors.IsNotFound(err) {
			v.OK(v.t, "saying that a Pod is ready", err)
		}
	}
}
