// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/await"
)

// NodeState is the state of a Node in Kubernetes.
type NodeState struct {
	Name    string
	Version string
	Ready   bool
	// Why is the reason why it is not ready, in the kubelet's words.
	Why string
}

// NodeStates returns the states of all Nodes of a cluster.
func NodeStates(ctx context.Context, config *rest.Config) ([]NodeState, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	var states []NodeState
	for _, node := range list.Items {
		states = append(states, nodeState(&node))
	}
	return states, nil
}

func nodeState(node *corev1.Node) NodeState {
	state := NodeState{
		Name: node.Name, Version: node.Status.NodeInfo.KubeletVersion,
		Why: "its kubelet has not reported its status yet",
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			state.Ready, state.Why = condition.Status == corev1.ConditionTrue, condition.Message
		}
	}
	for _, taint := range node.Spec.Taints {
		// These are temporary taints: an uninitialised network, a node that is not ready.
		if state.Ready &&
			taint.Effect != corev1.TaintEffectPreferNoSchedule &&
			taint.Key != "node-role.kubernetes.io/control-plane" {
			state.Ready, state.Why = false, "it has the taint "+taint.Key
		}
	}
	return state
}

// WaitNodes waits until the expected number of Nodes are ready and accept Pods. The error names the ones that are not,
// and the reason.
func WaitNodes(ctx context.Context, config *rest.Config, count int, report func(string)) error {
	return await.Until(ctx, pollInterval, "the nodes to be ready", func(ctx context.Context) (string, error) {
		states, err := NodeStates(ctx, config)
		if err != nil {
			return "", err
		}
		objection := unready(states, count)
		if objection != "" {
			report(objection)
		}
		return objection, nil
	})
}

func unready(states []NodeState, count int) string {
	if len(states) < count {
		return fmt.Sprintf("%d of %d nodes exist", len(states), count)
	}
	var why []string
	for _, state := range states {
		if !state.Ready {
			why = append(why, state.Name+": "+strings.TrimSpace(state.Why))
		}
	}
	return strings.Join(why, "; ")
}
