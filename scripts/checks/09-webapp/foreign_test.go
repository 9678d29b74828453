// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// foreign is a Deployment or a Service of another owner that has the name of a WebApp, in its state before the WebApp
// was created.
type foreign struct {
	*workload.Foreign
	app *app
}

// untouched fails if the operator has touched a foreign object.
func (v visit) untouched(all ...*foreign) {
	v.t.Helper()
	v.Settle(v.ctx, v.t)
	for _, f := range all {
		if touched := v.town.Touched(v.Suite, f.Foreign); touched != "" {
			v.Fail(v.t, f.String()+" is not touched", touched)
		}
	}
}

// These are the reasons why an object is foreign.
const (
	noOwner  = workload.NoOwner
	another  = workload.AnotherController
	anothers = "has another WebApp as its controller"
)

// owners returns the owner references of a foreign object.
func (v visit) owners(a *app, ownership string) (owners []metav1.OwnerReference) {
	v.t.Helper()
	switch ownership {
	case another:
		var err error
		owners, err = v.town.ControlledByConfigMap(v.ctx, a.Namespace, "owner-of-"+a.Name)
		v.OK(v.t, "making an owner", err)
	case anothers:
		owners = workload.ControlledBy(v.create(v.town.draw(plans)).object)
	}
	return owners
}

// foreignService creates a Service that is not the operator's, with the name of a future WebApp.
func (v visit) foreignService(a *app, ownership string) *foreign {
	v.t.Helper()
	created, err := v.town.ForeignService(v.ctx, v.Suite, a.NamespacedName, ownership, v.owners(a, ownership))
	v.OK(v.t, "making a Service by hand", err)
	return &foreign{Foreign: created, app: a}
}

// foreignDeployment creates a Deployment that is not the operator's, and waits until the Deployment controller has
// finished it.
func (v visit) foreignDeployment(a *app, replicas int32, ownership string) *foreign {
	v.t.Helper()
	created, err := v.town.ForeignDeployment(v.ctx, a.NamespacedName, replicas, ownership, v.owners(a, ownership))
	v.OK(v.t, "making a Deployment by hand", err)
	v.EventuallyWithin(v.ctx, v.t, "the controller of Deployments is done with "+a.Name, podPatience, v.town.Changed,
		func() (string, bool) {
			return v.town.Steady(v.Suite, created)
		})
	return &foreign{Foreign: created, app: a}
}

// blockedConditions returns the expected conditions of a WebApp for which one child's name is taken by a foreign
// object.
func blockedConditions(f *foreign) []workload.Wanted {
	return []workload.Wanted{
		{Of: degradedType, Status: "True", Mentions: []string{f.Kind, f.app.Name}},
		{Of: availableType, Status: "False"},
	}
}

func foreignService() frameworktypes.Feature {
	return features.New("a Service that is not the operator's is not touched").
		Assess("whichever owner it has", check.Assess(assess(func(v visit) {
			var all []*foreign
			for _, ownership := range []string{noOwner, another, anothers} {
				all = append(all, v.foreignService(v.town.draw(plans), ownership))
			}
			for _, f := range all {
				v.create(f.app)
			}
			for _, f := range all {
				v.conditions(f.app, f.String()+" is in the way", blockedConditions(f)...)
			}
			for _, f := range all {
				v.eventually(0,
					fmt.Sprintf("%s is not the operator's, and the Deployment of %s is made all the same", f, f.app.Name),
					func() string {
						deployment, wrong := v.town.deployment(f.app)
						if wrong != "" {
							return wrong
						}
						return wrongDeployment(f.app, &deployment)
					})
			}
			v.untouched(all...)
			for _, f := range all {
				v.ownedBesides(f)
				v.change(f.app)
			}
			for _, f := range all {
				v.conditions(f.app, f.String()+" is still in the way", blockedConditions(f)...)
			}
			v.untouched(all...)
		}))).Feature()
}

// change changes the image and the port of a WebApp.
func (v visit) change(a *app) {
	v.t.Helper()
	a.before, a.image, a.port = append(a.before, a.image), v.town.drawImage(), v.town.ports.Draw()
	v.set(a)
}

