// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

// These are the additions of another client to a Deployment.
const (
	sidecar        = "parasol"
	initializer    = "sunscreen"
	sunscreenImage = "operator-labs/sunscreen:v0"
)

var allTypes = []string{availableType, progressingType, degradedType}

// pendingCow is a Lolcow of pendingNamespace whose Pods no kubelet runs. The check writes their status.
type pendingCow struct {
	visit
	*cow
	pods []corev1.Pod
	// failing is the number of the failing Pod.
	failing   int
	recording *workload.Recording
}

// createPending creates a Lolcow in pendingNamespace, with a container and an init container of another client. These
// request more than any node has, so no Pod starts, whatever the operator's own container requests.
func (v visit) createPending() *pendingCow {
	v.t.Helper()
	p := &pendingCow{visit: v, cow: v.create(v.herd.draw(pendingNamespace))}
	v.asSpecified(p.cow)
	unschedulable := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100k")},
	}
	v.editDeployment(p.cow, func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.InitContainers = append(pod.InitContainers,
			corev1.Container{Name: initializer, Image: sunscreenImage, Resources: unschedulable})
		pod.Containers = append(pod.Containers,
			corev1.Container{Name: sidecar, Image: missingImage, Resources: unschedulable})
	})
	p.awaitPods(1)
	return p
}

// awaitPods waits until the Deployment has the wanted number of Pods with the other client's container that have
// not failed.
func (p *pendingCow) awaitPods(want int) {
	p.t.Helper()
	for wait := p.NewWait(podPatience, 2*podPatience); ; p.Pause(p.ctx, p.t, pagePoll/2) {
		deployment, _ := p.herd.deployment(p.cow)
		pods, err := p.herd.PodsOf(p.ctx, &deployment)
		p.OK(p.t, "asking for the Pods", err)
		p.pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
			return !hasSidecar(pod) || pod.Status.Phase == corev1.PodFailed
		})
		if len(p.pods) == want {
			return
		}
		if why := wait.Over(p.ctx); why != "" {
			p.Fail(p.t, fmt.Sprintf("the Deployment of %s has %s with the container %s, which another client has added",
				p.Name, workload.Counted(want, "Pod"), sidecar),
				fmt.Sprintf("it has %s, of which %d have that container (%s)",
					workload.Counted(len(pods), "Pod"), len(p.pods), why))
		}
	}
}

func hasSidecar(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == sidecar })
}

// writePodStatuses writes the status of the Pods as a kubelet would. The containers in differ belong to the failing
// Pod, whose status is written first.
func (p *pendingCow) writePodStatuses(ready bool, differ ...corev1.ContainerStatus) {
	p.t.Helper()
	p.writePodStatus(&p.pods[p.failing], ready, differ...)
	for i := range p.pods {
		if i != p.failing {
			p.writePodStatus(&p.pods[i], ready)
		}
	}
}

// writePodStatus writes the status of a Pod. The Pod exists unless the operator has changed the number of replicas,
// which the check has set.
func (p *pendingCow) writePodStatus(pod *corev1.Pod, ready bool, differ ...corev1.ContainerStatus) {
	p.t.Helper()
	err := p.herd.Kubelet(p.ctx, pod, ready, differ...)
	if apierrors.IsNotFound(err) {
		p.Fail(p.t, fmt.Sprintf("the Deployment of %s keeps its %s, as another client has scaled it",
			p.Name, workload.Counted(len(p.pods), "replica")),
			fmt.Sprintf("the Pod %s is gone", pod.Name))
	}
	p.OK(p.t, "saying how a Pod is", err)
}

// awaitDegraded waits for the status of Degraded, and for a message.
func (p *pendingCow) awaitDegraded(why, status string, mentions ...string) {
	p.t.Helper()
	p.conditions(p.cow, why, podPatience, workload.Wanted{Of: degradedType, Status: status, Mentions: mentions})
}

// awaitHealthy waits until nothing is wrong.
func (p *pendingCow) awaitHealthy(why string) {
	p.t.Helper()
	p.conditions(p.cow, why, podPatience,
		workload.Wanted{Of: availableType, Status: "True"}, workload.Wanted{Of: degradedType, Status: "False"},
		workload.Wanted{Of: progressingType, Status: "False"})
	p.awaitDone(p.cow, doneSoon)
}

// record starts a recording.
func (p *pendingCow) record() {
	p.t.Helper()
	now, exists := p.herd.Get(p.NamespacedName)
	if !exists {
		p.Fail(p.t, p.Name+" stays", "it is gone")
	}
	if p.recording != nil {
		p.recording.Stop()
	}
	var err error
	p.recording, err = p.herd.Record(p.ctx, now)
	p.OK(p.t, "watching a Lolcow", err)
}

