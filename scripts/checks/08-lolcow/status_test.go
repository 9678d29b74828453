// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// These are the types of conditions.
const (
	availableType   = "Available"
	progressingType = "Progressing"
	degradedType    = "Degraded"
)

var deleteNow = metav1.DeleteOptions{}

// statusPatience is how long an operator may be silent until a condition is correct, because the state that it
// describes takes time, such as the start of a Pod.
const statusPatience = 10 * time.Second

// podPatience is statusPatience for conditions that depend on a Pod, which takes time on a busy machine.
const podPatience = 30 * time.Second

// conditions waits until conditions of a cow are as wanted, for its current generation.
func (v visit) conditions(c *cow, why string, patience time.Duration, all ...workload.Wanted) {
	v.t.Helper()
	var phrases []string
	for _, w := range all {
		phrases = append(phrases, w.String())
	}
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("%s: of %s %s", why, c.Name, strings.Join(phrases, ", and ")),
		patience, v.herd.Changed, func() (string, bool) {
			unlike := v.herd.Unlike(c.NamespacedName, c.object.GetGeneration(), all)
			return unlike, unlike == ""
		})
}

func available() types.Feature {
	return features.New("conditions follow what is there").
		Assess("for the generation that they are about", check.Assess(assess(func(v visit) {
			c := v.served()
			isWell := func(why string) {
				v.t.Helper()
				v.conditions(c, why, podPatience,
					workload.Wanted{Of: availableType, Status: "True"}, workload.Wanted{Of: degradedType, Status: "False"},
					workload.Wanted{Of: progressingType, Status: "False"})
			}
			if !v.herd.first.greetingChanged { // unless the check greeting has changed it
				isWell("the page is served")
				v.changeGreeting()
			}
			isWell("the new greeting is rolled out")
			v.probed(c)
		}))).Feature()
}

// probed fails if the server of a cow has no readiness probe. Without one, a Pod counts as ready when its process has
// started, Available is True before the page is served, and a rollout ends Pods that answer before the new ones do.
func (v visit) probed(c *cow) {
	v.t.Helper()
	deployment, _ := v.herd.deployment(c)
	if !slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.ReadinessProbe != nil || c.StartupProbe != nil
	}) {
		v.Fail(v.t, fmt.Sprintf("a Pod of %s is ready, and so Available, only when its server answers /healthz", c.Name),
			"no container of the Deployment has a readinessProbe, so that a Pod is ready when its process was started")
	}
}

// sidecars makes another client set the containers that it adds to the Deployment of a cow. Without any, the client
// removes them again.
func (v visit) sidecars(c *cow, sidecars ...corev1.Container) {
	v.t.Helper()
	v.editDeployment(c, func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		others := func(container corev1.Container) bool { return container.Name == "shade" || container.Name == "parasol" }
		pod.Containers = append(slices.DeleteFunc(pod.Containers, others), sidecars...)
	})
}

// makeFail makes the Pods of failingCows fail, if both are healthy by now and this was not done before. The checks of
// these failures come later. Another client adds the failing sidecars: the image of one can't be pulled, and the other
// one exits again and again. They fail so late that the Deployment does not change any more.
func (v visit) makeFail() bool {
	v.t.Helper()
	p := v.herd.failingCows
	if !p.failing && v.herd.rolledOut(p.image) && v.herd.rolledOut(p.crash) {
		v.sidecars(p.image, delayContainer(1), corev1.Container{Name: "parasol", Image: missingImage})
		v.sidecars(p.crash, delayContainer(2), corev1.Container{
			Name: "parasol", Image: pageImage, Args: []string{"this", "is", "wrong"},
			// Without the probe the Pod would be ready for the moment in which it runs, and the Deployment would report that.
			ReadinessProbe: &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}},
			},
		})
		p.failing = true
	}
	return p.failing
}

const (
	pageImage    = "operator-labs/lolcow:v1"
	missingImage = "operator-labs/parasol:v0"
)

// delayContainer returns a container that delays the next one by some seconds. On a busy machine the Deployment
// controller takes about one second to report a new Pod.
func delayContainer(seconds int64) corev1.Container {
	return corev1.Container{
		Name: "shade", Image: pageImage, Args: []string{":9091"},
		Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}},
	}
}

