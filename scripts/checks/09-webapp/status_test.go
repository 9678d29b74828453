// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

// scaleOf returns the scale of a WebApp, as `kubectl scale` and an autoscaler read it.
func (v visit) scaleOf(a *app) autoscalingv1.Scale {
	v.t.Helper()
	object, err := v.town.Dynamic.Resource(webapps).Namespace(a.Namespace).Get(v.ctx, a.Name, metav1.GetOptions{}, "scale")
	v.OK(v.t, "asking for the scale of "+a.Name, err)
	var is autoscalingv1.Scale
	v.OK(v.t, "reading a scale", runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &is))
	return is
}

// scaleTo changes the scale of a WebApp, as `kubectl scale` and an autoscaler do: it reads the scale and writes it, and
// repeats that if the WebApp has changed in between.
func (v visit) scaleTo(a *app, replicas int32) {
	v.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		is := v.scaleOf(a)
		is.Spec.Replicas = replicas
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&is)
		v.OK(v.t, "writing a scale", err)
		_, err = v.town.Dynamic.Resource(webapps).Namespace(a.Namespace).Update(v.ctx,
			&unstructured.Unstructured{Object: content}, metav1.UpdateOptions{}, "scale")
		return err
	})
	v.OK(v.t, "scaling "+a.Name, err)
	a.replicas = replicas
	object, err := v.town.Dynamic.Resource(webapps).Namespace(a.Namespace).Get(v.ctx, a.Name, metav1.GetOptions{})
	v.OK(v.t, "reading "+a.Name, err)
	a.object = object
}

func scale() frameworktypes.Feature {
	return features.New("kubectl scale works").
		Assess("up and down", check.Assess(assess(func(v visit) {
			none := v.planned()
			v.Settle(v.ctx, v.t)
			if is := v.scaleOf(none); is.Status.Replicas != 0 {
				v.Fail(v.t, fmt.Sprintf("no Pod is let into the namespace, so that %s has none: status.replicas is 0", none.Name),
					fmt.Sprintf("it has status.replicas: %d", is.Status.Replicas))
			}
			a := v.create(v.town.draw(waiting))
			for _, replicas := range []int32{1, 3, 2} {
				if replicas != a.replicas {
					v.scaleTo(a, replicas)
				}
				v.asSpecified(a)
				v.eventually(podPatience, fmt.Sprintf("%s is scaled to %d, and then its scale has status.replicas: %d",
					a.Name, replicas, replicas), func() string {
					if is := v.scaleOf(a); is.Status.Replicas != replicas || is.Spec.Replicas != replicas {
						return fmt.Sprintf("it has spec.replicas: %d and status.replicas: %d", is.Spec.Replicas, is.Status.Replicas)
					}
					return ""
				})
			}
		}))).Feature()
}

