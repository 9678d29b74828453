// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

func page() types.Feature {
	return features.New("the page is served").
		Assess("at the node port", check.Assess(assess(func(v visit) { v.served() }))).Feature()
}

func greeting() types.Feature {
	return features.New("a new greeting is rolled out").
		Assess("and the page says it", check.Assess(assess(func(v visit) {
			c := v.served()
			v.changeGreeting()
			v.asSpecified(c)
			v.awaitGreeting(c)
		}))).Feature()
}

// changeGreeting gives the Lolcow whose page was seen a new greeting, once. The rollout happens while other checks run.
func (v visit) changeGreeting() {
	v.t.Helper()
	if first := v.herd.first; !first.greetingChanged {
		v.setGreeting(first.cow, v.herd.drawGreeting())
		first.greetingChanged = true
	}
}

// drawTricky draws a text that a shell, a template, or Kubernetes' own expansion of $(NAME) would interpret.
func (h *herd) drawTricky() string {
	const dollars = "$$5 $(moo)" // always included, because Kubernetes itself expands it
	tricks := []string{`"moo"`, "'moo'", "50 %s", `\n back`, "a: b # c", "{{moo}}", "ümlaut"}
	return fmt.Sprintf("%s %s %d", dollars, tricks[h.random.IntN(len(tricks))], h.random.IntN(100))
}

func anyGreeting() types.Feature {
	return features.New("a greeting is shown letter by letter").
		Assess("whatever it is made of", check.Assess(assess(func(v visit) {
			v.served()
			v.awaitGreeting(v.herd.failingCows.image)
			// A page of plain text does not show where a greeting begins and ends. The Deployment does.
			blanks := v.herd.draw(paddock)
			blanks.greeting = "  " + blanks.greeting + "\t \n"
			v.create(blanks)
			v.asSpecified(blanks)
		}))).Feature()
}

// fortuneCow returns a Lolcow without a greeting. Its Pod starts while other checks run. When its page is requested,
// the failing Lolcow of the ward is gone.
func (v visit) fortuneCow() *cow {
	v.t.Helper()
	if v.herd.fortuneCow == nil {
		c := v.herd.draw(ward)
		c.greeting = ""
		v.herd.fortuneCow = v.create(c)
	}
	return v.herd.fortuneCow
}

