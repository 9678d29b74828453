// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// action is one change of a Lolcow or its children by a client.
type action struct {
	do   string
	name string
	// greeting and port are drawn with every action, including those that do not need them, so that a shortened story
	// stays the same otherwise.
	greeting string
	port     int32
}

// These are the actions.
const (
	create           = "create"
	changeGreeting   = "change the greeting of"
	changePort       = "change the port of"
	label            = "label"
	remove           = "delete"
	deleteService    = "delete the Service of"
	deleteDeployment = "delete the Deployment of"
	driftGreeting    = "replace the greeting in the Deployment of"
	driftPort        = "replace the node port in the Service of"
	scale            = "scale the Deployment of"
)

func (d action) String() string {
	text := d.do + " " + d.name
	switch d.do {
	case create:
		return fmt.Sprintf("%s (greeting %q, port %d)", text, d.greeting, d.port)
	case changeGreeting:
		return fmt.Sprintf("%s to %q", text, d.greeting)
	case changePort:
		return fmt.Sprintf("%s to %d", text, d.port)
	}
	return text
}

// phase is a list of actions. It ends when the operator has dealt with all of them. If away is set, the operator is
// stopped during the phase.
type phase struct {
	away    bool
	actions []action
}

func (p phase) String() string {
	var actions []string
	for _, d := range p.actions {
		actions = append(actions, d.String())
	}
	text := strings.Join(actions, ", ")
	if p.away {
		return "while the operator is stopped: " + text
	}
	return text
}

func describePhases(phases []phase) string {
	var lines []string
	for _, p := range phases {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "; then ")
}

const (
	storyPhases  = 5
	phaseActions = 3
	storyCows    = 3
	shrinkTime   = 12 * time.Second
)

// drawStory draws a story. Each action of it is possible at its time, and none concerns objects that the operator may
// not have created yet. No phase writes the node port of one Lolcow twice, and none deletes a Service whose port it
// writes. An API server that gets both at once keeps the port of the write that it refuses, and for minutes no Service
// can have it (k8s.io/apiserver/pkg/registry/generic/registry, Store.Update commits the port before the write).
func (h *herd) drawStory(seed uint32) (phases []phase) {
	random := rand.New(rand.NewPCG(uint64(seed), 88)) //nolint:gosec // a seed must draw the same each time
	var live []string
	created := 0
	for n := range storyPhases {
		p := phase{away: n > 0 && random.IntN(3) == 0}
		ported := map[string]bool{}   // the Lolcows whose node port, or Service, changes in this phase
		settled := slices.Clone(live) // their children exist
		for range 1 + random.IntN(phaseActions) {
			d := action{greeting: h.drawGreeting(), port: h.ports.Draw()}
			switch i := random.IntN(10); {
			case len(live) == 0 || i < 2 && len(live) < storyCows:
				created++
				d.do, d.name = create, fmt.Sprintf("%s-s%d", cowNames[random.IntN(len(cowNames))], created)
				live = append(live, d.name)
			case i < 4 || len(settled) == 0:
				d.do, d.name = []string{changeGreeting, changePort, label}[random.IntN(3)], live[random.IntN(len(live))]
			case i == 4:
				d.do, d.name = remove, live[random.IntN(len(live))]
				gone := func(name string) bool { return name == d.name }
				live, settled = slices.DeleteFunc(live, gone), slices.DeleteFunc(settled, gone)
			default:
				d.name = settled[random.IntN(len(settled))]
				d.do = []string{deleteService, deleteDeployment, driftGreeting, driftPort, scale}[random.IntN(5)]
				settled = slices.DeleteFunc(settled, func(name string) bool { return name == d.name }) // one such action per phase
			}
			if d.do == changePort || d.do == driftPort || d.do == deleteService {
				if ported[d.name] {
					d.do = label
				}
				ported[d.name] = true
			}
			p.actions = append(p.actions, d)
		}
		phases = append(phases, p)
	}
	return phases
}

// play plays a story, and compares the cluster with the model after each phase: each living Lolcow has its children,
// and no other Lolcow has any.
func (v visit) play(phases []phase) {
	v.t.Helper()
	cows, lost := map[string]*cow{}, map[string]*cow{}
	for _, p := range phases {
		if p.away {
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
		}
		for _, d := range p.actions {
			v.perform(d, cows, lost)
		}
		if p.away {
			v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
		}
		var live []*cow
		for _, c := range cows {
			live = append(live, c)
		}
		slices.SortFunc(live, func(a, b *cow) int { return strings.Compare(a.Name, b.Name) })
		v.asSpecified(live...)
		for _, c := range lost {
			v.collect(c)
		}
		v.Settle(v.ctx, v.t)
		v.asSpecified(live...)
		for _, c := range lost {
			v.staysGone(c)
		}
	}
}

