// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/clusters/existing"
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

// wanted is a condition as it should be.
type wanted struct {
	of, status string
	// says must stand in its message, letters of either case.
	says string
}

func (w wanted) String() string {
	text := w.of + " is " + w.status
	if w.says != "" {
		text += fmt.Sprintf(" with a message that has %q", w.says)
	}
	return text
}

// unlike says how the conditions of a cow differ from what they should be, for its present generation; empty: they do not.
func (h *herd) unlike(c *cow, all []wanted) string {
	object, there := h.Get(c.NamespacedName)
	if !there {
		return c.Name + " is gone"
	}
	for _, w := range all {
		is, there := workload.ConditionOf(object, w.of)
		told := fmt.Sprintf("%s of %s is %s (%s: %s)", w.of, c.Name, is.Status, is.Reason, oneLine(is.Message))
		switch {
		case !there:
			return fmt.Sprintf("%s has no condition %s", c.Name, w.of)
		case is.ObservedGeneration != object.GetGeneration() || object.GetGeneration() < c.object.GetGeneration():
			return fmt.Sprintf("%s of %s has observedGeneration %d, and metadata.generation is %d", w.of, c.Name, is.ObservedGeneration, c.object.GetGeneration())
		case is.Status != w.status:
			return told
		case !strings.Contains(strings.ToLower(is.Message), strings.ToLower(w.says)):
			return told
		}
	}
	return ""
}

// statusPatience is how long an operator may be silent until a condition is right: what it is about takes its time, as a Pod that starts.
const statusPatience = 10 * time.Second

// podPatience is statusPatience for what a Pod must have done before, which takes its time on a busy machine.
const podPatience = 20 * time.Second

// conditions waits until conditions of a cow are as wanted, for its present generation.
func (v visit) conditions(c *cow, why string, patience time.Duration, all ...wanted) {
	v.t.Helper()
	var wants []string
	for _, w := range all {
		wants = append(wants, w.String())
	}
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("%s: of %s %s", why, c.Name, strings.Join(wants, ", and ")), patience, v.herd.Changed, func() (string, bool) {
		unlike := v.herd.unlike(c, all)
		return unlike, unlike == ""
	})
}

func available() types.Feature {
	return features.New("conditions follow what is there").
		Assess("for the generation that they are about", check.Assess(assess(func(v visit) {
			c := v.served()
			for range 2 {
				v.conditions(c, "the page is served", podPatience, wanted{of: availableType, status: "True"}, wanted{of: degradedType, status: "False"}, wanted{of: progressingType, status: "False"})
				v.say(c, v.herd.drawGreeting())
			}
			v.conditions(c, "the new greeting is rolled out", podPatience, wanted{of: availableType, status: "True"}, wanted{of: degradedType, status: "False"})
		}))).Feature()
}

// sidecar lets somebody else add a container to the Deployment of a cow, or take it out again where image is empty.
func (v visit) sidecar(c *cow, image string, args ...string) {
	v.t.Helper()
	v.editDeployment(c, func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		var kept []corev1.Container
		for _, container := range pod.Containers {
			if container.Name != "parasol" {
				kept = append(kept, container)
			}
		}
		if image != "" {
			kept = append(kept, corev1.Container{Name: "parasol", Image: image, Args: args})
		}
		pod.Containers = kept
	})
}

func degradedImage() types.Feature {
	const missing = "operator-labs/parasol:v0"
	return features.New("an image that can't be pulled is reported").
		Assess("by name, until it is gone", check.Assess(assess(func(v visit) {
			c := v.served()
			v.sidecar(c, missing)
			v.conditions(c, "somebody has added a container whose image there is not", podPatience, wanted{of: degradedType, status: "True", says: missing})
			v.sidecar(c, "")
			v.conditions(c, "the container is gone", podPatience, wanted{of: degradedType, status: "False"}, wanted{of: availableType, status: "True"})
		}))).Feature()
}

func degradedCrash() types.Feature {
	return features.New("a container that crashes is reported").
		Assess("until it is gone", check.Assess(assess(func(v visit) {
			c := v.served()
			v.sidecar(c, "operator-labs/lolcow:v1", "this", "is", "wrong")
			v.conditions(c, "somebody has added a container that ends with an error each time", podPatience, wanted{of: degradedType, status: "True", says: "parasol"})
			v.sidecar(c, "")
			v.conditions(c, "the container is gone", podPatience, wanted{of: degradedType, status: "False"})
		}))).Feature()
}

func quota() types.Feature {
	return features.New("a quota that lets no Pod in is reported").
		Assess("and nothing is called available", check.Assess(assess(func(v visit) {
			c := v.make(v.herd.draw(paddock))
			v.conditions(c, "a ResourceQuota lets no Pod into the namespace", statusPatience, wanted{of: degradedType, status: "True", says: "quota"},
				wanted{of: availableType, status: "False"})
		}))).Feature()
}

func portRange() types.Feature {
	return features.New("a port that is no node port is reported").
		Assess("until it is another one", check.Assess(assess(func(v visit) {
			c := v.herd.draw(paddock)
			c.port = int32(1000 + v.herd.random.IntN(20000)) //nolint:gosec // it is below 32768
			v.make(c)
			v.conditions(c, "the port is out of the range of node ports", statusPatience, wanted{of: degradedType, status: "True", says: strconv.Itoa(int(c.port))})
			v.move(c, v.herd.drawPort())
			v.asSpecified(c)
		}))).Feature()
}

// refusal is what the check port-taken saw, for the one that counts Events.
type refusal struct {
	*cow
	// writes is how often the operator has written Events about it while the port was taken, and events what there was then.
	writes int
	events []corev1.Event
}

