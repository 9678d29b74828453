// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// deployment returns the only Deployment of a cow, and service its only Service. wrong describes what exists instead.
func (h *herd) deployment(c *cow) (found appsv1.Deployment, wrong string) {
	return workload.OnlyChild[appsv1.Deployment](h.Owners, workload.Deployments, "Deployment", c.object)
}

func (h *herd) service(c *cow) (found corev1.Service, wrong string) {
	return workload.OnlyChild[corev1.Service](h.Owners, workload.Services, "Service", c.object)
}

// greets reports whether the template of a Pod passes a greeting to the server: in an environment variable, where $$
// stands for $, or in an argument.
func greets(pod *corev1.PodSpec, greeting string) bool {
	return slices.ContainsFunc(pod.Containers, func(container corev1.Container) bool {
		values := slices.Concat(container.Command, container.Args)
		for _, variable := range container.Env {
			values = append(values, variable.Value)
		}
		return slices.ContainsFunc(values, func(value string) bool {
			return strings.Contains(value, greeting) || strings.Contains(strings.ReplaceAll(value, "$$", "$"), greeting)
		})
	})
}

// wrong returns what is wrong with the children of a living cow. Empty: they match its spec.
func (h *herd) wrong(c *cow) string {
	deployment, wrong := h.deployment(c)
	if wrong != "" {
		return wrong
	}
	service, wrong := h.service(c)
	if wrong != "" {
		return wrong
	}
	template := &deployment.Spec.Template
	if c.greeting != "" && !greets(&template.Spec, c.greeting) {
		return fmt.Sprintf("the template of the Deployment %s does not have the greeting %q "+
			"in an environment variable or an argument", deployment.Name, c.greeting)
	}
	return workload.WrongService(&service, c.port, template)
}

// asSpecified waits until the children of cows match their specs.
func (v visit) asSpecified(cows ...*cow) {
	v.t.Helper()
	v.asSpecifiedWithin(0, cows...)
}

// asSpecifiedWithin is asSpecified for an operator that may be silent for longer. 0: for no longer than usual.
func (v visit) asSpecifiedWithin(patience time.Duration, cows ...*cow) {
	v.t.Helper()
	var phrases []string
	for _, c := range cows {
		greeting := fmt.Sprintf(" with the greeting %q", c.greeting)
		if c.greeting == "" {
			greeting = ""
		}
		phrases = append(phrases, fmt.Sprintf("%s has one Deployment%s, and one Service of type NodePort at %d for its Pods",
			c.Name, greeting, c.port))
	}
	look := func() (string, bool) {
		for _, c := range cows {
			if wrong := v.herd.wrong(c); wrong != "" {
				return wrong, false
			}
		}
		return "", true
	}
	if patience == 0 {
		v.Eventually(v.ctx, v.t, strings.Join(phrases, "; "), v.herd.Changed, look)
		return
	}
	v.EventuallyWithin(v.ctx, v.t, strings.Join(phrases, "; "), patience, v.herd.Changed, look)
}

func children() types.Feature {
	return features.New("a Lolcow has a Deployment and a Service").
		Assess("of what its spec says", check.Assess(assess(func(v visit) {
			c := v.createInPaddock()
			v.driftCows() // for later checks
			v.foreigners()
			v.Settle(v.ctx, v.t)
			if wrong := v.herd.wrong(c); wrong != "" {
				v.Fail(v.t, "the children of "+c.Name+" stay as they are", wrong)
			}
		}))).Feature()
}

func owner() types.Feature {
	return features.New("a Lolcow is the controller of its children").
		Assess("by their owner references", check.Assess(assess(func(v visit) {
			c := v.createInPaddock()
			v.Settle(v.ctx, v.t) // an operator may write the owner references after the rest
			deployment, _ := v.herd.deployment(c)
			service, _ := v.herd.service(c)
			for _, child := range []struct {
				what string
				metav1.Object
			}{{"Deployment", &deployment}, {"Service", &service}} {
				expected := fmt.Sprintf("the %s %s has %s as its controller (metadata.ownerReferences)",
					child.what, child.GetName(), c.Name)
				references := child.GetOwnerReferences()
				i := slices.IndexFunc(references, func(r metav1.OwnerReference) bool { return r.UID == c.object.GetUID() })
				switch {
				case i < 0:
					v.Fail(v.t, expected, fmt.Sprintf("it has %s, and none is %s", workload.Counted(len(references), "owner"), c.Name))
				case references[i].APIVersion != kind.GroupVersion().String() ||
					references[i].Kind != kind.Kind || references[i].Name != c.Name:
					v.Fail(v.t, expected, fmt.Sprintf("its owner has the right UID, and is called %s %s of %s",
						references[i].Kind, references[i].Name, references[i].APIVersion))
				case references[i].Controller == nil || !*references[i].Controller:
					v.Fail(v.t, expected, c.Name+" is an owner of it, and not its controller")
				}
			}
			v.remove(c)
			v.herd.orphan, v.herd.orphaned = c, []apitypes.UID{deployment.UID, service.UID}
		}))).Feature()
}

