// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package deployed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// logLines is how many lines of a Pod's log are evidence, of at most logLimit bytes together, because a line may be
	// endless. eventLimit is how many Events are evidence.
	logLines   = 8
	logLimit   = 16 << 10
	eventLimit = 4
)

// Pods returns the Pods of a Deployment that are not being deleted, the newest first.
func (c *Cluster) Pods(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Pod, error) {
	all, err := c.All(ctx, deployment)
	return slices.DeleteFunc(all, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), err
}

// All returns the Pods of a Deployment, including those that are being deleted. Until they are gone they may still do
// work.
func (c *Cluster) All(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Pod, error) {
	selector := ""
	if deployment.Spec.Selector != nil {
		selector = labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels).String()
	}
	pods, err := c.Client.CoreV1().Pods(deployment.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("asking for the Pods of the Deployment %s: %w", deployment.Name, err)
	}
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return pods.Items, nil
}

// Waiting returns the reason why the first waiting container of a Pod waits. It is empty if none waits.
func Waiting(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil {
			return status.State.Waiting.Reason
		}
	}
	return ""
}

// Describe describes the state of a Pod in a few words.
func Describe(pod *corev1.Pod) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Pod %s: phase %s", pod.Name, pod.Status.Phase)
	for _, status := range pod.Status.ContainerStatuses {
		switch state := status.State; {
		case state.Waiting != nil:
			fmt.Fprintf(&text, ", %s waiting (%s)",
				status.Name, strings.TrimSuffix(state.Waiting.Reason+": "+state.Waiting.Message, ": "))
		case state.Terminated != nil:
			fmt.Fprintf(&text, ", %s terminated (%s, exit code %d)",
				status.Name, state.Terminated.Reason, state.Terminated.ExitCode)
		case !status.Ready:
			fmt.Fprintf(&text, ", %s runs and is not ready", status.Name)
		}
		if status.RestartCount > 0 {
			fmt.Fprintf(&text, ", %d restarts", status.RestartCount)
		}
	}
	return text.String()
}

// Events returns the Events about an object, the newest first.
func (c *Cluster) Events(ctx context.Context, namespace, kind, name string) ([]corev1.Event, error) {
	events, err := c.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name,
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the Events of the %s %s: %w", kind, name, err)
	}
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return events.Items, nil
}

// Evidence collects the state of a Deployment's Pods, their Events and their logs. It skips whatever it can't read:
// evidence explains a failure, and must not cause another one.
func (c *Cluster) Evidence(ctx context.Context, deployment *appsv1.Deployment) (lines []string) {
	pods, err := c.Pods(ctx, deployment)
	if err != nil || len(pods) == 0 {
		return []string{fmt.Sprintf("the Deployment %s has no Pod", deployment.Name)}
	}
	pod := &pods[0]
	lines = append(lines, Describe(pod))
	events, _ := c.Events(ctx, pod.Namespace, "Pod", pod.Name)
	for i, event := range events {
		if i == eventLimit {
			break
		}
		lines = append(lines, fmt.Sprintf("Event %s: %s", event.Reason, event.Message))
	}
	for _, previous := range []bool{true, false} {
		log, err := c.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Previous: previous, TailLines: new(int64(logLines)), LimitBytes: new(int64(logLimit)),
		}).DoRaw(ctx)
		if text := strings.TrimSpace(string(log)); err == nil && text != "" {
			return append(lines, strings.Split(text, "\n")...)
		}
	}
	return lines
}
