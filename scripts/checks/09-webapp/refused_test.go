// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"net/http"

	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

// portTaken checks a WebApp that was created before the first check.
func portTaken() frameworktypes.Feature {
	return features.New("a port that is taken is reported").
		Assess("and tried again later and later", check.Assess(assess(func(v visit) {
			s := v.town.occupation
			v.town.occupation = nil // if the check fails, no other check depends on it
			if s == nil {
				var err error
				s, err = v.town.occupy(v.ctx, v.Suite)
				v.OK(v.t, "making a WebApp whose port is taken", err)
			}
			v.BeganAt(s.Since)
			v.EventuallyWithin(v.ctx, v.t, s.Expected(), statusPatience, v.town.Changed, s.Reported)
			v.eventually(0, fmt.Sprintf("the Deployment of %s, whose port is taken, is made all the same", s.Name),
				func() string {
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
			if s.changed != "" {
				v.Fail(v.t, fmt.Sprintf("while port %d is taken and nothing changes, "+
					"the operator does not write the status of %s again", s.port, s.Name), s.changed)
			}
			v.town.occupation = s
		}))).Feature()
}

// portHeals comes late: an operator that backs off has waited for some seconds before the port was released, and waits
// again.
func portHeals() frameworktypes.Feature {
	return features.New("a WebApp heals").
		Assess("when its port is free, and when a quota is raised", check.Assess(assess(func(v visit) {
			s := v.town.occupation
			if s == nil {
				v.Fail(v.t, "a WebApp has a port that is taken", "there is none")
			}
			v.town.occupation = nil // whatever the result is, no other check needs it
			v.BeganAt(s.Freed)
			v.asSpecifiedWithin(healPatience, s.app)
			v.conditions(s.app, fmt.Sprintf("node port %d is free", s.port), workload.Wanted{Of: degradedType, Status: "False"})
			if a := v.town.raised; a != nil {
				v.town.raised = nil
				v.asSpecifiedWithin(healPatience, a)
				v.conditions(a, fmt.Sprintf("the quota %s was raised", quotaName),
					workload.Wanted{Of: degradedType, Status: "False"})
			}
		}))).Feature()
}

// noNodePort draws a port outside the range of node ports, above or below it.
func (t *town) noNodePort() int32 {
	const some = 20000
	if t.random.IntN(2) == 0 {
		return int32(workload.LastPort + 1 + t.random.IntN(some)) //nolint:gosec // it is below 65536
	}
	return int32(workload.FirstPort - 1 - t.random.IntN(some)) //nolint:gosec // it is above 0
}

func portRange() frameworktypes.Feature {
	return features.New("a port that is no node port is reported").
		Assess("until it is another one", check.Assess(assess(func(v visit) {
			a := v.town.draw(plans)
			a.port = v.town.noNodePort()
			f := v.foreignDeployment(v.town.draw(plans), 0, noOwner)
			f.app.port = v.town.noNodePort()
			since := v.Audit.Now()
			v.create(a)
			v.create(f.app)
			v.conditions(a, "the port is out of the range of node ports",
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{fmt.Sprint(a.port)}},
				workload.Wanted{Of: availableType, Status: "False"})
			v.conditions(f.app, f.String()+" is in the way, and the port is out of the range of node ports",
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{f.Kind, fmt.Sprint(f.app.port)}},
				workload.Wanted{Of: availableType, Status: "False"})
			v.Settle(v.ctx, v.t)
			asked := v.Audit.Since(since, v.ByOperator().And(audit.On("", "services"), audit.Writes, func(e audit.Event) bool {
				return e.Namespace == a.Namespace && e.Code == http.StatusUnprocessableEntity
			}))
			if len(asked) == 0 {
				v.Fail(v.t, fmt.Sprintf("the operator asks the API server for port %d of %s: "+
					"the range of node ports is a setting of the API server", a.port, a.Name),
					"it has sent no request for a Service with this port")
			}
			v.setPort(a, v.town.ports.Draw())
			v.asSpecified(a)
			v.conditions(a, "the port is another one", workload.Wanted{Of: degradedType, Status: "False"})
		}))).Feature()
}

// failedWrite is a write that the API server answers with an error.
type failedWrite struct {
	app    *app
	what   string
	kind   string // the written resource
	answer workload.Answer
	// change makes the operator send the write. Nil: the WebApp is created.
	change func(*app)
	// mentions are further texts that the message must contain.
	mentions []string
}

// errorReported makes the API server answer with errors when children are created and updated.
func errorReported() frameworktypes.Feature {
	return features.New("an error of the API server is reported").
		Assess("while it lasts", check.Assess(assess(func(v visit) {
			failedWrites := []*failedWrite{
				{what: "500 when the Service is created", kind: "services", answer: workload.InternalError},
				{what: "503 when the Deployment is created", kind: "deployments", answer: workload.Unavailable},
				{
					what: "504 when the Service is updated", kind: "services", answer: workload.TimedOut,
					change: func(a *app) { v.setPort(a, v.town.ports.Draw()) },
				},
				{
					what: "429 when the Deployment is updated", kind: "deployments", answer: workload.TooManyRequests,
					change: func(a *app) { v.setImage(a, v.town.drawImage()) },
				},
				{what: "409, without a reason, when the Service is created", kind: "services", answer: workload.NoConflict},
			}
			var all []*app
			byName := map[string]*failedWrite{}
			for _, one := range failedWrites {
				if one.app = v.town.draw(plans); one.change != nil {
					v.create(one.app)
					v.asSpecified(one.app)
				}
				all, byName[one.app.Name] = append(all, one.app), one
			}
			end, err := v.town.Answering(v.ctx, v.OperatorUser(), plans,
				[]string{"services", "deployments"}, func(resource, name string) (none workload.Answer) {
					if one := byName[name]; one != nil && one.kind == resource {
						return one.answer
					}
					return none
				})
			v.OK(v.t, "registering a webhook", err)
			defer end()
			for _, one := range failedWrites {
				if one.change == nil {
					v.create(one.app)
				} else {
					one.change(one.app)
				}
			}
			for _, one := range failedWrites {
				v.conditions(one.app, "the API server answers with "+one.what,
					workload.Wanted{Of: degradedType, Status: "True", Mentions: append(one.mentions, workload.DownName)},
					workload.Wanted{Of: availableType, Status: "False"})
			}
			end()
			v.asSpecifiedWithin(healPatience, all...)
			for _, a := range all {
				v.conditions(a, "the API server answers again", workload.Wanted{Of: degradedType, Status: "False"})
			}
		}))).
		Assess("while a quota is exceeded", check.Assess(assess(func(v visit) {
			a := v.create(v.town.draw(yard))
			v.conditions(a, "a quota lets no Deployment in",
				workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{quotaName}},
				workload.Wanted{Of: availableType, Status: "False"})
			v.eventually(0, fmt.Sprintf("a quota does not let the Deployment of %s in, "+
				"and its Service is made all the same", a.Name), func() string {
				service, wrong := v.town.service(a)
				if wrong != "" {
					return wrong
				}
				return wrongService(a, &service, nil)
			})
			v.Settle(v.ctx, v.t)
			v.OK(v.t, "raising a quota", v.town.Limit(v.ctx, yard, quotaName, workload.DeploymentCount, "1000"))
			v.town.raised = a // a later check tests whether it has healed
		}))).Feature()
}