// neverDegraded fails if Degraded was ever True since the recording began, and not only at the end.
func (p *pendingCow) neverDegraded(why string) {
	p.t.Helper()
	p.awaitDone(p.cow, doneSoon)
	p.awaitDegraded(why, "False")
	if p.recording.Shows(degradedType, "True") {
		p.Fail(p.t, why+": Degraded of "+p.Name+" stays False", "for a moment it was True")
	}
}

func podStates() types.Feature {
	var p *pendingCow
	return features.New("conditions follow the Pods").
		Assess("and return when another client has edited them", check.Assess(assess(func(v visit) {
			p = v.createPending()
			v.createForeignPods(p.cow)
			v.conditions(p.cow, "its Pod is not ready yet", podPatience, workload.Wanted{Of: availableType, Status: "False"},
				workload.Wanted{Of: progressingType, Status: "True"}, workload.Wanted{Of: degradedType, Status: "False"})
			p.writePodStatuses(true)
			p.awaitHealthy("all containers of its Pod are ready")
			v.editDeployment(p.cow, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
			p.awaitPods(2)
			p.writePodStatuses(true)
			p.awaitHealthy("all containers of its two Pods are ready")
			p.edited()
		}))).
		Assess("of this Lolcow only", check.Assess(assess(func(v visit) {
			p.visit = v
			p.record()
			_, err := v.herd.Patch(v.ctx, p.NamespacedName, `{"metadata":{"labels":{"table":"4"}}}`)
			v.OK(v.t, "labelling a Lolcow", err)
			p.neverDegraded("Pods that have not both of its labels, or are in another namespace, can't pull their images")
			p.writePodStatuses(true, workload.RunningAfter(sidecar, true, 1))
			p.neverDegraded("a container that was restarted once is ready again")
		}))).
		Assess("and say the same as long as the same is wrong", check.Assess(assess(func(v visit) {
			p.visit = v
			p.stuck()
			p.writePodStatuses(true)
			p.awaitHealthy("all containers of its Pods are ready again")
		}))).
		Assess("and no longer those of a Pod that has ended", check.Assess(assess(func(v visit) {
			p.visit = v
			p.evicted()
		}))).
		Assess("while a rollout waits for a quota", check.Assess(assess(func(v visit) {
			p.visit = v
			p.refused()
		}))).
		Assess("and say that no Pod serves after a scale to 0", check.Assess(assess(func(v visit) {
			p.visit = v
			p.scaledToZero()
		}))).
		Teardown(check.Teardown(func(ctx context.Context, _ *check.Check) error {
			if p != nil && p.recording != nil {
				p.recording.Stop()
			}
			return herdOf(ctx).cleanPendingNamespace(ctx)
		})).Feature()
}

// editedMessage is the message that another client writes into conditions.
const editedMessage = "A user was here"

// edited makes another client edit the conditions, and remove them.
func (p *pendingCow) edited() {
	p.t.Helper()
	for _, edit := range []struct {
		what string
		edit func(condition map[string]any)
	}{
		{"another client has set Degraded to True", func(condition map[string]any) {
			if condition["type"] == degradedType {
				condition["status"], condition["reason"], condition["message"] = "True", "Edited", editedMessage
			}
		}},
		{"another client has changed the messages", func(condition map[string]any) { condition["message"] = editedMessage }},
		{"another client has removed the conditions", nil},
	} {
		now, _ := p.herd.Get(p.NamespacedName)
		patch, err := workload.ConditionsPatch(now, edit.edit)
		p.OK(p.t, "writing a patch", err)
		edited, err := p.herd.Dynamic.Resource(lolcows).Namespace(p.Namespace).Patch(p.ctx, p.Name,
			apitypes.MergePatchType, patch, metav1.PatchOptions{}, "status")
		p.OK(p.t, "editing the status of a Lolcow", err)
		wanted := []workload.Wanted{
			{Of: availableType, Status: "True"}, {Of: degradedType, Status: "False"}, {Of: progressingType, Status: "False"},
		}
		p.Eventually(p.ctx, p.t, edit.what+" of "+p.Name+", and the operator puts it back", p.herd.Changed,
			func() (string, bool) {
				object, exists := p.herd.Get(p.NamespacedName)
				unlike := p.herd.Unlike(p.NamespacedName, p.object.GetGeneration(), wanted)
				if exists {
					unlike = cmp.Or(unlike, workload.HasMessage(object, editedMessage, allTypes...))
				}
				if exists && !workload.Newer(object, edited) {
					return cmp.Or(unlike, workload.Unseen), false
				}
				return unlike, unlike == ""
			})
		p.awaitDone(p.cow, doneSoon)
	}
}

// stuck makes several containers fail, one after the other, as the kubelet reports it: the reasons alternate, and
// between two crashes a container runs. The status of no condition changes in that time.
func (p *pendingCow) stuck() {
	p.t.Helper()
	pull := func(name, reason string, n int) corev1.ContainerStatus {
		return workload.WaitingFor(name, reason, fmt.Sprintf("attempt %d: no such host", n), 0)
	}
	p.writePodStatuses(false, pull(sidecar, "ErrImagePull", 1))
	p.awaitDegraded("the image of a container can't be pulled", "True", missingImage)
	deployment := func() (string, bool) {
		d, wrong := p.herd.deployment(p.cow)
		return fmt.Sprintf("it has %d", d.Status.AvailableReplicas), wrong != "" || d.Status.AvailableReplicas == 0
	}
	p.EventuallyWithin(p.ctx, p.t,
		"the Deployment of "+p.Name+" has no available Pod", podPatience, p.herd.Changed, deployment)
	p.conditions(p.cow, "its Pods are not ready", podPatience,
		workload.Wanted{Of: availableType, Status: "False"}, workload.Wanted{Of: degradedType, Status: "True"})
	p.awaitDone(p.cow, doneSoon)
	p.record()
	began := p.Audit.Now()
	for n, reason := range []string{"ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"} {
		p.writePodStatuses(false, pull(sidecar, reason, n+2))
		p.awaitDone(p.cow, doneSoon)
	}
	p.awaitDegraded("the image of a container still can't be pulled", "True", missingImage)
	if writes := p.recording.Writes(allTypes...); writes > mostSame {
		p.Fail(p.t, fmt.Sprintf("while the image of a container of %s can't be pulled, its conditions stay the same, "+
			"whether the kubelet tries again or waits", p.Name),
			fmt.Sprintf("they were written %d times", writes))
	}
	p.failing = 1
	for n := range int32(2) {
		p.writePodStatuses(false, workload.WaitingFor(sidecar, "CrashLoopBackOff", fmt.Sprintf("back-off %d", n), n+3))
		p.awaitDegraded("a container ends with an error again and again", "True", sidecar)
		p.writePodStatuses(false, workload.RunningAfter(sidecar, false, n+4))
		p.awaitDone(p.cow, doneSoon)
	}
	p.awaitDegraded("a container ends with an error again and again, and runs for a moment", "True", sidecar)
	starting := workload.WaitingFor(sidecar, "PodInitializing", "", 0)
	p.writePodStatuses(false, starting, pull(initializer, "ErrImagePull", 1))
	p.awaitDegraded("the image of an init container can't be pulled", "True", sunscreenImage)
	p.writePodStatuses(false, starting, workload.WaitingFor(initializer, "CrashLoopBackOff", "back-off", 4))
	p.awaitDegraded("an init container ends with an error again and again", "True", initializer)
	p.awaitDone(p.cow, doneSoon)
	if p.recording.Shows(degradedType, "False") {
		p.Fail(p.t, fmt.Sprintf("while something is wrong with a Pod of %s, Degraded stays True", p.Name),
			"for a moment it was False")
	}
	transitions := p.recording.Transitions(allTypes...)
	recorded := p.eventWrites(p.cow, began)
	if len(recorded) > transitions+1 { // the first transition may have been written late
		p.Fail(p.t,
			fmt.Sprintf("the operator writes at most one Event about %s for each change of a condition's status", p.Name),
			fmt.Sprintf("it wrote Events %d times, and a status has changed %d times: for other reasons Degraded stayed True",
				len(recorded), transitions), audit.Lines(recorded)...)
	}
}

// evicted makes a kubelet evict a Pod. The Pod has failed, and stays, and another one replaces it.
func (p *pendingCow) evicted() {
	p.t.Helper()
	gone := p.pods[0].Name
	p.OK(p.t, "saying that a Pod has failed", p.herd.Evict(p.ctx, &p.pods[0]))
	p.awaitPods(len(p.pods))
	p.writePodStatuses(true)
	p.awaitHealthy(fmt.Sprintf("the Pod %s was evicted, its phase is Failed, "+
		"and another Pod has replaced it and is ready", gone))
}

// scaledToZero makes another client scale the Deployment to no Pods. For Kubernetes such a Deployment is available,
// because it has as many Pods as it should have, but nothing serves the page.
func (p *pendingCow) scaledToZero() {
	p.t.Helper()
	edited := p.editDeployment(p.cow, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })
	expected := fmt.Sprintf("the Deployment of %s, which another client has scaled to 0, has no Pod", p.Name)
	p.EventuallyWithin(p.ctx, p.t, expected, podPatience, p.herd.Changed, func() (string, bool) {
		deployment, wrong := p.herd.deployment(p.cow)
		switch is := deployment.Status; {
		case wrong != "":
			return wrong, false
		case is.ObservedGeneration < edited.Generation:
			return workload.Unseen, false
		default:
			return fmt.Sprintf("it has %s", workload.Counted(int(is.Replicas), "Pod")),
				is.Replicas == 0 && is.AvailableReplicas == 0
		}
	})
	p.awaitDone(p.cow, doneSoon)
	p.conditions(p.cow, "another client has scaled the Deployment to 0, so that no Pod serves the page", podPatience,
		workload.Wanted{Of: availableType, Status: "False"})
}

