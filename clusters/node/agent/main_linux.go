// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command agent runs the network and the containers of a node: it is the kubelet's container runtime, assigns addresses
// to Pods, routes the traffic of Services to Pods, and connects Pods to the outside world. It can be stopped and
// restarted at any time while containers continue to run. The node's first process (clusters/node/init) keeps the
// containers, and starts the agent, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/node/builds"
	"lva.io/operators/clusters/node/cri"
	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/node/nodeports"
	"lva.io/operators/clusters/node/outside"
	"lva.io/operators/clusters/node/plan"
	"lva.io/operators/clusters/node/podnet"
	"lva.io/operators/clusters/node/rootfs"
	"lva.io/operators/clusters/node/services"
)

// crossingDescriptor is the descriptor of the crossing to the machine, which the first process has opened.
const crossingDescriptor = 3

func main() {
	node := flag.String("node", "", "the node's name")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig for the API server; without it, Services are not served")
	cgroups := flag.String("cgroups", "", "control group below which the agent creates those of containers")
	flag.Parse()
	log.SetFlags(log.LstdFlags | log.LUTC | log.Lmsgprefix)
	log.SetPrefix("agent: ")
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	if err := run(ctx, *node, *kubeconfig, *cgroups); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func run(ctx context.Context, node, kubeconfig, cgroups string) error {
	machine, err := namespace.NewCrossing(os.NewFile(crossingDescriptor, "crossing"))
	if err != nil {
		return err
	}
	pods, err := podnet.Open()
	if err != nil {
		return err
	}
	defer pods.Close()
	go func() {
		// If this fails, Pods can still reach each other.
		if err := outside.Run(ctx, machine); err != nil && ctx.Err() == nil {
			log.Printf("Pods cannot connect to the outside: %v", err)
		}
	}()
	network := &network{pods: pods}
	recorder := record.EventRecorder(&record.FakeRecorder{}) // discards all Events
	keepServices := func() {}
	if kubeconfig != "" {
		client, err := newClient(kubeconfig)
		if err != nil {
			return err
		}
		recorder = newRecorder(client, node)
		if network.services, keepServices, err = newServices(ctx, client, node, machine, recorder); err != nil {
			return err
		}
	}
	files, err := rootfs.New(plan.Images, plan.Layers, plan.Containers)
	if err != nil {
		return err
	}
	if files.Copies() {
		log.Print("this kernel does not let users mount overlayfs: each container gets a copy of its image")
	}
	runtime, err := cri.New(ctx, cri.Options{
		Dir:     plan.State,
		NodeIP:  plan.NodeIP,
		Init:    plan.InitPath,
		Keeper:  &keeper.Client{Socket: plan.KeeperSocket},
		Files:   files,
		Network: network,
		Cgroups: cgroups,
		Reserve: plan.Reserve,
		Build: func(ctx context.Context, pod *runtimeapi.PodSandboxMetadata, reference string) error {
			stream, err := machine.Open(ctx, builds.Question, reference)
			if err != nil {
				return err
			}
			defer stream.Close()
			stop := context.AfterFunc(ctx, func() { stream.Close() })
			defer stop()
			return builds.Read(stream, func(progress string) { reportBuild(recorder, pod, reference, progress) })
		},
	})
	if err != nil {
		return err
	}
	// The Services start only now, because cri.New has published the ports of the Pods that are already running.
	go keepServices()
	return runtime.Serve(ctx, plan.CRISocket)
}

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the agent's kubeconfig: %w", err)
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// newServices returns the proxy that routes Services to Pods. keep updates the rules until the context ends.
func newServices(
	ctx context.Context, client kubernetes.Interface, node string, machine *namespace.Crossing,
	recorder record.EventRecorder,
) (proxy *services.Proxy, keep func(), err error) {
	ports := nodeports.New(machine, func(port services.Port, err error) { reportPort(recorder, port, err) })
	proxy, err = services.New(services.Options{
		Client: client, Node: node, Publish: ports.Publish, Report: func(err error) { log.Print(err) },
	})
	if err != nil {
		return nil, nil, err
	}
	keep = func() {
		defer ports.Close()
		if err := proxy.Run(ctx); err != nil && ctx.Err() == nil {
			log.Fatalf("Services: %v", err) // the first process restarts the agent
		}
	}
	return proxy, keep, nil
}