func names(pods []corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		all = append(all, pod.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// selector uses the scale as a horizontal Pod autoscaler does: it lists the Pods by the selector.
func selector() frameworktypes.Feature {
	return features.New("an autoscaler finds the Pods").
		Assess("and no others", check.Assess(assess(func(v visit) {
			a, b := v.town.draw(waiting), v.town.draw(waiting)
			a.replicas, b.image, b.Name = 2, a.image, a.Name+"-b"
			v.create(a)
			v.create(b)
			v.asSpecified(a, b)
			for _, one := range []*app{a, b} {
				deployment, _ := v.town.deployment(one)
				expected := fmt.Sprintf("the scale of %s has in status.selector what selects its %s, and no others",
					one.Name, workload.Counted(int(one.replicas), "Pod"))
				v.eventually(podPatience, expected, func() string {
					is := v.scaleOf(one)
					selector, err := labels.Parse(is.Status.Selector)
					switch {
					case err != nil:
						return fmt.Sprintf("it is %q: %v", is.Status.Selector, err)
					case selector.Empty():
						return fmt.Sprintf("it is %q, which selects all Pods", is.Status.Selector)
					}
					found, err := v.town.Client.CoreV1().Pods(waiting).List(v.ctx,
						metav1.ListOptions{LabelSelector: is.Status.Selector})
					v.OK(v.t, "asking for Pods", err)
					pods := v.podsOf(&deployment)
					if len(pods) != int(one.replicas) || names(pods) != names(found.Items) {
						return fmt.Sprintf("it is %q, which selects %s (%s); the Deployment has %s (%s)",
							is.Status.Selector, workload.Counted(len(found.Items), "Pod"), names(found.Items),
							workload.Counted(len(pods), "Pod"), names(pods))
					}
					return ""
				})
			}
		}))).Feature()
}

// available acts as the kubelet: no Pod starts here, and the check decides which of them is ready.
func available() frameworktypes.Feature {
	return features.New("Available tells whether all Pods are ready").
		Assess("and run what the spec says", check.Assess(assess(func(v visit) {
			isAvailable, isNot := workload.Wanted{Of: availableType, Status: "True"},
				workload.Wanted{Of: availableType, Status: "False"}
			fine := workload.Wanted{Of: degradedType, Status: "False"}
			a := v.town.draw(waiting)
			a.replicas = 2
			v.create(a)
			v.asSpecified(a)
			v.conditions(a, "none of 2 Pods is ready", isNot, fine)
			pods := v.pods(a, 2)
			v.getReady(pods[0])
			v.eventually(podPatience, "the Deployment has one Pod that is ready", func() string {
				if d, _ := v.town.deployment(a); d.Status.ReadyReplicas != 1 {
					return fmt.Sprintf("it has %d", d.Status.ReadyReplicas)
				}
				return ""
			})
			v.Settle(v.ctx, v.t)
			v.conditions(a, "one of 2 Pods is ready", isNot)
			v.getReady(pods[1])
			v.conditionsWithin(a, "both Pods are ready", podPatience, isAvailable, fine)

			v.refusedImage(a)
			v.conditions(a, "both Pods run the image of before, which is that of the spec again", isAvailable, fine)

			recording, err := v.town.Record(v.ctx, a.object)
			v.OK(v.t, "watching "+a.Name, err)
			defer recording.Stop()
			// After the operator's first write, its cache has its own writes only after a delay.
			v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
				{Kind: faults.Stale, Class: faults.Write, Service: faults.API, For: metav1.Duration{Duration: watchDelay}},
			}}))
			v.setImage(a, v.town.drawImage())
			v.asSpecified(a)
			v.conditions(a, "no Pod runs the new image yet", isNot)
			v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
			v.Settle(v.ctx, v.t)
			v.conditions(a, "no Pod runs the new image yet", isNot)
			if recording.Claims(availableType, "True", a.generation()) {
				v.Fail(v.t, fmt.Sprintf("the image of %s has changed, "+
					"and it is not Available for the new generation before its Pods run the new image", a.Name),
					"for a moment it was: the Deployment's status was still that of its generation before (status.observedGeneration)")
			}
			v.halfRolledOut(a, recording)
			v.rollOut(a)
			v.conditionsWithin(a, "both Pods run the new image and are ready", podPatience, isAvailable, fine)
			v.setReplicas(a, 0)
			v.asSpecified(a)
			isAvailable.Reason = "ScaledToZero"
			v.conditions(a, "0 Pods are asked for, and there are 0", isAvailable, fine)
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// refusedImage changes the image of a WebApp whose Pods are ready, while the API server answers the update of its
// Deployment with an error. Then it restores the image.
func (v visit) refusedImage(a *app) {
	v.t.Helper()
	end, err := v.town.Answering(v.ctx, v.OperatorUser(), a.Namespace, []string{"deployments"},
		func(_, name string) (none workload.Answer) {
			if name == a.Name {
				return workload.InternalError
			}
			return none
		})
	v.OK(v.t, "registering a webhook", err)
	defer end()
	recording, err := v.town.Record(v.ctx, a.object)
	v.OK(v.t, "watching "+a.Name, err)
	defer recording.Stop()
	image := a.image
	v.setImage(a, v.town.drawImage())
	const why = "the image has changed, and the API server answers the update of the Deployment with an error"
	v.conditions(a, why,
		workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{workload.DownName}},
		workload.Wanted{Of: availableType, Status: "False"})
	if recording.Claims(availableType, "True", a.generation()) {
		v.Fail(v.t, fmt.Sprintf("%s: of %s Available is False", why, a.Name), "for a moment it was True")
	}
	v.setImage(a, image)
}

// pods waits until a WebApp has the wanted number of Pods, and returns them.
func (v visit) pods(a *app, want int) []corev1.Pod {
	v.t.Helper()
	for wait := v.NewWait(podPatience, 2*podPatience); ; v.Pause(v.ctx, v.t, waitFor) {
		deployment, _ := v.town.deployment(a)
		pods := v.podsOf(&deployment)
		if len(pods) == want {
			return pods
		}
		if why := wait.Over(v.ctx); why != "" {
			v.Fail(v.t, fmt.Sprintf("%s has %s", a.Name, workload.Counted(want, "Pod")),
				fmt.Sprintf("it has %s (%s)", workload.Counted(len(pods), "Pod"), why))
		}
	}
}

// podsInRollout waits until a WebApp has a Pod of its current image, and returns all of its Pods. On a busy machine the
// first one comes long after the Deployment has the image.
func (v visit) podsInRollout(a *app) []corev1.Pod {
	v.t.Helper()
	isNew := func(pod corev1.Pod) bool {
		return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Image == a.image })
	}
	for wait := v.NewWait(podPatience, 2*podPatience); ; v.Pause(v.ctx, v.t, waitFor) {
		deployment, _ := v.town.deployment(a)
		pods := v.podsOf(&deployment)
		if slices.ContainsFunc(pods, isNew) {
			return pods
		}
		if why := wait.Over(v.ctx); why != "" {
			v.Fail(v.t, fmt.Sprintf("%s has a Pod of its new image", a.Name), fmt.Sprintf("it has none (%s)", why))
		}
	}
}

