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

// occupation is a Lolcow whose node port another Service has for a while, and what its operator does meanwhile.
type occupation struct {
	cow   *cow
	began time.Time
	since audit.Mark
	// seen is closed when the operator has reported it. Then, and when it has lasted for occupied, the port is given back, and done is closed.
	seen, done chan struct{}
	end        context.CancelFunc

	// These are for who has waited for done. tries are the writes that were refused, took is how long it lasted, writes how often the operator
	// has written Events about it, and events what there was then.
	err    error
	tries  []audit.Event
	took   time.Duration
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

// occupy takes the port of a Lolcow, if that has not been done. What comes of it takes some seconds, in which other checks run.
func (v visit) occupy() *occupation {
	v.t.Helper()
	if v.herd.taken != nil {
		return v.herd.taken
	}
	c := v.herd.draw(corner)
	squatter := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "squatter-" + c.Name, Namespace: corner, Labels: map[string]string{existing.Label: "true"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "squatter"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80), NodePort: c.port}},
		},
	}
	_, err := v.herd.Client.CoreV1().Services(corner).Create(v.ctx, squatter, metav1.CreateOptions{})
	v.OK(v.t, "taking a node port", err)
	o := &occupation{cow: c, since: v.Audit.Now(), seen: make(chan struct{}), done: make(chan struct{})}
	v.make(c)
	o.began = time.Now()
	ctx, end := context.WithCancel(v.ctx)
	o.end = end
	v.herd.taken = o
	go func() {
		defer close(o.done)
		o.err = o.last(ctx, v, squatter.Name)
	}()
	return o
}

// wants is what the operator should report.
func (o *occupation) wants() workload.Wanted {
	return workload.Wanted{Of: degradedType, Status: "True", Says: []string{strconv.Itoa(int(o.cow.port))}}
}

// last waits for the end of an occupation. It may not use what ends a check.
func (o *occupation) last(ctx context.Context, v visit, squatter string) error {
	for seen := false; ; {
		changed := v.herd.Changed()
		if !seen && v.herd.Unlike(o.cow.NamespacedName, o.cow.object.GetGeneration(), []workload.Wanted{o.wants()}) == "" {
			seen = true
			close(o.seen)
		}
		left := time.Until(o.began.Add(occupied))
		if seen && left <= 0 {
			break
		}
		select {
		case <-changed:
		case <-time.After(max(left, pagePoll)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	mine := func(e audit.Event) bool {
		return e.Namespace == o.cow.Namespace && (e.Name == o.cow.Name || strings.HasPrefix(e.Name, o.cow.Name+"-"))
	}
	o.tries = v.Audit.Since(o.since, v.ByOperator().And(audit.On("", "services"), audit.Writes, mine, func(e audit.Event) bool { return e.Code == http.StatusUnprocessableEntity }))
	o.took = time.Since(o.began)
	o.writes = len(v.Audit.Since(o.since, v.ByOperator().And(audit.Writes, func(e audit.Event) bool {
		return e.Resource == "events" && e.Namespace == o.cow.Namespace && strings.HasPrefix(e.Name, o.cow.Name+".") && e.Code < http.StatusMultipleChoices
	})))
	var err error
	if o.events, err = v.herd.eventsOf(ctx, o.cow); err != nil {
		return err
	}
	if err := v.herd.Client.CoreV1().Services(corner).Delete(ctx, squatter, deleteNow); err != nil {
		return fmt.Errorf("giving the node port back: %w", err)
	}
	return nil
}

func portTaken() types.Feature {
	return features.New("a port that is taken is reported").
		Assess("tried again later and later, and served when it is free", check.Assess(assess(func(v visit) {
			o := v.occupy()
			v.BeganAt(o.since)
			c := o.cow
			expected := fmt.Sprintf("node port %d is another Service's: of %s %s", c.port, c.Name, o.wants())
			v.EventuallyWithin(v.ctx, v.t, expected, statusPatience, v.herd.Changed, func() (string, bool) {
				select {
				case <-o.seen:
					return "", true
				default:
				}
				unlike := v.herd.Unlike(c.NamespacedName, c.object.GetGeneration(), []workload.Wanted{o.wants()})
				return unlike, unlike == ""
			})
			v.penned() // others are not held up
			select {
			case <-o.done:
			case <-v.ctx.Done():
				v.OK(v.t, "waiting until the port is free", context.Cause(v.ctx))
			}
			v.OK(v.t, "taking a node port for a while", o.err)
			v.Measure("tries while the port was taken", float64(len(o.tries)), "requests")
			if most := mostTries * max(1, int(o.took/occupied)); len(o.tries) > most {
				v.Fail(v.t, fmt.Sprintf("while port %d is taken the operator tries again later and later: at most %d times in %s", c.port, most, o.took.Round(time.Second)),
					fmt.Sprintf("it tried %d times: a loop", len(o.tries)), audit.Lines(o.tries)...)
			}
			v.asSpecifiedWithin(healPatience, c)
		}))).Feature()
}

// eventsOf are the Events about a cow, of whichever API they were written by.
func (h *herd) eventsOf(ctx context.Context, c *cow) ([]corev1.Event, error) {
	list, err := h.Client.CoreV1().Events(c.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + c.Name})
	if err != nil {
		return nil, fmt.Errorf("asking for the Events of %s: %w", c.Name, err)
	}
	return slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID != c.object.GetUID() }), nil
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
				if event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, port) {
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
			taken.end()
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
