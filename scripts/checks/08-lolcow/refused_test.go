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

	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

func portRange() types.Feature {
	return features.New("a port that is no node port is reported").
		Assess("until it is another one", check.Assess(assess(func(v visit) {
			c := v.herd.draw(paddock)
			c.port = int32(1000 + v.herd.random.IntN(20000)) //nolint:gosec // it is below 32768
			began := v.Audit.Now()
			v.create(c)
			v.conditions(c, "the port is out of the range of node ports", statusPatience,
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{strconv.Itoa(int(c.port))}})
			v.Settle(v.ctx, v.t)
			if len(v.Audit.Since(began, v.ByOperator().And(audit.On("", "services"), audit.Writes, func(e audit.Event) bool {
				return e.Namespace == c.Namespace && e.Code == http.StatusUnprocessableEntity
			}))) == 0 {
				v.Fail(v.t, fmt.Sprintf("the operator asks the API server for port %d of %s: "+
					"the range of node ports is a setting of the API server", c.port, c.Name),
					"it has sent no request for a Service with this port")
			}
			v.keepsDeployment(c)
			refused := strconv.Itoa(int(c.port))
			v.setPort(c, v.herd.ports.Draw())
			v.asSpecified(c)
			v.overcomes(c, refused)
		}))).Feature()
}

