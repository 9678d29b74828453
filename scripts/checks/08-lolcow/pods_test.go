// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// held is a Lolcow of the barn whose Pods no kubelet runs. The check writes their status.
type held struct {
	visit
	*cow
	pods []corev1.Pod
	// sick is the number of the failing Pod.
	sick      int
	recording *workload.Recording
}

// inBarn creates a Lolcow in the barn, with a container and an init container of another client. These request more
// than any node has, so no Pod starts, whatever the operator's own container requests.
func (v visit) inBarn() *held {
	v.t.Helper()
	h := &held{visit: v, cow: v.make(v.herd.draw(barn))}
	v.asSpecified(h.cow)
	much := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100k")}}
	v.editDeployment(h.cow, func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.InitContainers = append(pod.InitContainers, corev1.Container{Name: initializer, Image: sunscreenImage, Resources: much})
		pod.Containers = append(pod.Containers, corev1.Container{Name: sidecar, Image: missingImage, Resources: much})
	})
	h.awaitPods(1)
	return h
}

// awaitPods waits until there are so many Pods with the other client's container that have not failed.
func (h *held) awaitPods(want int) {
	h.t.Helper()
	for wait := h.NewWait(podPatience, 2*podPatience); ; h.Pause(h.ctx, h.t, pagePoll/2) {
		deployment, _ := h.herd.deployment(h.cow)
		pods, err := h.herd.PodsOf(h.ctx, &deployment)
		h.OK(h.t, "asking for the Pods", err)
		h.pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return !hasSidecar(pod) || pod.Status.Phase == corev1.PodFailed })
		if len(h.pods) == want {
			return
		}
		if why := wait.Over(h.ctx); why != "" {
			h.Fail(h.t, fmt.Sprintf("the Deployment of %s has %s with the container %s, which another client has added",
				h.Name, workload.Counted(want, "Pod"), sidecar),
				fmt.Sprintf("it has %s, of which %d have that container (%s)", workload.Counted(len(pods), "Pod"), len(h.pods), why))
		}
	}
}

func hasSidecar(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == sidecar })
}

// are writes the status of the Pods as a kubelet would. The containers in differ belong to the sick Pod, whose status
// is written first.
func (h *held) are(ready bool, differ ...corev1.ContainerStatus) {
	h.t.Helper()
	h.podIs(&h.pods[h.sick], ready, differ...)
	for i := range h.pods {
		if i != h.sick {
			h.podIs(&h.pods[i], ready)
		}
	}
}

// podIs writes the status of a Pod. The Pod exists unless the operator has changed the number of replicas, which the
// check has set.
func (h *held) podIs(pod *corev1.Pod, ready bool, differ ...corev1.ContainerStatus) {
	h.t.Helper()
	err := h.herd.Kubelet(h.ctx, pod, ready, differ...)
	if apierrors.IsNotFound(err) {
		h.Fail(h.t, fmt.Sprintf("the Deployment of %s keeps its %s, as another client has scaled it",
			h.Name, workload.Counted(len(h.pods), "replica")),
			fmt.Sprintf("the Pod %s is gone", pod.Name))
	}
	h.OK(h.t, "saying how a Pod is", err)
}

// is waits for the status of Degraded, and for a message.
func (h *held) is(why, status string, mentions ...string) {
	h.t.Helper()
	h.conditions(h.cow, why, podPatience, workload.Wanted{Of: degradedType, Status: status, Mentions: mentions})
}

// well waits until nothing is wrong.
func (h *held) well(why string) {
	h.t.Helper()
	h.conditions(h.cow, why, podPatience,
		workload.Wanted{Of: availableType, Status: "True"}, workload.Wanted{Of: degradedType, Status: "False"},
		workload.Wanted{Of: progressingType, Status: "False"})
	h.done(h.cow, doneSoon)
}

// record starts a recording.
func (h *held) record() {
	h.t.Helper()
	now, there := h.herd.Get(h.NamespacedName)
	if !there {
		h.Fail(h.t, h.Name+" stays", "it is gone")
	}
	if h.recording != nil {
		h.recording.Stop()
	}
	var err error
	h.recording, err = h.herd.Record(h.ctx, now)
	h.OK(h.t, "watching a Lolcow", err)
}

// neverDegraded fails if Degraded was ever True since the recording began, and not only at the end.
func (h *held) neverDegraded(why string) {
	h.t.Helper()
	h.done(h.cow, doneSoon)
	h.is(why, "False")
	if h.recording.Shows(degradedType, "True") {
		h.Fail(h.t, why+": Degraded of "+h.Name+" stays False", "for a moment it was True")
	}
}

