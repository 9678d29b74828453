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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

// eventsOf returns the Events about an object, regardless of the API by which they were written.
func (h *herd) eventsOf(ctx context.Context, object *unstructured.Unstructured) ([]corev1.Event, error) {
	list, err := h.Client.CoreV1().Events(object.GetNamespace()).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + object.GetName(),
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the Events of %s: %w", object.GetName(), err)
	}
	return slices.DeleteFunc(list.Items, func(event corev1.Event) bool {
		return event.InvolvedObject.UID != object.GetUID()
	}), nil
}

// eventWrites returns the operator's writes of Events about a cow since a mark.
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

// events checks that an Event is written when a state begins, and not again while the state lasts.
func events() types.Feature {
	return features.New("an Event says that a port is taken").
		Assess("once", check.Assess(assess(func(v visit) {
			taken := v.herd.occupation
			if taken == nil {
				v.Fail(v.t, "the port was taken once", "it was not")
			}
			port := strconv.Itoa(int(taken.cow.port))
			var about, lines []string
			for _, event := range taken.events {
				lines = append(lines, fmt.Sprintf("Event %s %s × %d: %s",
					event.Type, event.Reason, max(1, event.Count), event.Message))
				if taken.cow.portIsTaken(event) {
					about = append(about, event.Reason)
				}
			}
			expected := fmt.Sprintf("of %s, whose node port %s was taken for some seconds, "+
				"one Event of type Warning says so, and it is written once", taken.cow.Name, port)
			switch {
			case len(about) == 0:
				v.Fail(v.t, expected, fmt.Sprintf("of %s about it none is a Warning that names the port",
					workload.Counted(len(taken.events), "Event")), lines...)
			case taken.writes > mostEvents:
				v.Fail(v.t, expected,
					fmt.Sprintf("the operator wrote Events about it %d times: one at each try", taken.writes), lines...)
			}
			taken.End()
			v.herd.occupation = nil
		}))).
		Assess("and only when the status says it", check.Assess(assess(visit.noEventBeforeTheStatus))).Feature()
}

// leastRefused is how often the API server refuses a status before the check looks at the Events.
const leastRefused = 3

// noEventBeforeTheStatus makes the API server refuse the status that reports a refused port: at that time no condition
// has changed yet.
func (v visit) noEventBeforeTheStatus() {
	v.t.Helper()
	c := v.create(v.herd.draw(stable))
	v.asSpecified(c)
	v.scaleToZero(c)
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
	v.setPort(c, 1000+c.port%1000)
	v.EventuallyWithin(v.ctx, v.t,
		fmt.Sprintf("the operator writes the status of %s again and again, while the API server refuses it", c.Name),
		statusPatience, v.Audit.Changed, func() (string, bool) {
			refused := v.Audit.Since(began, v.ByOperator().And(audit.On(lolcows.Group, lolcows.Resource), audit.Writes,
				func(e audit.Event) bool {
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
		workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{strconv.Itoa(int(c.port))}})
}

// mostEvents is the number of Events that have a reason while a port is taken: the port is taken, there is a
// Deployment, and the Deployment has no Pods.
const mostEvents = 4