// collected tests by the garbage collector's own rule whether it may delete the children, and then deletes them in the
// same way. The garbage collector itself discovers new kinds only every 30 s
// (k8s.io/kubernetes/cmd/kube-controller-manager/app, startGarbageCollectorController), and retries objects of unknown
// kinds with growing delays. For a kind that has just been defined, the wait would take longer than all other checks.
func collected() types.Feature {
	return features.New("children are deleted with their Lolcow").
		Assess("by the garbage collector", check.Assess(assess(func(v visit) {
			c := v.herd.orphan
			if c == nil {
				v.Fail(v.t, "a Lolcow was deleted", "none was")
			}
			expected := fmt.Sprintf("the Deployment and the Service of %s are deleted with it", c.Name)
			v.awaitGone(c)
			kept, err := v.herd.Kept(v.ctx, c.object, v.herd.orphaned...)
			v.OK(v.t, "asking for the owners of the children of "+c.Name, err)
			if kept != "" {
				v.Fail(v.t, expected, c.Name+" has gone; "+kept)
			}
			v.collect(c)
			// With a finalizer of another controller, a deleted Lolcow stays for a while, and its children may be deleted before
			// it.
			d := v.createInPaddock()
			v.deleteHeld(d)
			defer v.release(d)
			v.OK(v.t, "removing the children of "+d.Name, v.herd.Collect(v.ctx, d.object))
			v.staysGone(c, d)
		}))).Feature()
}

// deleteHeld deletes a Lolcow that a finalizer blocks until it is released.
func (v visit) deleteHeld(c *cow) {
	v.t.Helper()
	_, err := v.herd.Patch(v.ctx, c.NamespacedName, `{"metadata":{"finalizers":["example.com/keep-it"]}}`)
	v.OK(v.t, "adding a finalizer", err)
	v.remove(c)
	v.EventuallyWithin(v.ctx, v.t, c.Name+" is being deleted", gonePatience, v.herd.Changed, func() (string, bool) {
		object, exists := v.herd.Get(c.NamespacedName)
		return "it is not", exists && object.GetDeletionTimestamp() != nil
	})
}

func (v visit) release(c *cow) {
	v.t.Helper()
	_, err := v.herd.Patch(v.ctx, c.NamespacedName, `{"metadata":{"finalizers":null}}`)
	v.OK(v.t, "removing the finalizer", workload.IgnoreGone(err))
}

// gonePatience is how long a deleted Lolcow may take to disappear.
const gonePatience = 10 * time.Second

// collect deletes the children of a deleted Lolcow, as the garbage collector would if it already knew the kind.
func (v visit) collect(c *cow) {
	v.t.Helper()
	v.awaitGone(c)
	v.OK(v.t, "removing the children of "+c.Name, v.herd.Collect(v.ctx, c.object))
}

// awaitGone waits until a deleted Lolcow is gone.
func (v visit) awaitGone(c *cow) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, c.Name+", which was deleted, disappears", gonePatience, v.herd.Changed,
		func() (string, bool) {
			_, exists := v.herd.Get(c.NamespacedName)
			return "it is still there", !exists
		})
}

// remainingChildren returns which children of a cow are left. True: none.
func (h *herd) remainingChildren(c *cow) (string, bool) {
	deployments := len(workload.Children[appsv1.Deployment](h.Owners, workload.Deployments, c.object))
	services := len(workload.Children[corev1.Service](h.Owners, workload.Services, c.object))
	return fmt.Sprintf("there is %s, and there is %s",
			workload.Counted(deployments, "Deployment"), workload.Counted(services, "Service")),
		deployments+services == 0
}

// staysGone fails if the operator keeps creating children for Lolcows that are gone, or are being deleted. If it
// creates a child once because its cache was stale, that is no mistake: the garbage collector finds the child, too.
func (v visit) staysGone(cows ...*cow) {
	v.t.Helper()
	const most = 2
	for n := 0; ; n++ {
		v.Settle(v.ctx, v.t)
		all := true
		for _, c := range cows {
			left, none := v.herd.remainingChildren(c)
			if none {
				continue
			}
			if n == most {
				how := "has gone"
				if _, exists := v.herd.Get(c.NamespacedName); exists {
					how = "is being deleted"
				}
				v.Fail(v.t, fmt.Sprintf("nothing is made for %s, which %s", c.Name, how), left)
			}
			all = false
			v.OK(v.t, "removing the children of "+c.Name, v.herd.Collect(v.ctx, c.object))
		}
		if all {
			return
		}
	}
}