func fortune() types.Feature {
	return features.New("a cow without a greeting tells a fortune").
		Assess("the same after a restart of the operator", check.Assess(assess(func(v visit) {
			v.needsNode()
			c := v.fortuneCow()
			v.asSpecified(c)
			first := ""
			v.awaitPage(c.Name+" has no greeting, and its page tells a fortune", c, func(text string, err error) (string, bool) {
				if err != nil {
					return err.Error(), false
				}
				first = speech(text)
				return "it says: " + first, first != "" && first != "Moo."
			})
			v.sameFortune()
			before, _ := v.herd.deployment(c)
			v.restart()
			after, _ := v.herd.deployment(c)
			if after.Generation != before.Generation {
				v.Fail(v.t, fmt.Sprintf("the fortune of %s is the same after a restart of the operator: %s", c.Name, first),
					"the operator has changed the template of the Deployment, so that another Pod is rolled out")
			}
			v.awaitPage(fmt.Sprintf("the fortune of %s is the same after a restart of the operator: %s", c.Name, first),
				c, func(text string, err error) (string, bool) {
					if err != nil {
						return err.Error(), false
					}
					return "it says: " + speech(text), speech(text) == first
				})
			v.herd.fortuneCow = nil
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Operator.Start(ctx) })).Feature()
}

// sameFortune changes a Lolcow without a greeting, and fails if it then shows another fortune. No Pod of this Lolcow
// runs.
func (v visit) sameFortune() {
	v.t.Helper()
	c := v.herd.draw(paddock)
	c.greeting = ""
	v.create(c)
	v.asSpecified(c)
	v.awaitDone(c, doneSoon)
	containers := func() []corev1.Container {
		deployment, _ := v.herd.deployment(c)
		return deployment.Spec.Template.Spec.Containers
	}
	before := containers()
	for _, change := range []struct {
		what string
		make func()
	}{
		{"its port has changed", func() { v.setPort(c, v.herd.ports.Draw()) }},
		{"its port has changed twice", func() { v.setPort(c, v.herd.ports.Draw()) }},
		{"its port has changed three times", func() { v.setPort(c, v.herd.ports.Draw()) }},
		{"it has got a label", func() { v.patch(c, `{"metadata":{"labels":{"table":"4"}}}`) }},
		{"it has had a greeting for a while", func() {
			v.setGreeting(c, v.herd.drawGreeting())
			v.asSpecified(c)
			c.greeting = ""
			v.patch(c, `{"spec":{"greeting":null}}`)
			v.Eventually(v.ctx, v.t, fmt.Sprintf("%s, whose greeting was removed, tells its fortune again", c.Name),
				v.herd.Changed, func() (string, bool) {
					return "the Deployment still has the greeting or another fortune", reflect.DeepEqual(containers(), before)
				})
		}},
	} {
		change.make()
		v.asSpecified(c)
		v.Settle(v.ctx, v.t)
		if !reflect.DeepEqual(containers(), before) {
			v.Fail(v.t, fmt.Sprintf("%s has no greeting and always tells the same fortune", c.Name),
				change.what+", and the template of the Deployment is another one")
		}
	}
}

// unchangedCow returns a Lolcow of the paddock that no check changes.
func (v visit) unchangedCow() *cow {
	v.t.Helper()
	if v.herd.unchangedCow == nil {
		v.herd.unchangedCow = v.create(v.herd.draw(paddock))
	}
	return v.herd.unchangedCow
}

// restarted is the result of a restart of the operator: its writes about a Lolcow that was correct, and the Lolcows
// that had changed in the meantime.
type restarted struct {
	since   audit.Mark
	cow     *cow
	writes  []audit.Event
	changed []*cow
}

// restart restarts the operator, waits until it is at rest, and stores the result for the check restart.
func (v visit) restart() {
	v.t.Helper()
	c := v.unchangedCow()
	a, b, fresh := v.create(v.herd.draw(paddock)), v.create(v.herd.draw(paddock)), v.herd.draw(paddock)
	lost := v.create(v.herd.draw(paddock))
	v.asSpecified(c, a, b, lost)
	v.scaleToZero(lost)
	v.awaitDone(c, doneWindow)
	since := v.Audit.Now()
	v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
	v.loseChildren(lost)
	v.setGreeting(a, v.herd.drawGreeting())
	v.setPort(b, v.herd.ports.Draw())
	page, _ := v.herd.service(a)
	v.OK(v.t, "deleting a Service", v.herd.Client.CoreV1().Services(a.Namespace).Delete(v.ctx, page.Name, deleteNow))
	v.create(fresh)
	began := v.Audit.Now()
	v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
	v.awaitStarted(began, a, b, fresh)
	v.herd.restarted = &restarted{
		since: since, cow: c, changed: []*cow{a, b, fresh, lost},
		writes: v.Audit.Since(began, v.ByOperator().And(audit.Writes, func(e audit.Event) bool {
			return e.Resource != "leases" && e.Name == c.Name
		})),
	}
}

// scaleToZero makes another client scale a cow to no Pods. From then on nothing is wrong with the cow, even where a
// quota forbids Pods. scaleToZero waits until Kubernetes has scaled it. Other checks test the operator's reaction.
func (v visit) scaleToZero(c *cow) {
	v.t.Helper()
	v.editDeployment(c, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })
	refused := func() bool {
		deployment, wrong := v.herd.deployment(c)
		return wrong == "" &&
			(deployment.Status.ObservedGeneration < deployment.Generation || workload.Forbidden(&deployment))
	}
	for wait := v.NewWait(turnPatience, 2*turnPatience); refused() && wait.Over(v.ctx) == ""; {
		v.Pause(v.ctx, v.t, pagePoll/2)
	}
	v.awaitDone(c, doneSoon)
}

// loseChildren deletes both children of a cow.
func (v visit) loseChildren(c *cow) {
	v.t.Helper()
	deployment, _ := v.herd.deployment(c)
	service, _ := v.herd.service(c)
	v.OK(v.t, "deleting a Deployment",
		v.herd.Client.AppsV1().Deployments(c.Namespace).Delete(v.ctx, deployment.Name, deleteNow))
	v.OK(v.t, "deleting a Service", v.herd.Client.CoreV1().Services(c.Namespace).Delete(v.ctx, service.Name, deleteNow))
}

// doneWindow is how long an operator that has finished with a Lolcow sends no requests about it, and doneSoon is the
// same where only later requests count. The checks settles and restart find an operator that never finishes.
const (
	doneWindow = 600 * time.Millisecond
	doneSoon   = 100 * time.Millisecond
)

