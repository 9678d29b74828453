// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// The types of conditions.
const (
	availableType   = "Available"
	progressingType = "Progressing"
	degradedType    = "Degraded"
)

var deleteNow = metav1.DeleteOptions{}

// statusPatience is how long an operator may be silent until a condition is right: what it is about takes its time, as a Pod that starts.
const statusPatience = 10 * time.Second

// podPatience is statusPatience for what a Pod must have done before, which takes its time on a busy machine.
const podPatience = 30 * time.Second

// conditions waits until conditions of a cow are as wanted, for its present generation.
func (v visit) conditions(c *cow, why string, patience time.Duration, all ...workload.Wanted) {
	v.t.Helper()
	var wants []string
	for _, w := range all {
		wants = append(wants, w.String())
	}
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("%s: of %s %s", why, c.Name, strings.Join(wants, ", and ")), patience, v.herd.Changed, func() (string, bool) {
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
				v.conditions(c, why, podPatience, workload.Wanted{Of: availableType, Status: "True"}, workload.Wanted{Of: degradedType, Status: "False"}, workload.Wanted{Of: progressingType, Status: "False"})
			}
			if !v.herd.first.regreeted { // unless the check greeting has changed it
				isWell("the page is served")
				v.regreet()
			}
			isWell("the new greeting is rolled out")
		}))).Feature()
}

// sidecars lets somebody else add containers to the Deployment of a cow, or take them out again: none.
func (v visit) sidecars(c *cow, sidecars ...corev1.Container) {
	v.t.Helper()
	v.editDeployment(c, func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		others := func(container corev1.Container) bool { return container.Name == "shade" || container.Name == "parasol" }
		pod.Containers = append(slices.DeleteFunc(pod.Containers, others), sidecars...)
	})
}

// admit lets things go wrong with the Pods of the patients, if both are well by now and it has not done so: the checks that look at them
// come later. What goes wrong is the sidecars', which somebody else has added. It comes late enough that no change of the Deployment tells
// of it: one can't be pulled when the container before it has run for a while, the other one ends again and again.
func (v visit) admit() bool {
	v.t.Helper()
	p := v.herd.patients
	if !p.admitted && v.herd.rolledOut(p.image) && v.herd.rolledOut(p.crash) {
		v.sidecars(p.image, shade(1), corev1.Container{Name: "parasol", Image: missingImage})
		v.sidecars(p.crash, shade(2), corev1.Container{
			Name: "parasol", Image: pageImage, Args: []string{"this", "is", "wrong"},
			// Without it the Pod would be ready for the moment in which it runs, and the Deployment would tell of that.
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}},
		})
		p.admitted = true
	}
	return p.admitted
}

const (
	pageImage    = "operator-labs/lolcow:v1"
	missingImage = "operator-labs/parasol:v0"
)

// shade is a container that lets the one after it begin some seconds later. On a busy machine a Deployment's controller takes about one to
// tell of a new Pod.
func shade(seconds int64) corev1.Container {
	return corev1.Container{
		Name: "shade", Image: pageImage, Args: []string{":9091"},
		Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}},
	}
}

// rolledOut reports whether all Pods of a cow are up to date, ready, and none is about to end: nothing more changes in its Deployment.
func (h *herd) rolledOut(c *cow) bool {
	deployment, wrong := h.deployment(c)
	is := deployment.Status
	return wrong == "" && is.ObservedGeneration == deployment.Generation && is.UpdatedReplicas == deref(deployment.Spec.Replicas) &&
		is.AvailableReplicas == is.UpdatedReplicas && is.Replicas == is.UpdatedReplicas && (is.TerminatingReplicas == nil || *is.TerminatingReplicas == 0)
}

// admitted waits until the patients are.
func (v visit) admitted() *patients {
	v.t.Helper()
	v.needsNode()
	v.begin()
	v.EventuallyWithin(v.ctx, v.t, "the Pods of two Lolcows run", startPatience, v.herd.Changed, func() (string, bool) {
		return "one of their Deployments is not rolled out", v.admit()
	})
	return v.herd.patients
}

func degradedImage() types.Feature {
	return features.New("an image that can't be pulled is reported").
		Assess("by name, until it is gone", check.Assess(assess(func(v visit) {
			c := v.admitted().image
			v.conditions(c, "somebody has added a container whose image there is not", podPatience, workload.Wanted{Of: degradedType, Status: "True", Says: []string{missingImage}})
			v.sidecars(c)
			v.conditions(c, "the container is gone", podPatience, workload.Wanted{Of: degradedType, Status: "False"}, workload.Wanted{Of: availableType, Status: "True"})
		}))).Feature()
}