// keepsDeployment fails unless the operator keeps working on the Deployment of a cow whose port is refused.
func (v visit) keepsDeployment(c *cow) {
	v.t.Helper()
	hasDeployment := func(why string, other apitypes.UID) {
		v.t.Helper()
		expected := fmt.Sprintf("the port of %s is refused, and its Deployment has the greeting %q all the same: %s",
			c.Name, c.greeting, why)
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
	v.setGreeting(c, v.herd.drawGreeting())
	hasDeployment("the greeting has changed", "")
	deployment, _ := v.herd.deployment(c)
	v.OK(v.t, "deleting a Deployment",
		v.herd.Client.AppsV1().Deployments(c.Namespace).Delete(v.ctx, deployment.Name, deleteNow))
	hasDeployment("it was deleted by hand", deployment.UID)
}

// failedWrite is a write that the API server answers with an error.
type failedWrite struct {
	what     string
	resource string
	answer   workload.Answer
	// change makes the operator send the write. Nil: the Lolcow is created.
	change func(visit, *cow)
	cow    *cow
}

// errorReported makes the API server answer with errors when the operator creates and updates children.
func errorReported() types.Feature {
	return features.New("an error of the API server is reported").
		Assess("while it lasts", check.Assess(assess(func(v visit) {
			failedWrites := []*failedWrite{
				{what: "500 when the Service is created", resource: "services", answer: workload.InternalError},
				{what: "503 when the Deployment is created", resource: "deployments", answer: workload.Unavailable},
				{
					what: "504 when the Deployment is updated", resource: "deployments", answer: workload.TimedOut,
					change: func(v visit, c *cow) { v.setGreeting(c, v.herd.drawGreeting()) },
				},
				{
					what: "429 when the Service is updated", resource: "services", answer: workload.TooManyRequests,
					change: func(v visit, c *cow) { v.setPort(c, v.herd.ports.Draw()) },
				},
				{what: "409, without a reason, when the Service is created", resource: "services", answer: workload.NoConflict},
			}
			byName := map[string]*failedWrite{}
			var all, before []*cow
			for _, one := range failedWrites {
				one.cow = v.herd.draw(stable)
				byName[one.cow.Name] = one
				all = append(all, one.cow)
				if one.change != nil {
					before = append(before, v.create(one.cow))
				}
			}
			v.asSpecified(before...)
			end, err := v.herd.Answering(v.ctx, v.OperatorUser(), stable,
				[]string{"services", "deployments"}, func(resource, name string) workload.Answer {
					if one := byName[name]; one != nil && one.resource == resource {
						return one.answer
					}
					return workload.Answer{}
				})
			v.OK(v.t, "registering a webhook", err)
			defer end()
			for _, one := range failedWrites {
				if one.change != nil {
					one.change(v, one.cow)
				} else {
					v.create(one.cow)
				}
			}
			for _, one := range failedWrites {
				wanted := []workload.Wanted{{Of: degradedType, Status: "True", Mentions: []string{workload.DownName}}}
				if one.change == nil {
					wanted = append(wanted, workload.Wanted{Of: availableType, Status: "False"})
				}
				v.conditions(one.cow, "the API server answers "+one.what+", since a webhook says so", statusPatience, wanted...)
			}
			end()
			v.asSpecifiedWithin(healPatience, all...)
			for _, c := range all {
				v.overcomes(c, workload.DownName)
			}
		}))).Feature()
}

// overcomes waits until Degraded of a cow no longer mentions an error. It stays True, because a quota forbids all Pods.
func (v visit) overcomes(c *cow, failure string) {
	v.t.Helper()
	expected := fmt.Sprintf("the API server accepts what it refused before: Degraded of %s no longer mentions %s",
		c.Name, failure)
	v.EventuallyWithin(v.ctx, v.t, expected, statusPatience, v.herd.Changed, func() (string, bool) {
		object, exists := v.herd.Get(c.NamespacedName)
		if !exists {
			return "the Lolcow is gone", false
		}
		is, _ := workload.ConditionOf(object, degradedType)
		return fmt.Sprintf("it is %s: %s", is.Status, is.Message), !strings.Contains(is.Message, failure)
	})
}

// occupation is a Lolcow whose node port is taken by another Service for a while.
type occupation struct {
	*workload.Occupation
	cow *cow
	// writes is how often the operator has written Events about it in that time, and events is the number of Events at the
	// end.
	writes int
	events []corev1.Event
}

// healPatience is how long an operator may wait before it retries.
const healPatience = 20 * time.Second

// occupy takes the port of a Lolcow, unless that was already done.
func (v visit) occupy() *occupation {
	v.t.Helper()
	if v.herd.occupation != nil {
		return v.herd.occupation
	}
	o := &occupation{cow: v.herd.draw(corner)}
	// The event recorder writes in the background: on a busy machine an Event comes after the condition that reports the
	// same.
	look := func(ctx context.Context, x *workload.Occupation) (reported bool, err error) {
		o.writes = len(v.eventWrites(o.cow, x.Since))
		o.events, err = v.herd.eventsOf(ctx, x.Owner)
		return slices.ContainsFunc(o.events, o.cow.portIsTaken), err
	}
	taken := workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{strconv.Itoa(int(o.cow.port))}}
	var err error
	o.Occupation, err = v.herd.Occupy(v.ctx, v.Suite, o.cow.New(), o.cow.port, []workload.Wanted{taken}, look)
	v.OK(v.t, "making a Lolcow whose port is taken", err)
	o.cow.object = o.Owner
	v.herd.occupation = o
	return o
}

func portTaken() types.Feature {
	return features.New("a port that is taken is reported").
		Assess("tried again later and later, and served when it is free", check.Assess(assess(func(v visit) {
			o := v.occupy()
			v.BeganAt(o.Since)
			c := o.cow
			v.EventuallyWithin(v.ctx, v.t, o.Expected(), statusPatience, v.herd.Changed, o.Reported)
			v.createInPaddock() // others are not blocked
			v.OK(v.t, "taking a node port for a while", o.Wait(v.ctx))
			v.Measure("tries while the port was taken", float64(len(o.Tries)), "requests")
			if expected, observed := o.Loop(); observed != "" {
				v.Fail(v.t, expected, observed, audit.Lines(o.Tries)...)
			}
			v.asSpecifiedWithin(healPatience, c)
			v.overcomes(c, strconv.Itoa(int(c.port)))
		}))).Feature()
}
