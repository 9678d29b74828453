// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/node"
)

func TestPlaygroundKeepsItsNodeBetweenCommands(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	parts := nodeParts(t)
	playground := newPlayground(t)
	for _, first := range []bool{true, false} {
		started, err := playground.UpWithNode(t.Context(), controlPlane(t), parts)
		if err != nil || started != first {
			t.Fatalf("UpWithNode() = %t, %v; want %t", started, err, first)
		}
	}
	status, err := playground.Status(t.Context())
	if err != nil || status.NoNode != "" || !status.HasNode() {
		t.Fatalf("Status() = %+v, %v, want a node", status, err)
	}
	client := clientAt(t, playground)
	runWeb(t, client, "web")
	state := stateOf(t, playground)
	processes := inside(t, state.PIDs["node"])

	// When its node has died, the playground is restarted and keeps its data.
	if err := syscall.Kill(state.PIDs["node"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantEnded(t, processes)
	if started, err := playground.UpWithNode(t.Context(), controlPlane(t), parts); err != nil || !started {
		t.Fatalf("UpWithNode() = %t, %v; want true", started, err)
	}
	if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Errorf("getting the earlier Pod: %v", err)
	}
	state = stateOf(t, playground)
	processes = inside(t, state.PIDs["node"])
	if was, err := playground.Down(); !was || err != nil {
		t.Errorf("Down() = %t, %v; want true", was, err)
	}
	wantEnded(t, processes)
	if exists(playground.Dir) {
		t.Error("the playground's folder still exists after Down")
	}
}

// On a machine that allows no namespaces, a playground has no node. Its status and each Pod report the reason. Once the
// machine allows them, the next start gives it a node.
func TestPlaygroundReportsWhyItHasNoNode(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	parts := nodeParts(t)
	refused := NodeParts{Unavailable: &node.Unavailable{
		Reason: "user namespaces are turned off on this machine", Remedy: "let root turn them on",
	}}
	playground := newPlayground(t)
	up := func(again bool, start func() (bool, error)) {
		t.Helper()
		if started, err := start(); err != nil || started != again {
			t.Fatalf("the start returned %t, %v; want started = %t", started, err, again)
		}
	}
	withNode := func(parts NodeParts) func() (bool, error) {
		return func() (bool, error) { return playground.UpWithNode(t.Context(), controlPlane(t), parts) }
	}
	up(true, withNode(refused))
	up(false, withNode(refused))
	status, err := playground.Status(t.Context())
	if err != nil || status.Ready != nil || status.HasNode() || !strings.Contains(status.NoNode, "let root turn them on") {
		t.Errorf("Status() = %+v, %v, want no node and the remedy", status, err)
	}
	client := clientAt(t, playground)
	wantPending(t, client, "refused", "user namespaces are turned off on this machine: let root turn them on")

	up(true, withNode(parts))
	runWeb(t, client, "web")
	up(false, withNode(refused)) // the running node is kept

	up(true, func() (bool, error) { return playground.Up(t.Context(), controlPlane(t)) })
	wantPending(t, client, "unasked", "the playground was started without one: run `make up` to restart it with a node")
}

// wantPending creates a Pod, and waits until the scheduler has written these words to an Event of the Pod and to its
// conditions.
func wantPending(t *testing.T, client kubernetes.Interface, name, words string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: probeImage}}},
	}
	if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(
		t.Context(), pod, metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Events of "+name+" say: "+words, func() (bool, error) {
		events, err := client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
			return event.Reason == "FailedScheduling" && strings.HasSuffix(event.Message, words)
		}), nil
	})
	eventually(t, "the conditions of "+name+" say: "+words, func() (bool, error) {
		pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return pod.Status.Phase == corev1.PodPending &&
			slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
				return condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
					strings.HasSuffix(condition.Message, words)
			}), nil
	})
}
