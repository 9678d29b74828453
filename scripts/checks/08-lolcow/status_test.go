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
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

// The types of conditions.
const (
	availableType   = "Available"
	progressingType = "Progressing"
	degradedType    = "Degraded"
)

var deleteNow = metav1.DeleteOptions{}

// statusPatience is how long an operator may be silent until a condition is right: what it is about takes its time, as
// a Pod that starts.
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
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("%s: of %s %s", why, c.Name, strings.Join(wants, ", and ")),
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
			if !v.herd.first.regreeted { // unless the check greeting has changed it
				isWell("the page is served")
				v.regreet()
			}
			isWell("the new greeting is rolled out")
			v.probed(c)
		}))).Feature()
}

// probed fails if nothing asks the server of a cow whether it answers: then a Pod counts as ready when its process has
// begun, Available is True before the page is served, and a rollout ends Pods that answer before the new ones do.
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

// sidecars lets another client set the containers that it adds to the Deployment of a cow; without any, it removes them
// again.
func (v visit) sidecars(c *cow, sidecars ...corev1.Container) {
	v.t.Helper()
	v.editDeployment(c, func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		others := func(container corev1.Container) bool { return container.Name == "shade" || container.Name == "parasol" }
		pod.Containers = append(slices.DeleteFunc(pod.Containers, others), sidecars...)
	})
}

// admit lets things go wrong with the Pods of the patients, if both are well by now and it has not done so: the checks
// that look at them come later. Another client adds the sidecars that fail: the image of one can't be pulled, and the
// other one ends again and again. They fail so late that the Deployment does not change any more.
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

// shade is a container that lets the one after it begin some seconds later. On a busy machine a Deployment's controller
// takes about one to tell of a new Pod.
func shade(seconds int64) corev1.Container {
	return corev1.Container{
		Name: "shade", Image: pageImage, Args: []string{":9091"},
		Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}},
	}
}

// rolledOut reports whether all Pods of a cow are up to date, ready, and none is about to end: nothing more changes in
// its Deployment.
func (h *herd) rolledOut(c *cow) bool {
	deployment, wrong := h.deployment(c)
	is := deployment.Status
	return wrong == "" && is.ObservedGeneration == deployment.Generation && is.UpdatedReplicas == deref(deployment.Spec.Replicas) &&
		is.AvailableReplicas == is.UpdatedReplicas && is.Replicas == is.UpdatedReplicas &&
		(is.TerminatingReplicas == nil || *is.TerminatingReplicas == 0)
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
			v.conditions(c, "another client has added a container whose image does not exist", podPatience,
				workload.Wanted{Of: degradedType, Status: "True", Says: []string{missingImage}})
			v.sidecars(c)
			v.conditions(c, "the container is gone", podPatience,
				workload.Wanted{Of: degradedType, Status: "False"}, workload.Wanted{Of: availableType, Status: "True"})
		}))).Feature()
}

func degradedCrash() types.Feature {
	return features.New("a container that crashes is reported").
		Assess("until it is gone", check.Assess(assess(func(v visit) {
			c := v.admitted().crash
			v.conditions(c, "another client has added a container that ends with an error each time", podPatience,
				workload.Wanted{Of: degradedType, Status: "True", Says: []string{"parasol"}})
			v.sidecars(c)
			v.conditions(c, "the container is gone", podPatience, workload.Wanted{Of: degradedType, Status: "False"})
			v.herd.first, v.herd.patients = nil, nil // no check after this one needs a page
		}))).Feature()
}

func quota() types.Feature {
	return features.New("a quota that lets no Pod in is reported").
		Assess("and nothing is called available", check.Assess(assess(func(v visit) {
			c := v.calm()
			v.conditions(c, "a ResourceQuota lets no Pod into the namespace", statusPatience,
				workload.Wanted{Of: degradedType, Status: "True", Says: []string{"quota"}},
				workload.Wanted{Of: availableType, Status: "False"})
		}))).Feature()
}