func podStates() types.Feature {
	var h *held
	return features.New("conditions follow the Pods").
		Assess("and return when another client has edited them", check.Assess(assess(func(v visit) {
			h = v.inBarn()
			v.strangers(h.cow)
			v.conditions(h.cow, "its Pod is not ready yet", podPatience, workload.Wanted{Of: availableType, Status: "False"},
				workload.Wanted{Of: progressingType, Status: "True"}, workload.Wanted{Of: degradedType, Status: "False"})
			h.are(true)
			h.well("all containers of its Pod are ready")
			v.editDeployment(h.cow, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
			h.awaitPods(2)
			h.are(true)
			h.well("all containers of its two Pods are ready")
			h.edited()
		}))).
		Assess("of this Lolcow only", check.Assess(assess(func(v visit) {
			h.visit = v
			h.record()
			_, err := v.herd.Patch(v.ctx, h.NamespacedName, `{"metadata":{"labels":{"table":"4"}}}`)
			v.OK(v.t, "labelling a Lolcow", err)
			h.neverDegraded("Pods that have not both of its labels, or are in another namespace, can't pull their images")
			h.are(true, workload.RunningAfter(sidecar, true, 1))
			h.neverDegraded("a container that was restarted once is ready again")
		}))).
		Assess("and say the same as long as the same is wrong", check.Assess(assess(func(v visit) {
			h.visit = v
			h.stuck()
			h.are(true)
			h.well("all containers of its Pods are ready again")
		}))).
		Assess("and no longer those of a Pod that has ended", check.Assess(assess(func(v visit) {
			h.visit = v
			h.evicted()
		}))).
		Assess("while a rollout waits for a quota", check.Assess(assess(func(v visit) {
			h.visit = v
			h.refused()
		}))).
		Assess("and say that no Pod serves after a scale to 0", check.Assess(assess(func(v visit) {
			h.visit = v
			h.scaledToZero()
		}))).
		Teardown(check.Teardown(func(ctx context.Context, _ *check.Check) error {
			if h != nil && h.recording != nil {
				h.recording.Stop()
			}
			return herdOf(ctx).sweepBarn(ctx)
		})).Feature()
}

// editedMessage is the message that another client writes into conditions.
const editedMessage = "A user was here"

// edited makes another client edit the conditions, and remove them.
func (h *held) edited() {
	h.t.Helper()
	for _, edit := range []struct {
		what string
		of   func(condition map[string]any)
	}{
		{"another client has set Degraded to True", func(condition map[string]any) {
			if condition["type"] == degradedType {
				condition["status"], condition["reason"], condition["message"] = "True", "Edited", editedMessage
			}
		}},
		{"another client has changed the messages", func(condition map[string]any) { condition["message"] = editedMessage }},
		{"another client has removed the conditions", nil},
	} {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": h.conditionsWith(edit.of)}})
		h.OK(h.t, "writing a patch", err)
		edited, err := h.herd.Dynamic.Resource(lolcows).Namespace(h.Namespace).Patch(h.ctx, h.Name,
			apitypes.MergePatchType, patch, metav1.PatchOptions{}, "status")
		h.OK(h.t, "editing the status of a Lolcow", err)
		wanted := []workload.Wanted{
			{Of: availableType, Status: "True"}, {Of: degradedType, Status: "False"}, {Of: progressingType, Status: "False"},
		}
		h.Eventually(h.ctx, h.t, edit.what+" of "+h.Name+", and the operator puts it back", h.herd.Changed, func() (string, bool) {
			object, there := h.herd.Get(h.NamespacedName)
			unlike := h.herd.Unlike(h.NamespacedName, h.object.GetGeneration(), wanted)
			if there {
				unlike = cmp.Or(unlike, workload.HasMessage(object, editedMessage, allTypes...))
			}
			if there && !workload.Newer(object, edited) {
				return cmp.Or(unlike, workload.Unseen), false
			}
			return unlike, unlike == ""
		})
		h.done(h.cow, doneSoon)
	}
}

// conditionsWith returns the conditions of the Lolcow with an edit of each. If edit is nil, it returns none of them.
func (h *held) conditionsWith(edit func(condition map[string]any)) []any {
	if edit == nil {
		return []any{}
	}
	now, _ := h.herd.Get(h.NamespacedName)
	all, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
	for _, one := range all {
		if condition, ok := one.(map[string]any); ok {
			edit(condition)
		}
	}
	return all
}

// stuck makes several containers fail, one after the other, as the kubelet reports it: the reasons alternate, and
// between two crashes a container runs. The status of no condition changes in that time.
func (h *held) stuck() {
	h.t.Helper()
	pull := func(name, reason string, n int) corev1.ContainerStatus {
		return workload.WaitingFor(name, reason, fmt.Sprintf("attempt %d: no such host", n), 0)
	}
	h.are(false, pull(sidecar, "ErrImagePull", 1))
	h.is("the image of a container can't be pulled", "True", missingImage)
	deployment := func() (string, bool) {
		d, wrong := h.herd.deployment(h.cow)
		return fmt.Sprintf("it has %d", d.Status.AvailableReplicas), wrong != "" || d.Status.AvailableReplicas == 0
	}
	h.EventuallyWithin(h.ctx, h.t, "the Deployment of "+h.Name+" has no available Pod", podPatience, h.herd.Changed, deployment)
	h.conditions(h.cow, "its Pods are not ready", podPatience,
		workload.Wanted{Of: availableType, Status: "False"}, workload.Wanted{Of: degradedType, Status: "True"})
	h.done(h.cow, doneSoon)
	h.record()
	began := h.Audit.Now()
	for n, reason := range []string{"ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"} {
		h.are(false, pull(sidecar, reason, n+2))
		h.done(h.cow, doneSoon)
	}
	h.is("the image of a container still can't be pulled", "True", missingImage)
	if writes := h.recording.Writes(allTypes...); writes > mostSame {
		h.Fail(h.t, fmt.Sprintf("while the image of a container of %s can't be pulled, its conditions stay the same, "+
			"whether the kubelet tries again or waits", h.Name),
			fmt.Sprintf("they were written %d times", writes))
	}
	h.sick = 1
	for n := range int32(2) {
		h.are(false, workload.WaitingFor(sidecar, "CrashLoopBackOff", fmt.Sprintf("back-off %d", n), n+3))
		h.is("a container ends with an error again and again", "True", sidecar)
		h.are(false, workload.RunningAfter(sidecar, false, n+4))
		h.done(h.cow, doneSoon)
	}
	h.is("a container ends with an error again and again, and runs for a moment", "True", sidecar)
	starting := workload.WaitingFor(sidecar, "PodInitializing", "", 0)
	h.are(false, starting, pull(initializer, "ErrImagePull", 1))
	h.is("the image of an init container can't be pulled", "True", sunscreenImage)
	h.are(false, starting, workload.WaitingFor(initializer, "CrashLoopBackOff", "back-off", 4))
	h.is("an init container ends with an error again and again", "True", initializer)
	h.done(h.cow, doneSoon)
	if h.recording.Shows(degradedType, "False") {
		h.Fail(h.t, fmt.Sprintf("while something is wrong with a Pod of %s, Degraded stays True", h.Name), "for a moment it was False")
	}
	transitions := h.recording.Transitions(allTypes...)
	recorded := h.eventWrites(h.cow, began)
	if len(recorded) > transitions+1 { // the first transition may have been written late
		h.Fail(h.t, fmt.Sprintf("the operator writes at most one Event about %s for each change of a condition's status", h.Name),
			fmt.Sprintf("it wrote Events %d times, and a status has changed %d times: for other reasons Degraded stayed True",
				len(recorded), transitions), audit.Lines(recorded)...)
	}
}

// evicted makes a kubelet evict a Pod. The Pod has failed, and stays, and another one replaces it.
func (h *held) evicted() {
	h.t.Helper()
	gone := h.pods[0].Name
	h.OK(h.t, "saying that a Pod has failed", h.herd.Evict(h.ctx, &h.pods[0]))
	h.awaitPods(len(h.pods))
	h.are(true)
	h.well(fmt.Sprintf("the Pod %s was evicted, its phase is Failed, and another Pod has replaced it and is ready", gone))
}

// scaledToZero makes another client scale the Deployment to no Pods. For Kubernetes such a Deployment is available,
// because it has as many Pods as it should have, but nothing serves the page.
func (h *held) scaledToZero() {
	h.t.Helper()
	edited := h.editDeployment(h.cow, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })
	expected := fmt.Sprintf("the Deployment of %s, which another client has scaled to 0, has no Pod", h.Name)
	h.EventuallyWithin(h.ctx, h.t, expected, podPatience, h.herd.Changed, func() (string, bool) {
		deployment, wrong := h.herd.deployment(h.cow)
		switch is := deployment.Status; {
		case wrong != "":
			return wrong, false
		case is.ObservedGeneration < edited.Generation:
			return workload.Unseen, false
		default:
			return fmt.Sprintf("it has %s", workload.Counted(int(is.Replicas), "Pod")), is.Replicas == 0 && is.AvailableReplicas == 0
		}
	})
	h.done(h.cow, doneSoon)
	h.conditions(h.cow, "another client has scaled the Deployment to 0, so that no Pod serves the page", podPatience,
		workload.Wanted{Of: availableType, Status: "False"})
}

