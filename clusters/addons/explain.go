// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// explainPatience is how long an explanation may take. It is needed when the cluster may not work.
	explainPatience = 10 * time.Second
	explainEvents   = 8
	explainLogLines = 8
	explainPods     = 5
)

// Explain describes why something in a namespace is not ready: the Pods that are not, the latest warnings, and the last
// lines that their containers logged. It is meant for the end of an error, and empty when all is well.
func Explain(ctx context.Context, target Target, namespace string) string {
	// The deadline of the failed operation has passed, but the user still needs the reason.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainPatience)
	defer cancel()
	client, err := kubernetes.NewForConfig(target.Config)
	if err != nil {
		return fmt.Sprintf("(nothing could be read: %v)", err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Sprintf("(the Pods of %s could not be read: %v)", namespace, err)
	}
	var out strings.Builder
	explained := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded || podReady(pod) {
			continue
		}
		if explained++; explained > explainPods {
			continue
		}
		explainPod(ctx, client, pod, &out)
	}
	if explained > explainPods {
		fmt.Fprintf(&out, "and %d more Pods in %s are not ready\n", explained-explainPods, namespace)
	}
	explainWarnings(ctx, client, namespace, &out)
	return strings.TrimRight(out.String(), "\n")
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// explainPod reports which container of a Pod does not run, why, and what it logged last.
func explainPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, out *strings.Builder) {
	where := pod.Spec.NodeName
	if where == "" {
		where = "no node"
	}
	fmt.Fprintf(out, "Pod %s/%s on %s: %s\n", pod.Namespace, pod.Name, where, pod.Status.Phase)
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			fmt.Fprintf(out, "  not scheduled: %s\n", condition.Message)
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		problem, previous := containerProblem(&status)
		if problem == "" {
			continue
		}
		fmt.Fprintf(out, "  container %s (%s): %s\n", status.Name, status.Image, problem)
		for line := range strings.Lines(lastLog(ctx, client, pod, status.Name, previous)) {
			fmt.Fprintf(out, "    | %s\n", strings.TrimRight(line, "\n"))
		}
	}
}

// containerProblem reports why a container is not ready, and whether its previous run has the log that shows it.
func containerProblem(status *corev1.ContainerStatus) (problem string, previous bool) {
	last := ""
	if terminated := status.LastTerminationState.Terminated; terminated != nil {
		last = fmt.Sprintf("; it ended %d times, last with exit code %d (%s)",
			status.RestartCount, terminated.ExitCode, terminated.Reason)
	}
	switch state := status.State; {
	case state.Waiting != nil:
		problem = state.Waiting.Reason
		if state.Waiting.Message != "" {
			problem += ": " + state.Waiting.Message
		}
		return problem + last, last != ""
	case state.Terminated != nil && state.Terminated.ExitCode != 0:
		return fmt.Sprintf("ended with exit code %d (%s)", state.Terminated.ExitCode, state.Terminated.Reason) + last, false
	case state.Running != nil && !status.Ready && (status.Started == nil || !*status.Started || last != ""):
		return "runs and is not ready" + last, false
	case state.Running != nil && !status.Ready:
		return "runs and is not ready", false
	}
	return "", false
}

func lastLog(
	ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container string, previous bool,
) string {
	stream, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: new(int64(explainLogLines)),
	}).Stream(ctx)
	if err != nil {
		return "" // a container that never ran has none
	}
	defer stream.Close()
	var log bytes.Buffer
	_, _ = io.Copy(&log, io.LimitReader(stream, 16<<10))
	return log.String()
}

// explainWarnings lists the latest warnings, each once.
func explainWarnings(ctx context.Context, client kubernetes.Interface, namespace string, out *strings.Builder) {
	events, err := client.CoreV1().Events(namespace).List(ctx,
		metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err != nil {
		return
	}
	when := func(e corev1.Event) time.Time {
		latest := e.CreationTimestamp.Time
		for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
			if t.After(latest) {
				latest = t
			}
		}
		return latest
	}
	slices.SortFunc(events.Items, func(a, b corev1.Event) int {
		return cmp.Or(when(b).Compare(when(a)), cmp.Compare(a.Name, b.Name))
	})
	printed := map[string]bool{}
	for _, event := range events.Items {
		line := fmt.Sprintf("%s %s: %s: %s",
			event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, strings.TrimSpace(event.Message))
		if printed[line] || len(printed) == explainEvents {
			continue
		}
		printed[line] = true
		fmt.Fprintf(out, "Event %s\n", line)
	}
}