func portRange() types.Feature {
	return features.New("a port that is no node port is reported").
		Assess("until it is another one", check.Assess(assess(func(v visit) {
			c := v.herd.draw(paddock)
			c.port = int32(1000 + v.herd.random.IntN(20000)) //nolint:gosec // it is below 32768
			began := v.Audit.Now()
			v.make(c)
			v.conditions(c, "the port is out of the range of node ports", statusPatience,
				workload.Wanted{Of: degradedType, Status: "True", Says: []string{strconv.Itoa(int(c.port))}})
			v.Settle(v.ctx, v.t)
			if len(v.Audit.Since(began, v.ByOperator().And(audit.On("", "services"), audit.Writes, func(e audit.Event) bool {
				return e.Namespace == c.Namespace && e.Code == http.StatusUnprocessableEntity
			}))) == 0 {
				v.Fail(v.t, fmt.Sprintf("the operator asks the API server for port %d of %s: "+
					"the range of node ports is a setting of the API server", c.port, c.Name),
					"it has sent no request for a Service with this port")
			}
			v.goesOn(c)
			refused := strconv.Itoa(int(c.port))
			v.move(c, v.herd.ports.Draw())
			v.asSpecified(c)
			v.overcomes(c, refused)
		}))).Feature()
}

// goesOn fails unless the operator keeps working on the Deployment of a cow whose port is refused.
func (v visit) goesOn(c *cow) {
	v.t.Helper()
	hasDeployment := func(why string, other apitypes.UID) {
		v.t.Helper()
		expected := fmt.Sprintf("the port of %s is refused, and its Deployment has the greeting %q all the same: %s", c.Name, c.greeting, why)
		v.Eventually(v.ctx, v.t, expected, v.herd.Changed, func() (string, bool) {
			deployment, wrong := v.herd.deployment(c)
			switch {
			case wrong != "":
				return wrong, false
			case deployment.UID == other:
				return workload.Unseen, false
			}
			return "it does not have it", greets(&deployment.Spec.Template.Spec, c.greeting)
		})
	}
	hasDeployment("it is new", "")
	v.say(c, v.herd.drawGreeting())
	hasDeployment("the greeting has changed", "")
	deployment, _ := v.herd.deployment(c)
	v.OK(v.t, "deleting a Deployment", v.herd.Client.AppsV1().Deployments(c.Namespace).Delete(v.ctx, deployment.Name, deleteNow))
	hasDeployment("it was deleted by hand", deployment.UID)
}

// trouble is a write that the API server answers with an error.
type trouble struct {
	what     string
	resource string
	answer   workload.Answer
	// change makes the operator send the write; nil: the Lolcow is created.
	change func(visit, *cow)
	of     *cow
}

// errorReported lets the API server answer with errors when the operator creates and updates children.
func errorReported() types.Feature {
	return features.New("an error of the API server is reported").
		Assess("while it lasts", check.Assess(assess(func(v visit) {
			troubles := []*trouble{
				{what: "500 when the Service is created", resource: "services", answer: workload.InternalError},
				{what: "503 when the Deployment is created", resource: "deployments", answer: workload.Unavailable},
				{
					what: "504 when the Deployment is updated", resource: "deployments", answer: workload.TimedOut,
					change: func(v visit, c *cow) { v.say(c, v.herd.drawGreeting()) },
				},
				{
					what: "429 when the Service is updated", resource: "services", answer: workload.TooManyRequests,
					change: func(v visit, c *cow) { v.move(c, v.herd.ports.Draw()) },
				},
			}
			of := map[string]*trouble{}
			var all, before []*cow
			for _, one := range troubles {
				one.of = v.herd.draw(stable)
				of[one.of.Name] = one
				all = append(all, one.of)
				if one.change != nil {
					before = append(before, v.make(one.of))
				}
			}
			v.asSpecified(before...)
			end, err := v.herd.Answering(v.ctx, v.OperatorUser(), stable,
				[]string{"services", "deployments"}, func(resource, name string) workload.Answer {
					if one := of[name]; one != nil && one.resource == resource {
						return one.answer
					}
					return workload.Answer{}
				})
			v.OK(v.t, "registering a webhook", err)
			defer end()
			for _, one := range troubles {
				if one.change != nil {
					one.change(v, one.of)
				} else {
					v.make(one.of)
				}
			}
			for _, one := range troubles {
				wanted := []workload.Wanted{{Of: degradedType, Status: "True", Says: []string{workload.DownName}}}
				if one.change == nil {
					wanted = append(wanted, workload.Wanted{Of: availableType, Status: "False"})
				}
				v.conditions(one.of, "the API server answers "+one.what+", since a webhook says so", statusPatience, wanted...)
			}
			end()
			v.asSpecifiedWithin(healPatience, all...)
			for _, c := range all {
				v.overcomes(c, workload.DownName)
			}
		}))).Feature()
}