// halfRolledOut makes the existing new Pods ready. Unless the Deployment replaces all at once, it then creates more of
// them, and keeps old Pods until these are ready, too: as many Pods are ready as requested, and not all of them run the
// new image.
func (v visit) halfRolledOut(a *app, recording *workload.Recording) {
	v.t.Helper()
	v.getReady(v.podsInRollout(a)...)
	expected := fmt.Sprintf("the Deployment of %s has %s of the new image",
		a.Name, workload.Counted(int(a.replicas), "Pod"))
	v.eventually(podPatience, expected, func() string {
		deployment, wrong := v.town.deployment(a)
		is := deployment.Status
		if wrong == "" && (is.ObservedGeneration < deployment.Generation || is.UpdatedReplicas < a.replicas) {
			return fmt.Sprintf("it has %d", is.UpdatedReplicas)
		}
		return wrong
	})
	v.Settle(v.ctx, v.t)
	claimed := recording.Claims(availableType, "True", a.generation())
	deployment, _ := v.town.deployment(a)
	if is := deployment.Status; claimed && is.Replicas > a.replicas {
		v.Fail(v.t, fmt.Sprintf("Available of %s is False until all Pods run the new image and are ready", a.Name),
			fmt.Sprintf("it is True, and of %d Pods that are ready %d have the image of before",
				is.ReadyReplicas, is.Replicas-is.UpdatedReplicas))
	}
}

// rollOut makes each new Pod ready, until the rollout is complete.
func (v visit) rollOut(a *app) {
	v.t.Helper()
	for wait := v.NewWait(podPatience, 2*podPatience); ; v.Pause(v.ctx, v.t, waitFor) {
		deployment, wrong := v.town.deployment(a)
		is := deployment.Status
		if wrong == "" && is.ObservedGeneration == deployment.Generation && is.UpdatedReplicas == a.replicas &&
			is.AvailableReplicas == a.replicas && is.Replicas == a.replicas {
			return
		}
		v.getReady(v.podsOf(&deployment)...)
		if why := wait.Over(v.ctx); why != "" {
			v.Fail(v.t, "the Deployment of "+a.Name+" is rolled out",
				fmt.Sprintf("%d of its Pods are new (%s)", is.UpdatedReplicas, why))
		}
	}
}

const (
	// pagePatience is the time limit for an operator that has done its part: then a Pod starts, which takes time on a busy
	// machine.
	pagePatience = 40 * time.Second
	// pagePoll is the interval between two requests for a page, because nothing reports its changes.
	pagePoll = 100 * time.Millisecond
)

// answers waits until a page is served at a port.
func (v visit) answers(a *app) {
	v.t.Helper()
	for wait := v.NewWait(pagePatience, 2*pagePatience); ; v.Pause(v.ctx, v.t, pagePoll) {
		text, err := v.town.Page(v.ctx, a.port)
		if closed := (*workload.ClosedError)(nil); err != nil && !errors.As(err, &closed) {
			v.OK(v.t, "asking for the page", err)
		}
		if err == nil && strings.TrimSpace(text) != "" {
			return
		}
		if why := wait.Over(v.ctx); why != "" {
			v.Fail(v.t, fmt.Sprintf("the web server of %s answers at node port %d", a.Name, a.port),
				fmt.Sprintf("%v (%s)", err, why))
		}
	}
}