func degradedCrash() types.Feature {
	return features.New("a container that crashes is reported").
		Assess("until it is gone", check.Assess(assess(func(v visit) {
			c := v.admitted().crash
			v.conditions(c, "somebody has added a container that ends with an error each time", podPatience, workload.Wanted{Of: degradedType, Status: "True", Says: []string{"parasol"}})
			v.sidecars(c)
			v.conditions(c, "the container is gone", podPatience, workload.Wanted{Of: degradedType, Status: "False"})
			v.herd.first, v.herd.patients = nil, nil // no check after this one needs a page
		}))).Feature()
}

func quota() types.Feature {
	return features.New("a quota that lets no Pod in is reported").
		Assess("and nothing is called available", check.Assess(assess(func(v visit) {
			c := v.calm()
			v.conditions(c, "a ResourceQuota lets no Pod into the namespace", statusPatience, workload.Wanted{Of: degradedType, Status: "True", Says: []string{"quota"}},
				workload.Wanted{Of: availableType, Status: "False"})
		}))).Feature()
}

func portRange() types.Feature {
	return features.New("a port that is no node port is reported").
		Assess("until it is another one", check.Assess(assess(func(v visit) {
			c := v.herd.draw(paddock)
			c.port = int32(1000 + v.herd.random.IntN(20000)) //nolint:gosec // it is below 32768
			v.make(c)
			v.conditions(c, "the port is out of the range of node ports", statusPatience, workload.Wanted{Of: degradedType, Status: "True", Says: []string{strconv.Itoa(int(c.port))}})
			v.move(c, v.herd.ports.Draw())
			v.asSpecified(c)
		}))).Feature()
}

// errorReported lets the API server answer with an error whenever a Service is created.
func errorReported() types.Feature {
	return features.New("an error of the API server is reported").
		Assess("while it lasts", check.Assess(assess(func(v visit) {
			isUp, err := v.herd.WebhookDown(v.ctx, stable)
			v.OK(v.t, "registering a webhook that is down", err)
			defer isUp()
			c := v.make(v.herd.draw(stable))
			v.conditions(c, "the API server answers with an error when the Service is created, since a webhook is down", statusPatience,
				workload.Wanted{Of: degradedType, Status: "True", Says: []string{workload.DownName}},
				workload.Wanted{Of: availableType, Status: "False"})
			isUp()
			v.asSpecifiedWithin(healPatience, c)
			v.overcomes(c, workload.DownName)
		}))).Feature()
}

// overcomes waits until Degraded of a cow no longer mentions an error. It stays True, because a quota lets no Pod in.
func (v visit) overcomes(c *cow, failure string) {
	v.t.Helper()
	expected := fmt.Sprintf("the API server answers again: Degraded of %s no longer mentions its error", c.Name)
	v.EventuallyWithin(v.ctx, v.t, expected, statusPatience, v.herd.Changed, func() (string, bool) {
		object, there := v.herd.Get(c.NamespacedName)
		if !there {
			return "the Lolcow is gone", false
		}
		is, _ := workload.ConditionOf(object, degradedType)
		return fmt.Sprintf("it is %s: %s", is.Status, is.Message), !strings.Contains(is.Message, failure)
	})
}

// occupation is a Lolcow whose node port another Service has for a while.
type occupation struct {
	*workload.Occupation
	cow *cow
	// writes is how often the operator has written Events about it meanwhile, and events what there was at the end.
	writes int
	events []corev1.Event
}

// healPatience is how long an operator may wait before it tries again.
const healPatience = 20 * time.Second

// occupy takes the port of a Lolcow, if that has not been done.
func (v visit) occupy() *occupation {
	v.t.Helper()
	if v.herd.taken != nil {
		return v.herd.taken
	}
	o := &occupation{cow: v.herd.draw(corner)}
	// The event recorder writes in the background: on a busy machine an Event comes after the condition that tells the
	// same.
	look := func(ctx context.Context, x *workload.Occupation) (told bool, err error) {
		o.writes = len(v.Audit.Since(x.Since, v.ByOperator().And(audit.Writes, func(e audit.Event) bool {
			return e.Resource == "events" && e.Namespace == o.cow.Namespace && strings.HasPrefix(e.Name, o.cow.Name+".") && e.Code < http.StatusMultipleChoices
		})))
		o.events, err = v.herd.eventsOf(ctx, x.Owner)
		return slices.ContainsFunc(o.events, o.cow.portIsTaken), err
	}
	taken := workload.Wanted{Of: degradedType, Status: "True", Says: []string{strconv.Itoa(int(o.cow.port))}}
	var err error
	o.Occupation, err = v.herd.Occupy(v.ctx, v.Suite, o.cow.New(), o.cow.port, []workload.Wanted{taken}, look)
	v.OK(v.t, "making a Lolcow whose port is taken", err)
	o.cow.object = o.Owner
	v.herd.taken = o
	return o
}