// perform performs an action. In a shortened story its object may be missing. Then the action is skipped.
func (v visit) perform(d action, cows, lost map[string]*cow) {
	v.t.Helper()
	c := cows[d.name]
	if d.do == create {
		c = &cow{greeting: d.greeting, port: d.port}
		c.Namespace, c.Name = paddock, d.name
		cows[d.name] = v.create(c)
		return
	}
	if c == nil {
		return
	}
	deployment, noDeployment := v.herd.deployment(c)
	service, noService := v.herd.service(c)
	ours := v.herd.Client
	switch d.do {
	case changeGreeting:
		v.setGreeting(c, d.greeting)
	case changePort:
		v.setPort(c, d.port)
	case label:
		_, err := v.herd.Patch(v.ctx, c.NamespacedName, fmt.Sprintf(`{"metadata":{"labels":{"table":"%d"}}}`, d.port))
		v.OK(v.t, "labelling a Lolcow", err)
	case remove:
		v.remove(c)
		delete(cows, d.name)
		lost[d.name] = c
	case deleteService:
		if noService == "" {
			v.OK(v.t, "deleting a Service",
				workload.IgnoreGone(ours.CoreV1().Services(c.Namespace).Delete(v.ctx, service.Name, deleteNow)))
		}
	case deleteDeployment:
		if noDeployment == "" {
			v.OK(v.t, "deleting a Deployment",
				workload.IgnoreGone(ours.AppsV1().Deployments(c.Namespace).Delete(v.ctx, deployment.Name, deleteNow)))
		}
	case driftGreeting:
		if noDeployment == "" {
			v.editDeployment(c, func(d *appsv1.Deployment) {
				replaceGreeting(&d.Spec.Template.Spec, c.greeting, "I am a horse")
			})
		}
	case driftPort:
		if noService == "" {
			v.editService(c, func(s *corev1.Service) { s.Spec.Ports[0].NodePort = d.port })
		}
	case scale:
		if noDeployment == "" {
			v.editDeployment(c, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) })
		}
	}
}

// smaller returns the stories that are simpler than one: without a phase, or without an action.
func smaller(phases []phase) (all [][]phase) {
	for i := range phases {
		all = append(all, slices.Delete(slices.Clone(phases), i, i+1))
	}
	for i, p := range phases {
		for j := range p.actions {
			if len(p.actions) > 1 {
				shorter := slices.Clone(phases)
				shorter[i].actions = slices.Delete(slices.Clone(p.actions), j, j+1)
				all = append(all, shorter)
			}
		}
	}
	return all
}

func story() types.Feature {
	return features.New("a story from the run's seed").
		Assess("ends as the specs say, for every Lolcow", check.Assess(assess(func(v visit) {
			for n := range max(1, v.Stories) {
				v.checkStory(v.Seed + uint32(n)) //nolint:gosec // there are far fewer than billions of stories
			}
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Operator.Start(ctx) })).Feature()
}

// checkStory plays the story of a seed. If the story fails, it reports the shortest failing one that it finds.
func (v visit) checkStory(seed uint32) {
	v.t.Helper()
	phases := v.herd.drawStory(seed)
	failure := v.playInEmptyNamespace(phases)
	if failure == nil {
		return
	}
	end := time.Now().Add(shrinkTime)
	for again := true; again; {
		again = false
		for _, shorter := range smaller(phases) {
			if len(shorter) == 0 || time.Now().After(end) {
				continue
			}
			if failed := v.playInEmptyNamespace(shorter); failed != nil {
				phases, failure, again = shorter, failed, true
				break
			}
		}
	}
	v.Fail(v.t, failure.Expected, failure.Observed,
		append([]string{fmt.Sprintf("the story of seed %d, made shorter: %s", seed, describePhases(phases))},
			failure.Evidence...)...)
}

// playInEmptyNamespace plays a story in an empty namespace.
func (v visit) playInEmptyNamespace(phases []phase) *check.Failure {
	v.t.Helper()
	failure := v.Try(v.ctx, v.t, "story", func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		visit{Check: c, ctx: ctx, t: t, herd: v.herd}.play(phases)
	})
	v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
	for _, name := range v.herd.All(paddock) {
		v.OK(v.t, "deleting a Lolcow", v.herd.Delete(v.ctx, name))
	}
	v.EventuallyWithin(v.ctx, v.t, "the namespace is empty after a story", gonePatience, v.herd.Changed,
		func() (string, bool) {
			left := v.herd.All(paddock)
			return fmt.Sprintf("there are %d Lolcows", len(left)), len(left) == 0
		})
	return failure
}
