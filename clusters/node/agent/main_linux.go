// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command agent is what makes a node of a few namespaces: it is the kubelet's container runtime, gives Pods addresses, leads
// Services to them, and carries what they have to say to the world. It can be ended and started again at any time while
// containers go on: those are kept by the node's first process (clusters/node/init), which starts the agent, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

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

// outwards is where the first process has put the crossing to the machine.
const outwards = 3

func main() {
	node := flag.String("node", "", "the node's name")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server; without it there are no Services")
	cgroups := flag.String("cgroups", "", "the control group whose children are ours")
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
	machine, err := namespace.NewCrossing(os.NewFile(outwards, "crossing"))
	if err != nil {
		return err
	}
	pods, err := podnet.Open()
	if err != nil {
		return err
	}
	defer pods.Close()
	go func() {
		// Without it, Pods still reach each other.
		if err := outside.Run(ctx, machine); err != nil && ctx.Err() == nil {
			log.Printf("Pods do not reach the world: %v", err)
		}
	}()
	network := &network{pods: pods}
	if kubeconfig != "" {
		if network.services, err = startServices(ctx, node, kubeconfig, machine); err != nil {
			return err
		}
	}
	files, err := rootfs.New(plan.Images, plan.Layers, plan.Containers)
	if err != nil {
		return err
	}
	if files.Copies() {
		log.Print("this kernel lets no user mount overlayfs: each container has a copy of its image")
	}
	runtime, err := cri.New(ctx, cri.Options{
		Dir: plan.State, NodeIP: plan.NodeIP, Init: plan.InitPath, Keeper: &keeper.Client{Socket: plan.KeeperSocket}, Files: files,
		Network: network, Cgroups: cgroups,
		Build: func(ctx context.Context, reference string) error {
			said, err := machine.Open(ctx, builds.Question, reference)
			if err != nil {
				return err
			}
			defer said.Close()
			stop := context.AfterFunc(ctx, func() { said.Close() })
			defer stop()
			return builds.Read(said)
		},
	})
	if err != nil {
		return err
	}
	return runtime.Serve(ctx, plan.CRISocket)
}

// startServices keeps the rules of Services in the background.
func startServices(ctx context.Context, node, kubeconfig string, machine *namespace.Crossing) (*services.Proxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading how to reach the API server: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "operator-labs-agent", Host: node})
	ports := nodeports.New(machine, func(port services.Port, err error) {
		log.Print(err)
		if port.Service.Name == "" { // it is a Pod's
			return
		}
		service := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: port.Service.Namespace, Name: port.Service.Name, UID: port.Service.UID}
		recorder.Event(service, corev1.EventTypeWarning, "PortUnavailable", err.Error())
	})
	proxy, err := services.New(services.Options{
		Client: client, Node: node, Publish: ports.Publish, Report: func(err error) { log.Print(err) },
	})
	if err != nil {
		return nil, err
	}
	go func() {
		defer ports.Close()
		if err := proxy.Run(ctx); err != nil && ctx.Err() == nil {
			log.Fatalf("Services: %v", err) // and is started again
		}
	}()
	return proxy, nil
}
