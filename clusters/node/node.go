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

// Options configure a node.
type Options struct {
	// Name is the node's.
	Name string
	// Scope owns the node's processes. Dir is the folder below which the node has its own, with logs, keys, and the data
	// of Pods.
	Scope *process.Scope
	Dir   string
	// Keep preserves the data of Pods after the node ends. Otherwise the data is kept in memory.
	Keep bool
	// Programs are the node's own programs, ControlPlane is the file of the program that is also the kubelet, and Env is
	// their environment.
	Programs     Programs
	ControlPlane string
	Env          []string
	// Images is the folder of the image store.
	Images string
	// API is the API server's address on the machine, host:port. In the node it is at the same port of 127.0.0.1.
	API string
	// Egress is the socket through which the API server connects to Pods, Services and the kubelet. A process that listens
	// at Local, as package egress does, takes precedence.
	Egress, Local string
	// Runtime is the socket through which the machine can reach the node's container runtime, as crictl does. If it is
	// empty, there is none.
	Runtime string
	// Files are credentials and configuration of the node's programs: AgentKubeconfig, and the files that package kubelet
	// names.
	Files map[string][]byte
	// SingleID limits the node to one ID, even if there are more. It is for tests.
	SingleID bool
}

// AgentKubeconfig is the file with which the agent accesses the API server.
const AgentKubeconfig = "agent.kubeconfig"

// Node is a node that was started.
type Node struct {
	options Options
	dir     string
	process *process.Process
	limits  Limits
}

// PID returns the number of the node's process on the machine.
func (n *Node) PID() int { return n.process.PID() }

// Process returns the node's process on the machine, with which the node ends.
func (n *Node) Process() *process.Process { return n.process }

// Limits report which limits of containers have an effect, because there are control groups for them.
type Limits struct{ Memory, CPU bool }

// Limits reports which limits of containers have an effect on the node.
func (n *Node) Limits() Limits { return n.limits }

// Close ends the node and all its Pods.
func (n *Node) Close() { n.process.Kill() }

// readyInterval is short, because a node takes less than a second.
const readyInterval = 15 * time.Millisecond

// Ready waits until the Node is Ready in the API server.
func (n *Node) Ready(ctx context.Context, client kubernetes.Interface) error {
	reason := "it has not registered yet"
	err := wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) {
		select {
		case <-n.process.Done():
			return false, fmt.Errorf("its process has exited%s", n.LogTail())
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
		err = fmt.Errorf("%w: %s%s", context.Cause(ctx), reason, n.LogTail())
	}
	if err != nil {
		return fmt.Errorf("waiting for the node to be ready: %w", err)
	}
	return nil
}
