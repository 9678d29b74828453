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
	// logLines of a Pod are evidence, of at most logLimit bytes together: a line may have no end. eventLimit is how
	// many Events are.
	logLines   = 8
	logLimit   = 16 << 10
	eventLimit = 4
)

// Pods are those of a Deployment that are not being deleted, the newest first.
func (c *Cluster) Pods(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Pod, error) {
	all, err := c.All(ctx, deployment)
	return slices.DeleteFunc(all, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), err
}

// All are the Pods of a Deployment, also those that are being deleted: until they are gone they may still do their
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
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return pods.Items, nil
}

// Ready reports whether a Pod is.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Waiting is the reason for which the first container of a Pod that waits does so; empty: none waits.
func Waiting(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil {
			return status.State.Waiting.Reason
		}
	}
	return ""
}

// Describe says in a few words how a Pod is.
func Describe(pod *corev1.Pod) string {
	var said strings.Builder
	fmt.Fprintf(&said, "Pod %s: phase %s", pod.Name, pod.Status.Phase)
	for _, status := range pod.Status.ContainerStatuses {
		switch state := status.State; {
		case state.Waiting != nil:
			fmt.Fprintf(&said, ", %s waiting (%s)", status.Name, strings.TrimSuffix(state.Waiting.Reason+": "+state.Waiting.Message, ": "))
		case state.Terminated != nil:
			fmt.Fprintf(&said, ", %s terminated (%s, exit code %d)", status.Name, state.Terminated.Reason, state.Terminated.ExitCode)
		case !status.Ready:
			fmt.Fprintf(&said, ", %s runs and is not ready", status.Name)
		}
		if status.RestartCount > 0 {
			fmt.Fprintf(&said, ", %d restarts", status.RestartCount)
		}
	}
	return said.String()
}

// Events are those about an object, the newest first.
func (c *Cluster) Events(ctx context.Context, namespace, kind, name string) ([]corev1.Event, error) {
	events, err := c.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name,
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the Events of the %s %s: %w", kind, name, err)
	}
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return events.Items, nil
}

// Evidence is what Pods of a Deployment, their Events and their logs say. What can't be asked is left out: it is said
// of a failure, and is none.
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
