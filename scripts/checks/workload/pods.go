// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubectl/pkg/util/podutils"
)

// PodsOf returns the Pods of a Deployment that are not being deleted, found through its ReplicaSets.
func (o *Owners) PodsOf(ctx context.Context, d *appsv1.Deployment) (pods []corev1.Pod, err error) {
	sets, err := o.Client.AppsV1().ReplicaSets(d.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for the ReplicaSets: %w", err)
	}
	all, err := o.Client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for the Pods: %w", err)
	}
	for _, pod := range all.Items {
		if pod.DeletionTimestamp == nil && slices.ContainsFunc(sets.Items, func(set appsv1.ReplicaSet) bool {
			return metav1.IsControlledBy(&set, d) && metav1.IsControlledBy(&pod, &set)
		}) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// GetReady writes a Pod's status as a kubelet would: running and ready. It is no error if the Pod is gone.
func (o *Owners) GetReady(ctx context.Context, pod *corev1.Pod) error {
	if podutils.IsPodReady(pod) {
		return nil
	}
	patch := fmt.Sprintf(
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	_, err := o.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return IgnoreGone(err)
}

// statuses is a client of Pods that updates their status.
type statuses struct{ typedcorev1.PodInterface }

// Update updates the status.
func (s statuses) Update(ctx context.Context, pod *corev1.Pod, options metav1.UpdateOptions) (*corev1.Pod, error) {
	return s.UpdateStatus(ctx, pod, options)
}

// Kubelet writes a Pod's status as a kubelet would: whether the Pod is ready, and the state of its containers.
// Containers that are not named are running.
func (o *Owners) Kubelet(ctx context.Context, pod *corev1.Pod, ready bool, differ ...corev1.ContainerStatus) error {
	_, err := Edit(ctx, statuses{o.Client.CoreV1().Pods(pod.Namespace)}, pod.Name, func(now *corev1.Pod) {
		now.Status.Phase = corev1.PodRunning
		now.Status.InitContainerStatuses = containerStatuses(now.Spec.InitContainers, differ, corev1.ContainerStatus{
			Ready: true, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}},
		})
		now.Status.ContainerStatuses = containerStatuses(now.Spec.Containers, differ, corev1.ContainerStatus{
			Ready:   true,
			Started: new(true),
			State:   corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		now.Status.Conditions = slices.DeleteFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady || c.Type == corev1.ContainersReady
		})
		for _, conditionType := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
			now.Status.Conditions = append(now.Status.Conditions, corev1.PodCondition{
				Type: conditionType, Status: status, LastTransitionTime: metav1.Now(),
			})
		}
	})
	if err != nil {
		return fmt.Errorf("saying how the Pod %s is: %w", pod.Name, err)
	}
	return nil
}

// Evict writes the status that a kubelet would write for a Pod that it has evicted after a restart of each container.
// Such a Pod has failed, and another one replaces it, but it stays until the Pod garbage collector deletes it.
func (o *Owners) Evict(ctx context.Context, pod *corev1.Pod) error {
	_, err := Edit(ctx, statuses{o.Client.CoreV1().Pods(pod.Namespace)}, pod.Name, func(now *corev1.Pod) {
		now.Status.Phase, now.Status.Reason, now.Status.Message =
			corev1.PodFailed, "Evicted", "The node was low on resource: memory."
		for i := range now.Status.ContainerStatuses {
			is := &now.Status.ContainerStatuses[i]
			is.Ready, is.Started, is.RestartCount = false, new(false), is.RestartCount+1
			is.State, is.LastTerminationState = ended(is.RestartCount), ended(is.RestartCount)
		}
		for i := range now.Status.Conditions {
			if is := &now.Status.Conditions[i]; is.Type == corev1.PodReady || is.Type == corev1.ContainersReady {
				is.Status, is.LastTransitionTime = corev1.ConditionFalse, metav1.Now()
			}
		}
	})
	if err != nil {
		return fmt.Errorf("saying that the Pod %s was evicted: %w", pod.Name, err)
	}
	return nil
}

// containerStatuses returns the statuses of containers: those in differ, and the usual ones for the others.
func containerStatuses(containers []corev1.Container, differ []corev1.ContainerStatus,
	usual corev1.ContainerStatus,
) (all []corev1.ContainerStatus) {
	for _, container := range containers {
		is := usual
		if i := slices.IndexFunc(differ, func(s corev1.ContainerStatus) bool { return s.Name == container.Name }); i >= 0 {
			is = differ[i]
		}
		is.Name, is.Image = container.Name, container.Image
		all = append(all, is)
	}
	return all
}

// WaitingFor returns the status of a container that waits for a reason, after a number of restarts.
func WaitingFor(name, reason, message string, restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, RestartCount: restarts, Started: new(false), LastTerminationState: ended(restarts),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}
}

// RunningAfter returns the status of a container that runs after a number of restarts.
func RunningAfter(name string, ready bool, restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, Ready: ready, RestartCount: restarts, Started: new(true), LastTerminationState: ended(restarts),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}
}

// ended returns the terminated state of a container that was restarted.
func ended(restarts int32) corev1.ContainerState {
	if restarts == 0 {
		return corev1.ContainerState{}
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", StartedAt: metav1.Now(), FinishedAt: metav1.Now(),
	}}
}
