// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// A controller for the CronTabs of the Kubernetes documentation.
package main

import (
	"context"
	"flag"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

var (
	masterURL  string
	kubeconfig string
)

func main() {
	klog.InitFlags(nil)
	flag.StringVar(&kubeconfig, "kubeconfig", "", "Path to a kubeconfig. Only required if out-of-cluster.")
	flag.StringVar(&masterURL, "master", "",
		"The address of the Kubernetes API server. Overrides any value in kubeconfig.")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	config, err := clientcmd.BuildConfigFromFlags(masterURL, kubeconfig)
	if err != nil {
		klog.Fatalf("Error building kubeconfig: %v", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		klog.Fatalf("Error building the client: %v", err)
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 30*time.Second)
	controller := NewController(client.Resource(cronTabs), factory.ForResource(cronTabs))
	factory.Start(ctx.Done())
	if err := controller.Run(ctx, 2); err != nil {
		klog.Fatalf("Error running the controller: %v", err)
	}
}