// rolledOut reports whether all Pods of a cow are up to date and ready, and none is about to end: the Deployment does
// not change any more.
func (h *herd) rolledOut(c *cow) bool {
	deployment, wrong := h.deployment(c)
	is := deployment.Status
	return wrong == "" && is.ObservedGeneration == deployment.Generation &&
		is.UpdatedReplicas == deref(deployment.Spec.Replicas) &&
		is.AvailableReplicas == is.UpdatedReplicas && is.Replicas == is.UpdatedReplicas &&
		(is.TerminatingReplicas == nil || *is.TerminatingReplicas == 0)
}

// awaitFailing waits until the Pods of failingCows fail.
func (v visit) awaitFailing() *failingCows {
	v.t.Helper()
	v.needsNode()
	v.prepare()
	v.EventuallyWithin(v.ctx, v.t, "the Pods of two Lolcows run", startPatience, v.herd.Changed, func() (string, bool) {
		return "one of their Deployments is not rolled out", v.makeFail()
	})
	return v.herd.failingCows
}

func degradedImage() types.Feature {
	return features.New("an image that can't be pulled is reported").
		Assess("by name, until it is gone", check.Assess(assess(func(v visit) {
			c := v.awaitFailing().image
			v.conditions(c, "another client has added a container whose image does not exist", podPatience,
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{missingImage}})
			v.sidecars(c)
			v.conditions(c, "the container is gone", podPatience,
				workload.Wanted{Of: degradedType, Status: "False"}, workload.Wanted{Of: availableType, Status: "True"})
		}))).Feature()
}

func degradedCrash() types.Feature {
	return features.New("a container that crashes is reported").
		Assess("until it is gone", check.Assess(assess(func(v visit) {
			c := v.awaitFailing().crash
			v.conditions(c, "another client has added a container that ends with an error each time", podPatience,
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{"parasol"}})
			v.sidecars(c)
			v.conditions(c, "the container is gone", podPatience, workload.Wanted{Of: degradedType, Status: "False"})
			v.herd.first, v.herd.failingCows = nil, nil // no check after this one needs a page
		}))).Feature()
}

func quota() types.Feature {
	return features.New("a quota that lets no Pod in is reported").
		Assess("and nothing is called available", check.Assess(assess(func(v visit) {
			c := v.unchangedCow()
			v.conditions(c, "a ResourceQuota lets no Pod into the namespace", statusPatience,
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{"quota"}},
				workload.Wanted{Of: availableType, Status: "False"})
		}))).Feature()
}

func scenario(v visit) {
	const patience = 10 * time.Second
	a, b := v.herd.draw(paddock), v.herd.draw(paddock)
	v.create(a)
	v.asSpecifiedWithin(patience, a)
	v.setGreeting(a, v.herd.drawGreeting())
	v.create(b)
	v.asSpecifiedWithin(patience, a, b)
	v.setPort(a, v.herd.ports.Draw())
	page, wrong := v.herd.service(b)
	if wrong == "" {
		v.OK(v.t, "deleting a Service by hand",
			workload.IgnoreGone(v.herd.Client.CoreV1().Services(b.Namespace).Delete(v.ctx, page.Name, deleteNow)))
	}
	v.asSpecifiedWithin(patience, a)
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("the Service of %s, deleted by hand, is made again", b.Name),
		patience, v.herd.Changed, func() (string, bool) {
			if wrong := v.herd.wrong(b); wrong != "" {
				return wrong, false
			}
			again, _ := v.herd.service(b)
			return workload.Unseen, again.UID != page.UID
		})
	v.conditions(a, "no Pod is let in", patience,
		workload.Wanted{Of: degradedType, Status: "True"}, workload.Wanted{Of: availableType, Status: "False"})
	v.remove(b)
	v.setGreeting(a, v.herd.drawGreeting())
	v.asSpecifiedWithin(patience, a)
	v.collect(b)
	v.remove(a)
	v.collect(a)
	v.staysGone(a, b)
}