const (
	// occupied is how long the port stays taken. An operator with the work queue's back-off tries ten times meanwhile.
	occupied = 3 * time.Second
	// mostTries is how often the same may be refused within occupied: who tries again at once does so hundreds of times.
	mostTries = 15
	// healPatience is how long an operator may wait before it tries again.
	healPatience = 20 * time.Second
)

func portTaken() types.Feature {
	return features.New("a port that is taken is reported").
		Assess("tried again later and later, and served when it is free", check.Assess(assess(func(v visit) {
			c := v.herd.draw(paddock)
			squatter := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "squatter-" + c.Name, Namespace: stable, Labels: map[string]string{existing.Label: "true"}},
				Spec: corev1.ServiceSpec{
					Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "squatter"},
					Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80), NodePort: c.port}},
				},
			}
			_, err := v.herd.Client.CoreV1().Services(stable).Create(v.ctx, squatter, metav1.CreateOptions{})
			v.OK(v.t, "taking a node port", err)
			since := v.Audit.Now()
			v.make(c)
			began := time.Now()
			v.conditions(c, fmt.Sprintf("node port %d is another Service's", c.port), statusPatience, wanted{of: degradedType, status: "True", says: strconv.Itoa(int(c.port))})
			v.penned() // others are not held up
			v.Pause(v.ctx, v.t, time.Until(began.Add(occupied)))
			tries := v.Audit.Since(since, v.ByOperator().And(audit.On("", "services"), audit.Writes, func(e audit.Event) bool {
				return e.Namespace == c.Namespace && (e.Name == c.Name || strings.HasPrefix(e.Name, c.Name+"-")) && e.Code == http.StatusUnprocessableEntity
			}))
			took := time.Since(began)
			v.Measure("tries while the port was taken", float64(len(tries)), "requests")
			if most := mostTries * max(1, int(took/occupied)); len(tries) > most {
				v.Fail(v.t, fmt.Sprintf("while port %d is taken the operator tries again later and later: at most %d times in %s", c.port, most, took.Round(time.Second)),
					fmt.Sprintf("it tried %d times: a loop", len(tries)), lines(tries)...)
			}
			v.herd.taken = &refusal{cow: c, events: v.eventsOf(c), writes: len(v.Audit.Since(since, v.ByOperator().And(audit.Writes, func(e audit.Event) bool {
				return e.Resource == "events" && e.Namespace == c.Namespace && strings.HasPrefix(e.Name, c.Name+".") && e.Code < http.StatusMultipleChoices
			})))}
			v.OK(v.t, "giving the node port back", v.herd.Client.CoreV1().Services(stable).Delete(v.ctx, squatter.Name, deleteNow))
			v.asSpecifiedWithin(healPatience, c)
		}))).Feature()
}

// eventsOf are the Events about a cow, of whichever API they were written by.
func (v visit) eventsOf(c *cow) []corev1.Event {
	v.t.Helper()
	list, err := v.herd.Client.CoreV1().Events(c.Namespace).List(v.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + c.Name})
	v.OK(v.t, "asking for the Events of "+c.Name, err)
	var all []corev1.Event
	for _, event := range list.Items {
		if event.InvolvedObject.UID == c.object.GetUID() {
			all = append(all, event)
		}
	}
	return all
}

// An Event is written when something becomes so, and not each time when it is so still.
func events() types.Feature {
	return features.New("an Event says that a port is taken").
		Assess("once", check.Assess(assess(func(v visit) {
			taken := v.herd.taken
			if taken == nil {
				v.Fail(v.t, "the port was taken once", "it was not")
			}
			port := strconv.Itoa(int(taken.port))
			var about, told []string
			for _, event := range taken.events {
				told = append(told, fmt.Sprintf("Event %s %s × %d: %s", event.Type, event.Reason, max(1, event.Count), event.Message))
				if event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, port) {
					about = append(about, event.Reason)
				}
			}
			expected := fmt.Sprintf("of %s, whose node port %s was taken for some seconds, one Event of type Warning says so, and it is written once", taken.Name, port)
			switch {
			case len(about) == 0:
				v.Fail(v.t, expected, fmt.Sprintf("of %s about it none is a Warning that names the port", counted(len(taken.events), "Event")), told...)
			case taken.writes > mostEvents:
				v.Fail(v.t, expected, fmt.Sprintf("the operator wrote Events about it %d times: one at each try", taken.writes), told...)
			}
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
	v.move(a, v.herd.drawPort())
	page, wrong := v.herd.service(b)
	if wrong == "" {
		v.OK(v.t, "deleting a Service by hand", ignoreGone(v.herd.Client.CoreV1().Services(b.Namespace).Delete(v.ctx, page.Name, deleteNow)))
	}
	v.asSpecifiedWithin(patience, a)
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("the Service of %s, deleted by hand, is made again", b.Name), patience, v.herd.Changed, func() (string, bool) {
		if wrong := v.herd.wrong(b); wrong != "" {
			return wrong, false
		}
		again, _ := v.herd.service(b)
		return "the watch has not told of the deletion", again.UID != page.UID
	})
	v.conditions(a, "no Pod is let in", patience, wanted{of: degradedType, status: "True"}, wanted{of: availableType, status: "False"})
	v.remove(b)
	v.say(a, v.herd.drawGreeting())
	v.asSpecifiedWithin(patience, a)
	v.collect(b)
	v.remove(a)
	v.collect(a)
	v.staysGone(a, b)
}

// ignoreGone is nil for what is not there any more.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