// page checks a WebApp that was created before the first check, so that its Pod has had time to start.
func page() frameworktypes.Feature {
	return features.New("the web server answers").
		Assess("at the node port of the spec", check.Assess(assess(func(v visit) {
			exists, err := v.town.AwaitNode(v.ctx)
			v.OK(v.t, "waiting for the node", err)
			if !exists {
				v.Prevented(v.t, workload.NoNode)
			}
			a := v.town.first
			v.town.first = nil
			if a == nil {
				a = v.town.draw(street)
				a.image = serverImage
				v.create(a)
			}
			v.asSpecified(a)
			v.answers(a)
			v.conditionsWithin(a, "the page is served", podPatience,
				workload.Wanted{Of: availableType, Status: "True"}, workload.Wanted{Of: degradedType, Status: "False"})
			old := a.port
			v.setPort(a, v.town.ports.Draw())
			v.asSpecified(a)
			v.answers(a)
			for wait := v.NewWait(pagePatience, 2*pagePatience); ; v.Pause(v.ctx, v.t, pagePoll) {
				listens, _, err := v.town.Listens(v.ctx, old)
				v.OK(v.t, "asking whether the port is open", err)
				if !listens {
					return
				}
				if why := wait.Over(v.ctx); why != "" {
					v.Fail(v.t, fmt.Sprintf("the port is another one, and no server answers at node port %d any longer", old),
						fmt.Sprintf("it is still open (%s)", why))
				}
			}
		}))).Feature()
}

// forbidden waits until the Deployment of a WebApp reports that a quota forbids its Pods. Kubernetes' own controllers
// write that, and an operator may report it in the status. From then on nothing changes any more.
func (v visit) forbidden(a *app) {
	v.t.Helper()
	v.eventually(podPatience, "the Deployment of "+a.Name+" reports the quota", func() string {
		if deployment, wrong := v.town.deployment(a); wrong != "" || workload.Forbidden(&deployment) {
			return ""
		}
		return "it does not"
	})
}

func settles() frameworktypes.Feature {
	return features.New("at rest once right").
		Assess("when something changes that does not matter", check.Assess(assess(func(v visit) {
			a := v.planned()
			v.forbidden(a)
			v.AtRest(v.ctx, v.t)
			began, logged := v.Audit.Now(), v.Logged(v.ctx, v.t)
			for n := range 3 {
				_, err := v.town.Patch(v.ctx, a.NamespacedName, fmt.Sprintf(`{"metadata":{"labels":{"street":"%d"}}}`, n))
				v.OK(v.t, "labelling a WebApp", err)
				v.Pause(v.ctx, v.t, workload.UntilSeen)
			}
			v.AtRest(v.ctx, v.t)
			v.wroteNothing(began, fmt.Sprintf("the operator writes nothing when only a label of %s has changed: "+
				"no child, no status, no Event", a.Name),
				check.NoEventOfOthers(a.Name))
			v.NoErrors(v.ctx, v.t, logged, a.Name)
		}))).Feature()
}

// wroteNothing fails if the operator has written something that matches.
func (v visit) wroteNothing(since audit.Mark, expected string, about audit.Match) {
	v.t.Helper()
	others := func(e audit.Event) bool {
		// A WebApp whose quota was raised heals at a time that the operator chooses.
		heals := v.town.raised != nil && e.Name == v.town.raised.Name
		return e.Resource != "leases" && !heals
	}
	writes := v.Audit.Since(since, v.ByOperator().And(audit.Writes, others, about))
	if len(writes) > 0 {
		v.Fail(v.t, expected, fmt.Sprintf("it sent %d writes", len(writes)), audit.Lines(writes)...)
	}
}

func restart() frameworktypes.Feature {
	return features.New("right after a restart").
		Assess("what is right is left alone, and what changed meanwhile is put right", check.Assess(assess(func(v visit) {
			a, b, c, d := v.planned(), v.planned(), v.planned(), v.town.draw(plans)
			v.forbidden(a)
			v.AtRest(v.ctx, v.t)
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
			v.setImage(b, v.town.drawImage())
			v.setPort(c, v.town.ports.Draw())
			v.OK(v.t, "deleting a Service", v.town.Client.CoreV1().Services(plans).Delete(v.ctx, b.Name, metav1.DeleteOptions{}))
			v.OK(v.t, "deleting a Deployment",
				v.town.Client.AppsV1().Deployments(plans).Delete(v.ctx, c.Name, metav1.DeleteOptions{}))
			v.create(d)
			began := v.Audit.Now()
			v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
			v.asSpecified(a, b, c, d)
			v.AtRest(v.ctx, v.t)
			v.wroteNothing(began,
				fmt.Sprintf("after a restart the operator finds that all is right with %s, and writes nothing", a.Name),
				func(e audit.Event) bool { return e.Name == a.Name })
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			// Later checks need the operator, whatever the result of this one is.
			return c.Operator.Start(ctx)
		})).Feature()
}
