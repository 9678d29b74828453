// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// childDeletion is a deletion of some children of a cow by a user.
type childDeletion struct {
	cow        *cow
	deletes    []string // Deployment, Service
	deployment appsv1.Deployment
	service    corev1.Service
}

func deletedChild() types.Feature {
	return features.New("a child that is deleted is made again").
		Assess("each alone, and both at once", check.Assess(assess(func(v visit) {
			v.prepare()
			var deletions []*childDeletion
			for i, deletes := range [][]string{{"Service"}, {"Deployment"}, {"Deployment", "Service"}} {
				deletions = append(deletions, &childDeletion{cow: v.driftCows()[i], deletes: deletes})
			}
			for _, l := range deletions {
				v.asSpecified(l.cow)
				v.forbidden(l.cow)
				v.awaitDone(l.cow, doneWindow) // later requests respond to the deletion, not to the operator's own writes
				l.deployment, _ = v.herd.deployment(l.cow)
				l.service, _ = v.herd.service(l.cow)
			}
			for _, l := range deletions {
				if slices.Contains(l.deletes, "Deployment") {
					v.OK(v.t, "deleting the Deployment",
						v.herd.Client.AppsV1().Deployments(l.cow.Namespace).Delete(v.ctx, l.deployment.Name, metav1.DeleteOptions{}))
				}
				if slices.Contains(l.deletes, "Service") {
					v.OK(v.t, "deleting the Service",
						v.herd.Client.CoreV1().Services(l.cow.Namespace).Delete(v.ctx, l.service.Name, metav1.DeleteOptions{}))
				}
			}
			for _, l := range deletions {
				v.recreated(l)
			}
		}))).Feature()
}

// forbidden waits until the Deployment of a cow reports that a quota forbids its Pods. From then on it does not change
// any more. Kubernetes' own controllers write that, and not the operator.
func (v visit) forbidden(c *cow) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, "the Deployment of "+c.Name+" reports the quota", podPatience, v.herd.Changed,
		func() (string, bool) {
			deployment, wrong := v.herd.deployment(c)
			return "it does not", wrong != "" || workload.Forbidden(&deployment)
		})
}

func (v visit) recreated(l *childDeletion) {
	v.t.Helper()
	expected := fmt.Sprintf("the %s of %s, deleted by hand, is made again",
		strings.Join(l.deletes, " and the "), l.cow.Name)
	v.Eventually(v.ctx, v.t, expected, v.herd.Changed, func() (string, bool) {
		if wrong := v.herd.wrong(l.cow); wrong != "" {
			return wrong, false
		}
		deployment, _ := v.herd.deployment(l.cow)
		service, _ := v.herd.service(l.cow)
		behind := slices.Contains(l.deletes, "Deployment") && deployment.UID == l.deployment.UID ||
			slices.Contains(l.deletes, "Service") && service.UID == l.service.UID
		return workload.Unseen, !behind
	})
}

// driftCows returns Lolcows of the paddock whose children are deleted and edited by hand, those of each in another form
// at the same time. They are created before they are needed: a Deployment whose Pods a quota forbids changes for some
// seconds after the start of the cluster.
func (v visit) driftCows() []*cow {
	v.t.Helper()
	for len(v.herd.driftCows) < max(len(drifts), len(workload.ServiceEdits)) {
		v.herd.driftCows = append(v.herd.driftCows, v.create(v.herd.draw(paddock)))
	}
	return v.herd.driftCows
}

// reverts edits a child of each of several driftCows by hand, and waits until the operator has undone all edits. edit
// makes edit number i. It returns what describes the edit, and wrong, which returns what differs from the state before.
func (v visit) reverts(edits int, edit func(i int, c *cow) (what string, wrong func() string)) {
	v.t.Helper()
	cows := v.driftCows()
	v.asSpecified(cows...)
	for _, c := range cows {
		v.forbidden(c) // an operator that watches Deployments could undo an edit of a Service by chance
		v.awaitDone(c, doneSoon)
	}
	what, wrong := make([]string, edits), make([]func() string, edits)
	for n, i := range v.herd.random.Perm(edits) {
		what[n], wrong[n] = edit(i, cows[n])
	}
	for n := range edits {
		expected := fmt.Sprintf("%s of %s by hand, and the operator puts it back", what[n], cows[n].Name)
		v.Eventually(v.ctx, v.t, expected, v.herd.Changed, func() (string, bool) {
			observed := v.herd.wrong(cows[n])
			if observed == "" {
				observed = wrong[n]()
			}
			return observed, observed == ""
		})
	}
}

func (v visit) editDeployment(c *cow, change func(*appsv1.Deployment)) *appsv1.Deployment {
	v.t.Helper()
	found, wrong := v.herd.deployment(c)
	if wrong != "" {
		v.Fail(v.t, c.Name+" has one Deployment", wrong)
	}
	edited, err := workload.Edit(v.ctx, v.herd.Client.AppsV1().Deployments(c.Namespace), found.Name, change)
	v.OK(v.t, "editing the Deployment "+found.Name, err)
	return edited
}