// ownedBesides adds an owner reference to a foreign object: the WebApp with its name becomes an owner, as `kubectl
// edit` can do it, but not its controller.
func (v visit) ownedBesides(f *foreign) {
	v.t.Helper()
	reference := metav1.OwnerReference{
		APIVersion: f.app.object.GetAPIVersion(), Kind: f.app.object.GetKind(), Name: f.app.Name, UID: f.app.object.GetUID(),
	}
	if f.Kind == "Service" {
		edited := v.editService(f.app, func(s *corev1.Service) { s.OwnerReferences = append(s.OwnerReferences, reference) })
		f.Is, f.Spec = edited, edited.Spec
	} else {
		edited := v.editDeployment(f.app, func(d *appsv1.Deployment) {
			d.OwnerReferences = append(d.OwnerReferences, reference)
		})
		f.Is, f.Spec = edited, edited.Spec
	}
	f.Ownership += ", and has the WebApp as an owner that is not its controller"
	f.Since = v.Audit.Now()
	v.eventually(0, "the watch tells of an owner reference of "+f.Name, func() string {
		var now metav1.Object
		if f.Kind == "Service" {
			is, _ := workload.Named[corev1.Service](v.town.Owners, workload.Services, f.NamespacedName)
			now = &is
		} else {
			is, _ := workload.Named[appsv1.Deployment](v.town.Owners, workload.Deployments, f.NamespacedName)
			now = &is
		}
		if now.GetResourceVersion() != f.Is.GetResourceVersion() && !workload.Newer(now, f.Is) {
			return workload.Unseen
		}
		return ""
	})
}

func foreignDeployment() frameworktypes.Feature {
	return features.New("a Deployment that is not the operator's is not touched").
		Assess("and its Pods are not counted", check.Assess(assess(func(v visit) {
			const replicas = 2
			all := []*foreign{
				v.foreignDeployment(v.town.draw(waiting), replicas, noOwner),
				v.foreignDeployment(v.town.draw(waiting), replicas, another),
			}
			both := v.foreignDeployment(v.town.draw(plans), 0, noOwner)
			service := v.foreignService(both.app, noOwner)
			for _, f := range append([]*foreign{both}, all...) {
				v.create(f.app)
			}
			for _, f := range all {
				v.conditions(f.app, f.String()+" is in the way", blockedConditions(f)...)
				v.eventually(0,
					fmt.Sprintf("%s is not the operator's, and the Service of %s is made all the same", f, f.app.Name),
					func() string {
						service, wrong := v.town.service(f.app)
						if wrong != "" {
							return wrong
						}
						return wrongService(f.app, &service, nil)
					})
				if is := v.scaleOf(f.app); is.Status.Replicas != 0 {
					v.Fail(v.t, fmt.Sprintf("%s is not the operator's, so that %s has no Pods: status.replicas is 0", f, f.app.Name),
						fmt.Sprintf("it is %d", is.Status.Replicas))
				}
			}
			v.conditions(both.app, fmt.Sprintf("%s is in the way, and so is the Service of that name", both),
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{"Deployment", "Service", both.app.Name}},
				workload.Wanted{Of: availableType, Status: "False"})
			v.untouched(append(all, both, service)...)
			v.ownedBesides(both)
			v.change(both.app)
			v.conditions(both.app, both.String()+" is still in the way", blockedConditions(both)...)
			v.untouched(both, service)
		}))).Feature()
}

// obstructed creates two WebApps. The name of one is taken by a foreign Service, and the name of the other one by a
// foreign Deployment.
func (v visit) obstructed() (service, deployment *foreign) {
	v.t.Helper()
	service = v.foreignService(v.town.draw(plans), noOwner)
	deployment = v.foreignDeployment(v.town.draw(plans), 0, noOwner)
	for _, f := range []*foreign{service, deployment} {
		v.create(f.app)
	}
	for _, f := range []*foreign{service, deployment} {
		v.conditions(f.app, f.String()+" is in the way", blockedConditions(f)...)
	}
	return service, deployment
}

func foreignStays() frameworktypes.Feature {
	return features.New("a foreign object stays").
		Assess("when the WebApp is deleted", check.Assess(assess(func(v visit) {
			service, deployment := v.obstructed()
			for _, f := range []*foreign{service, deployment} {
				v.remove(f.app)
				v.OK(v.t, "removing the children, as the garbage collector does", v.town.Collect(v.ctx, f.app.object))
			}
			v.untouched(service, deployment)
		}))).Feature()
}

// healPatience is how long an operator may wait before it retries.
const healPatience = 20 * time.Second

func foreignDeleted() frameworktypes.Feature {
	return features.New("a WebApp heals").
		Assess("when the object in the way is deleted", check.Assess(assess(func(v visit) {
			service, deployment := v.obstructed()
			v.OK(v.t, "deleting a Service",
				v.town.Client.CoreV1().Services(plans).Delete(v.ctx, service.app.Name, metav1.DeleteOptions{}))
			v.OK(v.t, "deleting a Deployment",
				v.town.Client.AppsV1().Deployments(plans).Delete(v.ctx, deployment.app.Name, metav1.DeleteOptions{}))
			v.asSpecifiedWithin(healPatience, service.app, deployment.app)
			for _, f := range []*foreign{service, deployment} {
				v.conditions(f.app, f.String()+" has gone", workload.Wanted{Of: degradedType, Status: "False"})
			}
		}))).Feature()
}