// overcomes waits until Degraded of a cow no longer mentions an error. It stays True, because a quota lets no Pod in.
func (v visit) overcomes(c *cow, failure string) {
	v.t.Helper()
	expected := fmt.Sprintf("the API server accepts what it refused before: Degraded of %s no longer mentions %s", c.Name, failure)
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
		o.writes = len(v.eventWrites(o.cow, x.Since))
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
			v.overcomes(c, strconv.Itoa(int(c.port)))
		}))).Feature()
}

// eventsOf are the Events about an object, of whichever API they were written by.
func (h *herd) eventsOf(ctx context.Context, object *unstructured.Unstructured) ([]corev1.Event, error) {
	list, err := h.Client.CoreV1().Events(object.GetNamespace()).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + object.GetName(),
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the Events of %s: %w", object.GetName(), err)
	}
	return slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID != object.GetUID() }), nil
}

// eventWrites are the operator's writes of Events about a cow since a mark.
func (v visit) eventWrites(c *cow, since audit.Mark) []audit.Event {
	return v.Audit.Since(since, v.ByOperator().And(audit.Writes, func(e audit.Event) bool {
		return e.Resource == "events" && e.Namespace == c.Namespace &&
			strings.HasPrefix(e.Name, c.Name+".") && e.Code < http.StatusMultipleChoices
	}))
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
			expected := fmt.Sprintf("of %s, whose node port %s was taken for some seconds, "+
				"one Event of type Warning says so, and it is written once", taken.cow.Name, port)
			switch {
			case len(about) == 0:
				v.Fail(v.t, expected, fmt.Sprintf("of %s about it none is a Warning that names the port",
					workload.Counted(len(taken.events), "Event")), told...)
			case taken.writes > mostEvents:
				v.Fail(v.t, expected, fmt.Sprintf("the operator wrote Events about it %d times: one at each try", taken.writes), told...)
			}
			taken.End()
			v.herd.taken = nil
		}))).
		Assess("and only when the status says it", check.Assess(assess(visit.noEventBeforeTheStatus))).Feature()
}

// leastRefused is how often the API server refuses a status until the check looks at the Events.
const leastRefused = 3

// noEventBeforeTheStatus lets the API server refuse the status that says that a port is refused: then no condition has
// changed yet.
func (v visit) noEventBeforeTheStatus() {
	v.t.Helper()
	c := v.make(v.herd.draw(stable))
	v.asSpecified(c)
	v.idle(c)
	end, err := v.herd.Answering(v.ctx, v.OperatorUser(), stable,
		[]string{lolcows.Resource + "/status"}, func(_, name string) workload.Answer {
			if name == c.Name {
				return workload.InternalError
			}
			return workload.Answer{}
		})
	v.OK(v.t, "registering a webhook", err)
	defer end()
	began := v.Audit.Now()
	v.move(c, 1000+c.port%1000)
	v.EventuallyWithin(v.ctx, v.t,
		fmt.Sprintf("the operator writes the status of %s again and again, while the API server refuses it", c.Name),
		statusPatience, v.Audit.Changed, func() (string, bool) {
			refused := v.Audit.Since(began, v.ByOperator().And(audit.On(lolcows.Group, lolcows.Resource), audit.Writes, func(e audit.Event) bool {
				return e.Namespace == c.Namespace && e.Name == c.Name && e.Code >= http.StatusBadRequest
			}))
			return fmt.Sprintf("it has sent %d such requests", len(refused)), len(refused) >= leastRefused
		})
	v.Pause(v.ctx, v.t, doneSoon) // an event recorder writes in the background
	written, err := v.herd.eventsOf(v.ctx, c.object)
	v.OK(v.t, "asking for Events", err)
	if i := slices.IndexFunc(written, c.portIsTaken); i >= 0 {
		v.Fail(v.t, fmt.Sprintf("no condition of %s has changed, since the API server refuses its status: "+
			"there is no Event about port %d yet", c.Name, c.port),
			fmt.Sprintf("there is an Event %s: %s", written[i].Reason, written[i].Message))
	}
	end()
	v.conditions(c, "the API server accepts the status again", healPatience,
		workload.Wanted{Of: degradedType, Status: "True", Says: []string{strconv.Itoa(int(c.port))}})
}

// mostEvents are as many as have a reason while a port is taken: that it is, that there is a Deployment, and that it
// has no Pods.
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
	v.say(a, v.herd.drawGreeting())
	v.asSpecifiedWithin(patience, a)
	v.collect(b)
	v.remove(a)
	v.collect(a)
	v.staysGone(a, b)
}