func portTaken() types.Feature {
	return features.New("a port that is taken is reported").
		Assess("tried again later and later, and served when it is free", check.Assess(assess(func(v visit) {
			o := v.occupy()
			v.BeganAt(o.Since)
			c := o.cow
			v.EventuallyWithin(v.ctx, v.t, o.Expected(), statusPatience, v.herd.Changed, o.Reported)
			v.penned() // others are not held up
			v.OK(v.t, "taking a node port for a while", o.Wait(v.ctx))
			v.Measure("tries while the port was taken", float64(len(o.Tries)), "requests")
			if expected, observed := o.Loop(); observed != "" {
				v.Fail(v.t, expected, observed, audit.Lines(o.Tries)...)
			}
			v.asSpecifiedWithin(healPatience, c)
		}))).Feature()
}

// eventsOf are the Events about an object, of whichever API they were written by.
func (h *herd) eventsOf(ctx context.Context, object *unstructured.Unstructured) ([]corev1.Event, error) {
	list, err := h.Client.CoreV1().Events(object.GetNamespace()).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + object.GetName()})
	if err != nil {
		return nil, fmt.Errorf("asking for the Events of %s: %w", object.GetName(), err)
	}
	return slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID != object.GetUID() }), nil
}

// portIsTaken reports whether an Event is a Warning that names the node port of a cow.
func (c *cow) portIsTaken(event corev1.Event) bool {
	return event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, strconv.Itoa(int(c.port)))
}

// An Event is written when something becomes so, and not each time when it is so still.
func events() types.Feature {
	return features.New("an Event says that a port is taken").
		Assess("once", check.Assess(assess(func(v visit) {
			taken := v.herd.taken
			if taken == nil {
				v.Fail(v.t, "the port was taken once", "it was not")
			}
			port := strconv.Itoa(int(taken.cow.port))
			var about, told []string
			for _, event := range taken.events {
				told = append(told, fmt.Sprintf("Event %s %s × %d: %s", event.Type, event.Reason, max(1, event.Count), event.Message))
				if taken.cow.portIsTaken(event) {
					about = append(about, event.Reason)
				}
			}
			expected := fmt.Sprintf("of %s, whose node port %s was taken for some seconds, one Event of type Warning says so, and it is written once", taken.cow.Name, port)
			switch {
			case len(about) == 0:
				v.Fail(v.t, expected, fmt.Sprintf("of %s about it none is a Warning that names the port", workload.Counted(len(taken.events), "Event")), told...)
			case taken.writes > mostEvents:
				v.Fail(v.t, expected, fmt.Sprintf("the operator wrote Events about it %d times: one at each try", taken.writes), told...)
			}
			taken.End()
			v.herd.taken = nil
		}))).Feature()
}

// mostEvents are as many as have a reason while a port is taken: that it is, that there is a Deployment, and that it has no Pods.
const mostEvents = 4

func scenario(v visit) {
	const patience = 10 * time.Second
	a, b := v.herd.draw(paddock), v.herd.draw(paddock)
	v.make(a)
	v.asSpecifiedWithin(patience, a)
	v.say(a, v.herd.drawGreeting())
	v.make(b)
	v.asSpecifiedWithin(patience, a, b)
	v.move(a, v.herd.ports.Draw())
	page, wrong := v.herd.service(b)
	if wrong == "" {
		v.OK(v.t, "deleting a Service by hand", workload.IgnoreGone(v.herd.Client.CoreV1().Services(b.Namespace).Delete(v.ctx, page.Name, deleteNow)))
	}
	v.asSpecifiedWithin(patience, a)
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("the Service of %s, deleted by hand, is made again", b.Name), patience, v.herd.Changed, func() (string, bool) {
		if wrong := v.herd.wrong(b); wrong != "" {
			return wrong, false
		}
		again, _ := v.herd.service(b)
		return workload.Unseen, again.UID != page.UID
	})
	v.conditions(a, "no Pod is let in", patience, workload.Wanted{Of: degradedType, Status: "True"}, workload.Wanted{Of: availableType, Status: "False"})
	v.remove(b)
	v.say(a, v.herd.drawGreeting())
	v.asSpecifiedWithin(patience, a)
	v.collect(b)
	v.remove(a)
	v.collect(a)
	v.staysGone(a, b)
}
