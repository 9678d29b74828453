// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// foreign is a Deployment or a Service that has the name of a Lolcow and is not its child, in its state before the
// Lolcow was created.
type foreign struct {
	*workload.Foreign
	cow *cow
	// reported is what the Lolcow reported about it at the end.
	reported workload.Condition
}

// foreigners are Lolcows for which one child's name is taken by a foreign object.
type foreigners struct {
	all []*foreign
	// owners are Lolcows that are the controllers of some foreign objects.
	owners []*cow
	// seen means that the check of the foreign objects is over, and freed that they were deleted.
	seen, freed bool
}

// cows returns the Lolcows of both kinds.
func (f *foreigners) cows() (all []*cow) {
	for _, one := range f.all {
		all = append(all, one.cow)
	}
	return append(all, f.owners...)
}

// These reasons why an object is foreign occur only in this lab.
const (
	ownLabels = "was made by hand with the labels of a Lolcow and has no owner"
	anothers  = "has another Lolcow as its controller"
)

// foreigners creates the foreign objects, and then their Lolcows. The operator is restarted while they exist.
func (v visit) foreigners() *foreigners {
	v.t.Helper()
	h := v.herd
	if h.foreigners != nil {
		return h.foreigners
	}
	f := &foreigners{}
	for _, ownership := range []string{workload.NoOwner, ownLabels, workload.AnotherController} {
		f.all = append(f.all, v.foreignService(f, h.draw(paddock), ownership))
	}
	for _, ownership := range []string{workload.NoOwner, anothers} {
		f.all = append(f.all, v.foreignDeployment(f, h.draw(paddock), ownership))
	}
	for _, one := range f.all {
		v.create(one.cow)
	}
	h.foreigners = f
	return f
}

// ownersOf returns the owner references of a foreign object.
func (v visit) ownersOf(f *foreigners, c *cow, ownership string) (owners []metav1.OwnerReference) {
	v.t.Helper()
	switch ownership {
	case workload.AnotherController:
		var err error
		owners, err = v.herd.ControlledByConfigMap(v.ctx, c.Namespace, "owner-of-"+c.Name)
		v.OK(v.t, "making an owner", err)
	case anothers:
		other := v.create(v.herd.draw(c.Namespace))
		f.owners = append(f.owners, other)
		owners = workload.ControlledBy(other.object)
	}
	return owners
}

func (v visit) foreignService(f *foreigners, c *cow, ownership string) *foreign {
	v.t.Helper()
	created, err := v.herd.ForeignService(v.ctx, v.Suite, c.NamespacedName, ownership, v.ownersOf(f, c, ownership))
	v.OK(v.t, "making a Service by hand", err)
	if ownership == ownLabels {
		edited, err := workload.Edit(v.ctx, v.herd.Client.CoreV1().Services(c.Namespace), c.Name, func(s *corev1.Service) {
			maps.Copy(s.Labels, c.podLabels())
			s.Spec.Selector = c.podLabels()
		})
		v.OK(v.t, "editing a Service by hand", err)
		created.Is, created.Spec, created.Since = edited, edited.Spec, v.Audit.Now()
	}
	return &foreign{Foreign: created, cow: c}
}

// foreignDeployment creates a Deployment without Pods, which is available by definition.
func (v visit) foreignDeployment(f *foreigners, c *cow, ownership string) *foreign {
	v.t.Helper()
	created, err := v.herd.ForeignDeployment(v.ctx, c.NamespacedName, 0, ownership, v.ownersOf(f, c, ownership))
	v.OK(v.t, "making a Deployment by hand", err)
	v.EventuallyWithin(v.ctx, v.t, "the controller of Deployments is done with "+c.Name, podPatience, v.herd.Changed,
		func() (string, bool) {
			return v.herd.Steady(v.Suite, created)
		})
	return &foreign{Foreign: created, cow: c}
}

// wrongSibling returns what is wrong with the child of a Lolcow whose other child's name is taken by a foreign object.
// Empty: it matches the spec.
func (h *herd) wrongSibling(f *foreign) string {
	if f.Kind == "Deployment" {
		service, wrong := h.service(f.cow)
		if wrong != "" {
			return wrong
		}
		return workload.WrongService(&service, f.cow.port, nil)
	}
	deployment, wrong := h.deployment(f.cow)
	if wrong == "" && !greets(&deployment.Spec.Template.Spec, f.cow.greeting) {
		wrong = fmt.Sprintf("the template of the Deployment %s does not have the greeting %q "+
			"in an environment variable or an argument", deployment.Name, f.cow.greeting)
	}
	return wrong
}

