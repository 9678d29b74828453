// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/process"
)

// Options are what a node is made of.
type Options struct {
	// Name is the node's.
	Name string
	// Scope is where its processes belong, and Dir the folder below which it has its own: logs, keys, and what Pods keep.
	Scope *process.Scope
	Dir   string
	// Keep lets what Pods have written survive the node. Otherwise it is kept in memory.
	Keep bool
	// Programs are the node's own programs, ControlPlane the file of the one that is also the kubelet, and Env their
	// environment.
	Programs     Programs
	ControlPlane string
	Env          []string
	// Images is the folder of the image store.
	Images string
	// API is where the API server listens on the machine, host:port. In the node it is at the same port of 127.0.0.1.
	API string
	// Egress is the socket by which the API server goes to Pods, Services and the kubelet. Who listens at Local, as
	// package egress does, is asked first.
	Egress, Local string
	// Runtime is the socket by which the machine reaches the node's container runtime, as crictl does. Empty: there is
	// none.
	Runtime string
	// Files are what the node's programs know themselves and others by: AgentKubeconfig, and those that package kubelet
	// names.
	Files map[string][]byte
	// SingleID takes one id, even if there are more. It is for tests.
	SingleID bool
}

// AgentKubeconfig is the file by which the agent reaches the API server.
const AgentKubeconfig = "agent.kubeconfig"

// Node is a node that was started.
type Node struct {
	options Options
	dir     string
	process *process.Process
	limits  Limits
}

// PID is the number of the node's process on the machine.
func (n *Node) PID() int { return n.process.PID() }

// Process is the node's process on the machine, with which it ends.
func (n *Node) Process() *process.Process { return n.process }

// Limits say which limits of containers hold: those for which there are control groups to set them in.
type Limits struct{ Memory, CPU bool }

// Limits say which limits of containers hold on the node.
func (n *Node) Limits() Limits { return n.limits }

// Close ends the node with all that runs on it.
func (n *Node) Close() { n.process.Kill() }

// readyInterval is short, since a node takes less than a second.
const readyInterval = 15 * time.Millisecond

// Ready waits until the API server knows the node as Ready.
func (n *Node) Ready(ctx context.Context, client kubernetes.Interface) error {
	reason := "it has not registered yet"
	err := wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) {
		select {
		case <-n.process.Done():
			return false, fmt.Errorf("it has ended%s", n.LastWords())
		default:
		}
		found, err := client.CoreV1().Nodes().Get(ctx, n.options.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				reason = condition.Message
				return condition.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %s%s", context.Cause(ctx), reason, n.LastWords())
	}
	if err != nil {
		return fmt.Errorf("waiting for the node to be ready: %w", err)
	}
	return nil
}