// mostSame is how often conditions that should stay the same may be written: once, if the operator saw a change late.
const mostSame = 1

// podQuota is the name of a quota that allows no further Pods in pendingNamespace than the existing ones.
const podQuota = "no-more-pods"

// refused begins a rollout whose Pods a quota forbids, while the old Pods still serve.
func (p *pendingCow) refused() {
	p.t.Helper()
	p.OK(p.t, "making a quota", p.herd.Limit(p.ctx, pendingNamespace, podQuota, corev1.ResourcePods, "1"))
	p.OK(p.t, "waiting for the quota", await.Within(p.ctx, podPatience, pagePoll/2, "the quota to refuse Pods",
		func(ctx context.Context) (string, error) {
			_, err := p.herd.Client.CoreV1().Pods(pendingNamespace).Create(ctx, foreignPod(pendingNamespace, "probe", nil),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if apierrors.IsForbidden(err) {
				return "", nil
			}
			return "it lets one in", err
		}))
	p.record()
	p.setGreeting(p.cow, p.herd.drawGreeting())
	p.asSpecified(p.cow)
	p.conditions(p.cow, "a quota refuses Pods with the new greeting, and those with the old one still serve", podPatience,
		workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{"quota"}},
		workload.Wanted{Of: availableType, Status: "True"})
	p.awaitDone(p.cow, doneSoon)
	if p.recording.Claims(progressingType, "False", p.object.GetGeneration()) {
		p.Fail(p.t, fmt.Sprintf("the greeting of %s has changed, and Progressing is not False for the new generation "+
			"before a Pod has the new greeting", p.Name),
			"for a moment it was: "+
				"what was known of the Deployment was its state from before the change (status.observedGeneration)")
	}
}