// mostSame is how often conditions that should stay the same may be written: once, if the operator saw a change late.
const mostSame = 1

// crowd is the name of a quota that allows no further Pods in the barn than the existing ones.
const crowd = "no-more-pods"

// refused begins a rollout whose Pods a quota forbids, while the old Pods still serve.
func (h *held) refused() {
	h.t.Helper()
	quotas := h.herd.Client.CoreV1().ResourceQuotas(barn)
	_, err := quotas.Create(h.ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: crowd},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	h.OK(h.t, "making a quota", ignoreAlreadyExists(err))
	ctx, cancel := context.WithTimeoutCause(h.ctx, podPatience, fmt.Errorf("it does not after %s", podPatience))
	defer cancel()
	h.OK(h.t, "waiting for the quota", await.Until(ctx, pagePoll/2, "the quota to refuse Pods", func(ctx context.Context) (string, error) {
		_, err := h.herd.Client.CoreV1().Pods(barn).Create(ctx, stranger(barn, "probe", nil),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) {
			return "", nil
		}
		return "it lets one in", err
	}))
	h.record()
	h.say(h.cow, h.herd.drawGreeting())
	h.asSpecified(h.cow)
	h.conditions(h.cow, "a quota refuses Pods with the new greeting, and those with the old one still serve", podPatience,
		workload.Wanted{Of: degradedType, Status: "True", Mentions: []string{"quota"}}, workload.Wanted{Of: availableType, Status: "True"})
	h.done(h.cow, doneSoon)
	if h.recording.Claims(progressingType, "False", h.object.GetGeneration()) {
		h.Fail(h.t, fmt.Sprintf("the greeting of %s has changed, and Progressing is not False for the new generation "+
			"before a Pod has the new greeting", h.Name),
			"for a moment it was: what was known of the Deployment was its state from before the change (status.observedGeneration)")
	}
}