// keepIt is a finalizer that keeps a child whose WebApp is gone. Otherwise it would depend on chance whether the
// garbage collector knows WebApps by then.
const keepIt = "team.example.com/keep-it"

func earlierWebApp() frameworktypes.Feature {
	return features.New("children of an earlier WebApp are not touched").
		Assess("also when it had the same name", check.Assess(assess(func(v visit) {
			a := v.planned()
			deployment := v.editDeployment(a, func(d *appsv1.Deployment) { d.Finalizers = append(d.Finalizers, keepIt) })
			service := v.editService(a, func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, keepIt) })
			v.asSpecified(a)
			v.Settle(v.ctx, v.t)
			v.remove(a)
			again := v.town.draw(plans)
			again.Name = a.Name
			ownership := "belongs to an earlier WebApp of that name, with another UID"
			since := v.Audit.Now()
			all := []*foreign{
				{app: again, Foreign: &workload.Foreign{
					Kind: "Service", NamespacedName: again.NamespacedName, Is: service, Spec: service.Spec,
					Since: since, Ownership: ownership, Dying: true,
				}},
				{app: again, Foreign: &workload.Foreign{
					Kind: "Deployment", NamespacedName: again.NamespacedName, Is: deployment, Spec: deployment.Spec,
					Since: since, Ownership: ownership, Dying: true,
				}},
			}
			v.create(again)
			v.conditions(again, "its children of before are in the way",
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{again.Name}},
				workload.Wanted{Of: availableType, Status: "False"})
			v.untouched(all...)
			unbound := []byte(`{"metadata":{"finalizers":null}}`)
			_, err := v.town.Client.AppsV1().Deployments(plans).Patch(v.ctx, a.Name,
				types.MergePatchType, unbound, metav1.PatchOptions{})
			v.OK(v.t, "removing a finalizer", workload.IgnoreGone(err))
			_, err = v.town.Client.CoreV1().Services(plans).Patch(v.ctx, a.Name,
				types.MergePatchType, unbound, metav1.PatchOptions{})
			v.OK(v.t, "removing a finalizer", workload.IgnoreGone(err))
			v.OK(v.t, "removing the children, as the garbage collector does", v.town.Collect(v.ctx, a.object))
			v.asSpecifiedWithin(healPatience, again)
			v.conditions(again, "its children of before have gone", workload.Wanted{Of: degradedType, Status: "False"})
		}))).Feature()
}

// scenario is the lab in one story. A foreign object must not be touched on a bad day either.
func scenario(v visit) {
	const patience = 10 * time.Second
	a, b := v.town.draw(plans), v.town.draw(plans)
	f := v.foreignService(v.town.draw(plans), noOwner)
	v.create(a)
	v.create(f.app)
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
	v.conditionsWithin(f.app, f.String()+" is in the way", patience, blockedConditions(f)...)
	v.conditionsWithin(a, "no Pod is let in", patience, workload.Wanted{Of: availableType, Status: "False"})
	v.untouched(f)
	v.OK(v.t, "deleting a Service by hand",
		v.town.Client.CoreV1().Services(plans).Delete(v.ctx, f.app.Name, metav1.DeleteOptions{}))
	v.setReplicas(a, 0)
	v.asSpecifiedWithin(patience, a)
	v.asSpecifiedWithin(healPatience, f.app)
	v.conditionsWithin(a, "no Pod is asked for", patience, workload.Wanted{Of: availableType, Status: "True"})
	v.conditionsWithin(f.app, f.String()+" has gone", patience, workload.Wanted{Of: degradedType, Status: "False"})
	v.remove(b)
	v.staysGone(b)
}

// waitFor is the interval at which state without a watch is read.
const waitFor = 50 * time.Millisecond

// podsOf returns the living Pods of a Deployment.
func (v visit) podsOf(d *appsv1.Deployment) []corev1.Pod {
	v.t.Helper()
	pods, err := v.town.PodsOf(v.ctx, d)
	v.OK(v.t, "asking for Pods", err)
	return pods
}

// getReady writes the status of Pods as a kubelet would: they run and are ready.
func (v visit) getReady(pods ...corev1.Pod) {
	v.t.Helper()
	for i := range pods {
		v.OK(v.t, "saying that a Pod is ready", v.town.GetReady(v.ctx, &pods[i]))
	}
}