func (v visit) editService(c *cow, change func(*corev1.Service)) *corev1.Service {
	v.t.Helper()
	found, wrong := v.herd.service(c)
	if wrong != "" {
		v.Fail(v.t, c.Name+" has one Service", wrong)
	}
	edited, err := workload.Edit(v.ctx, v.herd.Client.CoreV1().Services(c.Namespace), found.Name, change)
	v.OK(v.t, "editing the Service "+found.Name, err)
	return edited
}

// drift is a hand edit of a template, and the words that describe it.
type drift struct {
	what   string
	change func(pod *corev1.PodSpec, greeting string)
}

var drifts = []drift{
	{"the image was changed to operator-labs/lolcow:v0", func(pod *corev1.PodSpec, _ string) {
		pod.Containers[0].Image = "operator-labs/lolcow:v0"
	}},
	{"the greeting was replaced by \"I am a horse\"", func(pod *corev1.PodSpec, greeting string) {
		replaceGreeting(pod, greeting, "I am a horse")
	}},
	{"the environment and the arguments were removed", func(pod *corev1.PodSpec, _ string) {
		pod.Containers[0].Env, pod.Containers[0].Args, pod.Containers[0].Command = nil, nil, nil
	}},
	{"the port of the container was renamed to horse", func(pod *corev1.PodSpec, _ string) {
		for i := range pod.Containers[0].Ports {
			pod.Containers[0].Ports[i].Name = fmt.Sprintf("horse-%d", i)
		}
	}},
	{"the port of the container was changed to 9090, with the name horse", func(pod *corev1.PodSpec, _ string) {
		for i := range pod.Containers[0].Ports {
			port := &pod.Containers[0].Ports[i]
			port.Name, port.ContainerPort = fmt.Sprintf("horse-%d", i), int32(9090+i) //nolint:gosec // there are few
		}
	}},
	{"the ports of the container were removed", func(pod *corev1.PodSpec, _ string) { pod.Containers[0].Ports = nil }},
}

// lostPort returns the name of a port that a container had and no longer has. Empty: there is none. A port that another
// client has added may stay.
func lostPort(had, has []corev1.ContainerPort) string {
	for _, port := range had {
		if !slices.Contains(has, port) {
			return fmt.Sprintf("%d (%q)", port.ContainerPort, port.Name)
		}
	}
	return ""
}

// replaceGreeting replaces a greeting in all containers that have it.
func replaceGreeting(pod *corev1.PodSpec, old, greeting string) {
	content, err := json.Marshal(pod.Containers)
	if err != nil {
		return
	}
	var containers []corev1.Container
	if json.Unmarshal([]byte(strings.ReplaceAll(string(content), old, greeting)), &containers) == nil {
		pod.Containers = containers
	}
}

func driftTemplate() types.Feature {
	return features.New("a hand edit of the template is undone").
		Assess("of the image, the greeting and the ports", check.Assess(assess(func(v visit) {
			image := func(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }
			v.reverts(len(drifts), func(i int, c *cow) (what string, wrong func() string) {
				v.t.Helper()
				var before string
				var ports []corev1.ContainerPort
				var same bool // an operator that sets no ports has none to repair
				edited := v.editDeployment(c, func(d *appsv1.Deployment) {
					unedited := d.Spec.Template.DeepCopy()
					before, ports = image(d), unedited.Spec.Containers[0].Ports
					drifts[i].change(&d.Spec.Template.Spec, c.greeting)
					same = reflect.DeepEqual(unedited, &d.Spec.Template)
				})
				return drifts[i].what + " in the Deployment", func() string {
					now, _ := v.herd.deployment(c)
					lost := lostPort(ports, now.Spec.Template.Spec.Containers[0].Ports)
					switch {
					case same:
						return ""
					case image(&now) != before:
						return "the image of the Deployment is " + image(&now)
					case lost != "":
						return "the container of the Deployment does not have its port " + lost
					case !workload.Newer(&now, edited):
						return workload.Unseen
					}
					return ""
				}
			})
		}))).Feature()
}

func driftService() types.Feature {
	return features.New("a hand edit of the Service is undone").
		Assess("of its selector, its port, and its type", check.Assess(assess(func(v visit) {
			edits := workload.ServiceEdits
			v.reverts(len(edits), func(i int, c *cow) (what string, wrong func() string) {
				v.t.Helper()
				var before *corev1.ServiceSpec
				edited := v.editService(c, func(s *corev1.Service) {
					before = s.Spec.DeepCopy()
					edits[i].Change(&s.Spec, v.herd.ports.Draw())
				})
				return edits[i].What + " in the Service", func() string {
					now, _ := v.herd.service(c)
					if target := now.Spec.Ports[0].TargetPort; target != before.Ports[0].TargetPort {
						return fmt.Sprintf("the Service %s has the targetPort %s", now.Name, target.String())
					}
					return workload.Unrestored(&now, edited, before)
				}
			})
			v.herd.driftCows = nil // no check after this one needs them
		}))).Feature()
}
