// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/scripts/grading/stage"
)

// installTimeout is the time limit for loading the image and applying the manifests.
const installTimeout = 3 * time.Minute

// Nodes gives a stage what it needs from a cluster's nodes and can't get from its API server.
type Nodes interface {
	// Load builds an image of a program, and loads it into the nodes that do not have it.
	Load(ctx context.Context, reference, program string) error
	// Reach makes sure that programs on the nodes reach an address of this machine, given as host:port.
	Reach(ctx context.Context, address string) error
	// Kill kills a container at once. It returns no error if the container has ended before.
	Kill(ctx context.Context, node, container string) error
	// AwaitGone waits until the kubelet has ended a Pod. A kubelet that does not know about the deletion yet restarts a
	// killed container. For a moment there would be another operator, which might acquire the Lease and keep it.
	AwaitGone(ctx context.Context, node, uid string) error
}

// Options describe where operators run as Pods.
type Options struct {
	Nodes Nodes
	// Address is the IP address of this machine at which the proxies listen. AdvertiseAddress is the one by which Pods
	// reach them. Default: Address.
	Address, AdvertiseAddress string
	// Kubectl is a program that runs kubectl when its first argument is "kubectl".
	Kubectl string
}

// New returns a stage at a cluster.
func New(cluster *stage.Cluster, options Options) stage.Stage {
	return &podStage{
		cluster: cluster, nodes: options.Nodes, kubectl: options.Kubectl,
		address: options.Address, advertiseAddress: cmp.Or(options.AdvertiseAddress, options.Address),
	}
}

type podStage struct {
	cluster                   *stage.Cluster
	nodes                     Nodes
	address, advertiseAddress string
	kubectl                   string
}

func (p *podStage) Cluster() *stage.Cluster     { return p.cluster }
func (p *podStage) Address() string             { return p.address }
func (p *podStage) AdvertiseAddress() string    { return p.advertiseAddress }
func (p *podStage) Installing() string          { return "deploy" }
func (p *podStage) StartTimeout() time.Duration { return startTimeout }
func (p *podStage) Close() error                { return p.cluster.Stop() }

// Install loads the operator's image into the nodes, and applies all objects of config/default to the cluster.
func (p *podStage) Install(ctx context.Context, what stage.Submission, gateway stage.Gateway) (stage.Installed, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout,
		fmt.Errorf("it was not deployed within %s", installTimeout))
	defer cancel()
	// Without this check, the report would blame the operator for sending no requests.
	for _, address := range gateway.Addresses {
		if err := p.nodes.Reach(ctx, address); err != nil {
			return nil, err
		}
	}
	deployment, err := Render(ctx, p.kubectl, what.Builder, what.Manifests)
	if err != nil {
		return nil, err
	}
	reference, err := referenceOf(what)
	if err != nil {
		return nil, err
	}
	options := installOptions{reference: reference, gateway: gateway, aggregated: what.Aggregated}
	if err := p.nodes.Load(ctx, options.reference, what.Program()); err != nil {
		return nil, err
	}
	target, err := p.cluster.InstallTarget(ctx, &what)
	if err != nil {
		return nil, err
	}
	i := &installed{operator: operator{Deployment: deployment, stage: p, gateway: gateway}, known: what.Launch.Known}
	if i.register, i.server, err = deployment.install(ctx, target, options); err != nil {
		return nil, err
	}
	if i.server != nil {
		if i.server.client, err = dynamic.NewForConfig(p.cluster.Config); err != nil {
			return nil, fmt.Errorf("creating a client: %w", err)
		}
	}
	if i.client, err = kubernetes.NewForConfig(p.cluster.Config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return i, nil
}

// installed is an operator that was installed.
type installed struct {
	operator
	register func(context.Context) error // its webhooks and its APIServices
	known    []string                    // flags of its program; none if it can't list them here
}

func (i *installed) User() string { return i.Deployment.User }

// Prepare registers its webhooks and its APIServices.
func (i *installed) Prepare(ctx context.Context, _ func(string)) (stage.Operator, error) {
	if err := i.register(ctx); err != nil {
		return nil, err
	}
	if len(i.known) == 0 {
		return &i.operator, nil
	}
	return adjustable{operator: &i.operator, known: i.known}, nil
}

// Arguments returns nil: the Deployment decides the arguments.
func (o *operator) Arguments() []string { return nil }

// PortInUse returns false, because a Pod does not share its ports.
func (o *operator) PortInUse(string) bool { return false }