// awaitDone waits until the operator has finished with a cow. Other Lolcows may keep the operator busy.
func (v visit) awaitDone(c *cow, window time.Duration) {
	v.t.Helper()
	v.SettleAbout(v.ctx, v.t, window, func(e audit.Event) bool {
		return e.Namespace == c.Namespace && strings.HasPrefix(e.Name, c.Name)
	})
}

// turnPatience is how long an operator that has work to do may be silent after its start.
const turnPatience = 5 * time.Second

// awaitStarted waits until a restarted operator has listed what it watches, has dealt with the changes in the meantime,
// and is at rest. On a busy machine it is silent between its list and its first write. The check restart reports how it
// dealt with the changes.
func (v visit) awaitStarted(since audit.Mark, changed ...*cow) {
	v.t.Helper()
	v.Eventually(v.ctx, v.t, "the operator lists and watches again after its start", v.Audit.Changed,
		func() (string, bool) {
			return "it has asked for no Lolcows",
				len(v.Audit.Since(since, v.ByOperator().And(audit.On(lolcows.Group, lolcows.Resource)))) > 0
		})
	undone := func(c *cow) bool {
		deployment, _ := v.herd.deployment(c)
		return v.herd.wrong(c) != "" || !workload.Forbidden(&deployment)
	}
	wait := v.NewWait(turnPatience, 2*turnPatience)
	for slices.ContainsFunc(changed, undone) && wait.Over(v.ctx) == "" {
		v.Pause(v.ctx, v.t, pagePoll)
	}
	v.AtRest(v.ctx, v.t)
}

func portMoves() types.Feature {
	return features.New("a new port is served").
		Assess("and the old one is closed", check.Assess(assess(func(v visit) {
			c := v.served()
			old := c.port
			v.awaitOpen(c)
			v.setPort(c, v.herd.ports.Draw())
			v.asSpecified(c)
			v.awaitGreeting(c)
			v.awaitClosed(old)
		}))).Feature()
}

func settles() types.Feature {
	return features.New("at rest once right").
		Assess("when something changes that does not matter", check.Assess(assess(func(v visit) {
			c := v.unchangedCow()
			v.asSpecified(c)
			v.forbidden(c)               // otherwise the operator still has to report it
			if v.herd.restarted != nil { // since then it was at rest, except for the deleted Lolcows of the check fortune
				v.Idle(v.ctx, v.t)
			} else {
				v.AtRest(v.ctx, v.t)
			}
			began, logged := v.Audit.Now(), v.Logged(v.ctx, v.t)
			for n := range 3 {
				_, err := v.herd.Patch(v.ctx, c.NamespacedName, fmt.Sprintf(`{"metadata":{"labels":{"table":"%d"}}}`, n))
				v.OK(v.t, "labelling a Lolcow", err)
				v.Pause(v.ctx, v.t, workload.UntilSeen)
			}
			v.AtRest(v.ctx, v.t)
			noLease := func(e audit.Event) bool { return e.Resource != "leases" }
			writes := v.Audit.Since(began, v.ByOperator().And(audit.Writes, noLease, check.NoEventOfOthers(c.Name)))
			if len(writes) > 0 {
				v.Fail(v.t, fmt.Sprintf("the operator writes nothing when only a label of %s has changed: "+
					"no child, no status, no Event", c.Name),
					fmt.Sprintf("it sent %d writes", len(writes)), audit.Lines(writes)...)
			}
			v.NoErrors(v.ctx, v.t, logged, c.Name)
		}))).Feature()
}

func restart() types.Feature {
	return features.New("right after a restart").
		Assess("nothing has changed, and nothing is written", check.Assess(assess(func(v visit) {
			if v.herd.restarted == nil { // unless the check fortune has restarted it
				v.restart()
			}
			if is := v.herd.restarted; len(is.writes) > 0 {
				v.Fail(v.t,
					fmt.Sprintf("after a restart the operator finds that all is right with %s, and writes nothing", is.cow.Name),
					fmt.Sprintf("it sent %d writes", len(is.writes)), audit.Lines(is.writes)...)
			}
		}))).
		Assess("what changed while it was away is put right", check.Assess(assess(func(v visit) {
			v.BeganAt(v.herd.restarted.since)
			v.asSpecified(v.herd.restarted.changed...)
			v.herd.restarted, v.herd.unchangedCow = nil, nil // no check after this one needs them
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			// Later checks need the operator, whatever the result of this one is.
			return c.Operator.Start(ctx)
		})).Feature()
}