// siblings waits until the other child of each Lolcow matches its spec.
func (v visit) siblings(f *foreigners) {
	v.t.Helper()
	for _, one := range f.all {
		other := "Service"
		if one.Kind == other {
			other = "Deployment"
		}
		expected := fmt.Sprintf("%s is not the operator's, and the %s of %s is as its spec says", one, other, one.cow.Name)
		v.Eventually(v.ctx, v.t, expected, v.herd.Changed, func() (string, bool) {
			wrong := v.herd.wrongSibling(one)
			return wrong, wrong == ""
		})
	}
}

// untouched fails if the operator has touched a foreign object.
func (v visit) untouched(f *foreigners) {
	v.t.Helper()
	v.Settle(v.ctx, v.t)
	for _, one := range f.all {
		if touched := v.herd.Touched(v.Suite, one.Foreign); touched != "" {
			v.Fail(v.t, one.String()+" is not touched", touched)
		}
	}
}

func foreignChild() types.Feature {
	return features.New("foreign objects are left alone").
		Assess("whichever labels and owners they have", check.Assess(assess(func(v visit) {
			f := v.foreigners()
			v.siblings(f)
			v.untouched(f)
			for _, one := range f.all {
				v.setGreeting(one.cow, v.herd.drawGreeting())
				v.setPort(one.cow, v.herd.ports.Draw())
			}
			v.siblings(f)
			v.untouched(f)
			f.seen = true
		}))).Feature()
}

// blockedConditions returns the expected conditions of a Lolcow for which one child's name is taken by a foreign
// object.
func blockedConditions(f *foreign) []workload.Wanted {
	return []workload.Wanted{
		{Of: degradedType, Status: "True", Mentions: []string{f.Kind}},
		{Of: availableType, Status: "False"},
	}
}

// deleteForeign deletes the foreign objects, if the operator has reported them all by now. It may try again some
// seconds later, after other checks have run.
func (v visit) deleteForeign() bool {
	v.t.Helper()
	f := v.herd.foreigners
	if f == nil || f.freed || !f.seen {
		return f != nil && f.freed
	}
	for _, one := range f.all {
		if v.herd.Unlike(one.cow.NamespacedName, one.cow.object.GetGeneration(), blockedConditions(one)) != "" {
			return false
		}
	}
	for _, one := range f.all {
		if object, exists := v.herd.Get(one.cow.NamespacedName); exists {
			one.reported, _ = workload.ConditionOf(object, degradedType)
		}
		var err error
		if one.Kind == "Service" {
			err = v.herd.Client.CoreV1().Services(one.Namespace).Delete(v.ctx, one.Name, deleteNow)
		} else {
			err = v.herd.Client.AppsV1().Deployments(one.Namespace).Delete(v.ctx, one.Name, deleteNow)
		}
		v.OK(v.t, "deleting a foreign object", workload.IgnoreGone(err))
	}
	f.freed = true
	return true
}

func foreignGone() types.Feature {
	return features.New("a foreign object is reported").
		Assess("until it is gone", check.Assess(assess(func(v visit) {
			f := v.foreigners()
			f.seen = true
			if !v.deleteForeign() {
				for _, one := range f.all {
					v.conditions(one.cow, one.String()+" is not the operator's", statusPatience, blockedConditions(one)...)
				}
				v.deleteForeign()
			}
			for _, one := range f.all {
				v.asSpecifiedWithin(healPatience, one.cow)
				// Degraded stays True, because a quota forbids all Pods.
				v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("%s is gone: Degraded of %s no longer reports it", one, one.cow.Name),
					statusPatience, v.herd.Changed, func() (string, bool) {
						object, exists := v.herd.Get(one.cow.NamespacedName)
						if !exists {
							return "the Lolcow is gone", false
						}
						is, _ := workload.ConditionOf(object, degradedType)
						return fmt.Sprintf("it is %s: %s", is.Status, is.Message),
							is.Status == "False" || is.Message != one.reported.Message
					})
			}
			v.herd.foreigners = nil
		}))).Feature()
}