// createForeignPods creates Pods that do not belong to a Lolcow although they have one of its labels, or both in
// another namespace. They can't pull their images.
func (v visit) createForeignPods(c *cow) {
	v.t.Helper()
	for _, pod := range []*corev1.Pod{
		foreignPod(meadow, "of-a-namesake", c.podLabels()),
		foreignPod(pendingNamespace, "of-another-application",
			map[string]string{nameLabel: "milkmaid", instanceLabel: c.Name}),
		foreignPod(pendingNamespace, "of-another-lolcow",
			map[string]string{nameLabel: "lolcow", instanceLabel: c.Name + "-junior"}),
	} {
		created, err := v.herd.Client.CoreV1().Pods(pod.Namespace).Create(v.ctx, pod, metav1.CreateOptions{})
		v.OK(v.t, "making a Pod", err)
		waiting := workload.WaitingFor("main", "ImagePullBackOff", "no such host", 0)
		v.OK(v.t, "saying how a Pod is", v.herd.Kubelet(v.ctx, created, false, waiting))
	}
}

// unknownScheduler is the name of a scheduler that does not exist.
const unknownScheduler = "lolcow-checks"

// foreignPod returns a Pod that no node runs.
func foreignPod(namespace, name string, labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      "stranger-" + name,
			Namespace: namespace,
			Labels:    map[string]string{existing.Label: "true"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: unknownScheduler, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "operator-labs/stranger:v0"}},
		},
	}
	maps.Copy(pod.Labels, labels)
	return pod
}

// cleanPendingNamespace deletes the objects that no operator has created.
func (h *herd) cleanPendingNamespace(ctx context.Context) error {
	for _, name := range []string{"of-a-namesake", "of-another-application", "of-another-lolcow"} {
		namespace := pendingNamespace
		if name == "of-a-namesake" {
			namespace = meadow
		}
		if err := h.Client.CoreV1().Pods(namespace).Delete(
			ctx, "stranger-"+name, deleteNow,
		); workload.IgnoreGone(err) != nil {
			return fmt.Errorf("removing a Pod: %w", err)
		}
	}
	if err := h.Client.CoreV1().ResourceQuotas(pendingNamespace).Delete(
		ctx, podQuota, deleteNow,
	); workload.IgnoreGone(err) != nil {
		return fmt.Errorf("removing a quota: %w", err)
	}
	return nil
}
