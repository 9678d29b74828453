// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/egress"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/socket"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/local"
	"lva.io/operators/scripts/grading/stage/own"
	"lva.io/operators/scripts/grading/stage/pod"
)

const (
	// goneTimeout is how long the kubelet may take to end a Pod whose container was killed.
	goneTimeout = 20 * time.Second
	// gonePoll is the interval at which the container runtime is polled for the Pod.
	gonePoll = 50 * time.Millisecond
)

// Start returns a stage.Start for an embedded cluster with a node, which start starts. The operator is a Pod there. Its
// image is built in the store, from which the node runs images. start passes what it waits for to onWait. kubectl is a
// program that runs kubectl when its first argument is "kubectl".
func Start(
	start func(ctx context.Context, onWait func(string)) (*embedded.Cluster, error), store *images.Store, kubectl string,
) stage.Start {
	return func(ctx context.Context, onWait func(string)) (stage.Stage, error) {
		cluster, err := start(ctx, onWait)
		if err != nil {
			return nil, err
		}
		st, err := podStage(cluster, own.Describe(cluster), store, kubectl)
		if err != nil {
			return nil, errors.Join(err, cluster.Stop())
		}
		return st, nil
	}
}

// NewPool returns a pool of embedded clusters with their nodes, for runs that may share clusters. The parameters are
// those of Start.
func NewPool(
	start func(context.Context, func(string)) (*embedded.Cluster, error), store *images.Store, kubectl string,
) *own.Pool {
	return own.NewPoolOfNodes(func(ctx context.Context) (*embedded.Cluster, error) {
		return start(ctx, func(string) {})
	}, func(lent *embedded.Cluster, described *stage.Cluster) (stage.Stage, error) {
		return podStage(lent, described, store, kubectl)
	})
}

// StartForProcesses is Start for an operator that is a process of this machine, in a lab in which Pods of the objects
// that it creates must run.
func StartForProcesses(start func(ctx context.Context, onWait func(string)) (*embedded.Cluster, error)) stage.Start {
	return func(ctx context.Context, onWait func(string)) (stage.Stage, error) {
		cluster, err := start(ctx, onWait)
		if err != nil {
			return nil, err
		}
		return processStage(cluster, own.Describe(cluster)), nil
	}
}

// NewPoolForProcesses returns a pool of embedded clusters with their nodes, for runs that may share clusters and whose
// operators are processes.
func NewPoolForProcesses(start func(context.Context, func(string)) (*embedded.Cluster, error)) *own.Pool {
	return own.NewPoolOfNodes(func(ctx context.Context) (*embedded.Cluster, error) { return start(ctx, func(string) {}) },
		func(lent *embedded.Cluster, described *stage.Cluster) (stage.Stage, error) {
			return processStage(lent, described), nil
		})
}

// processStage returns the stage of processes at a cluster with a node.
func processStage(cluster *embedded.Cluster, described *stage.Cluster) stage.Stage {
	return local.New(described, local.ByNode(cluster.Egress, embedded.MachineIP))
}

// podStage returns the stage of Pods at a cluster.
func podStage(
	cluster *embedded.Cluster, described *stage.Cluster, store *images.Store, kubectl string,
) (stage.Stage, error) {
	nodes, err := open(cluster, store)
	if err != nil {
		return nil, err
	}
	stop := described.Stop
	described.Stop = func() error { return errors.Join(nodes.close(), stop()) }
	return pod.New(described, pod.Options{
		Nodes:            nodes,
		Address:          loopback,
		AdvertiseAddress: embedded.MachineIP,
		Kubectl:          kubectl,
	}), nil
}

// loopback is the address at which the operator's proxies listen. Only the node's Pods are routed there.
const loopback = "127.0.0.1"

// nodes is the node of an embedded cluster. It implements pod.Nodes.
type nodes struct {
	store   *images.Store
	routes  *egress.Router
	runtime *grpc.ClientConn
	// lent holds the functions that release the images built for this run.
	lent []func() error
}

func open(cluster *embedded.Cluster, store *images.Store) (*nodes, error) {
	routes, err := egress.Listen(cluster.Egress)
	if err != nil {
		return nil, err
	}
	// The length of a socket's path is limited, and folders may be deep: see package socket.
	runtime, err := grpc.NewClient("passthrough:///runtime", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return socket.Dial(ctx, cluster.Runtime())
		}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to the node's container runtime: %w", err), routes.Close())
	}
	return &nodes{store: store, routes: routes, runtime: runtime}, nil
}

func (n *nodes) close() error {
	err := errors.Join(n.runtime.Close(), n.routes.Close())
	for _, release := range n.lent {
		err = errors.Join(err, release())
	}
	return err
}

// Load builds an image of a program. The node finds it in the store until the run is over.
func (n *nodes) Load(ctx context.Context, reference, program string) error {
	_, release, err := n.store.BuildTemporary(ctx, reference, program)
	if err != nil {
		return fmt.Errorf("building the operator's image: %w", err)
	}
	n.lent = append(n.lent, release)
	return nil
}

// Reach lets Pods reach a program of this machine, by the port of the address that they are given.
func (n *nodes) Reach(_ context.Context, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("routing Pods to %s: %w", address, err)
	}
	n.routes.Route(address, net.JoinHostPort(loopback, port))
	return nil
}

// Kill kills a container at once. It returns no error if the container has ended before.
func (n *nodes) Kill(ctx context.Context, _, container string) error {
	_, err := runtimeapi.NewRuntimeServiceClient(n.runtime).
		StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: container})
	if err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("killing the operator's container: %w", err)
	}
	return nil
}

// AwaitGone waits until the kubelet has ended a Pod.
func (n *nodes) AwaitGone(ctx context.Context, _, uid string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneTimeout,
		fmt.Errorf("the kubelet did not end it within %s", goneTimeout))
	defer cancel()
	filter := &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": uid},
	}
	return await.Until(ctx, gonePoll, "the end of the operator's Pod", func(ctx context.Context) (string, error) {
		ready, err := runtimeapi.NewRuntimeServiceClient(n.runtime).
			ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
		if err != nil {
			return "", err
		}
		if len(ready.Items) > 0 {
			return "its sandbox is ready", nil
		}
		return "", nil
	})
}