// strangers creates Pods that do not belong to a Lolcow although they have one of its labels, or both in another
// namespace. They can't pull their images.
func (v visit) strangers(c *cow) {
	v.t.Helper()
	for _, pod := range []*corev1.Pod{
		stranger(meadow, "of-a-namesake", c.podLabels()),
		stranger(barn, "of-another-application", map[string]string{nameLabel: "milkmaid", instanceLabel: c.Name}),
		stranger(barn, "of-another-lolcow", map[string]string{nameLabel: "lolcow", instanceLabel: c.Name + "-junior"}),
	} {
		made, err := v.herd.Client.CoreV1().Pods(pod.Namespace).Create(v.ctx, pod, metav1.CreateOptions{})
		v.OK(v.t, "making a Pod", err)
		v.OK(v.t, "saying how a Pod is", v.herd.Kubelet(v.ctx, made, false, workload.WaitingFor("main", "ImagePullBackOff", "no such host", 0)))
	}
}

// unknownScheduler is the name of a scheduler that does not exist.
const unknownScheduler = "lolcow-checks"

// stranger returns a Pod that no node runs.
func stranger(namespace, name string, labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger-" + name, Namespace: namespace, Labels: map[string]string{existing.Label: "true"}},
		Spec: corev1.PodSpec{
			SchedulerName: unknownScheduler, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "operator-labs/stranger:v0"}},
		},
	}
	maps.Copy(pod.Labels, labels)
	return pod
}

// sweepBarn deletes the objects that no operator has created.
func (h *herd) sweepBarn(ctx context.Context) error {
	for _, name := range []string{"of-a-namesake", "of-another-application", "of-another-lolcow"} {
		namespace := barn
		if name == "of-a-namesake" {
			namespace = meadow
		}
		if err := h.Client.CoreV1().Pods(namespace).Delete(ctx, "stranger-"+name, deleteNow); workload.IgnoreGone(err) != nil {
			return fmt.Errorf("removing a Pod: %w", err)
		}
	}
	if err := h.Client.CoreV1().ResourceQuotas(barn).Delete(ctx, crowd, deleteNow); workload.IgnoreGone(err) != nil {
		return fmt.Errorf("removing a quota: %w", err)
	}
	return nil
}
