// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command manager keeps the authorized_keys file of its node as the AuthorizedKeys of the cluster say. It only wires:
// the work is done in internal/controller.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"lva.io/operators/labs/10-informer/internal/controller"
	"lva.io/operators/labs/10-informer/internal/generated/clientset/versioned"
	"lva.io/operators/labs/10-informer/internal/generated/clientset/versioned/scheme"
	"lva.io/operators/labs/10-informer/internal/generated/informers/externalversions"
)

// options are the flags.
type options struct {
	kubeconfig string
	file       string
	resync     time.Duration
	status     bool
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"),
		"file that leads to the cluster; empty: the account of the Pod")
	flag.StringVar(&o.file, "authorized-keys", "authorized_keys",
		"file that is kept right; its folder must be there; empty: none")
	flag.DurationVar(&o.resync, "resync", time.Minute,
		"how often the file is looked at although no object has changed; 0: never")
	flag.BoolVar(&o.status, "write-status", true,
		"write the status of AuthorizedKeys; one program of a cluster is enough for that")
	klog.InitFlags(nil)
	flag.Parse()
	// Kubernetes asks a program to end with SIGTERM, and Ctrl-C does with SIGINT.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, o); err != nil {
		klog.ErrorS(err, "The controller cannot go on")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("find the API server (is KUBECONFIG set?): %w", err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	recorder, end, err := record(ctx, config)
	if err != nil {
		return err
	}
	defer end()

	options := controller.Options{Resync: o.resync, WriteStatus: o.status}
	if o.file != "" {
		if options.File.Path, err = filepath.Abs(o.file); err != nil { // so that the log says which file it is
			return fmt.Errorf("find the file of the authorized keys: %w", err)
		}
		if err := options.File.RemoveLeftovers(); err != nil {
			return err
		}
	}
	// The factory has one informer for each kind, however often it is requested. 0: it has no resync. The controller
	// checks the file by itself.
	factory := externalversions.NewSharedInformerFactory(client, 0)
	c, err := controller.New(client, factory.Node().V1alpha1().AuthorizedKeys(), recorder, options)
	if err != nil {
		return err
	}
	// This starts the informers that have been requested so far: New has requested the controller's.
	ctx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	// Shutdown waits for the informers, and those for the end of the context: whatever ends Run, also a panic, ends them
	// first.
	defer factory.Shutdown()
	defer cancel()
	c.Run(ctx)
	return nil
}

// record is the way to record Events of AuthorizedKeys.
func record(ctx context.Context, config *rest.Config) (events.EventRecorder, func(), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client for Events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, nil, fmt.Errorf("begin to record Events: %w", err)
	}
	return broadcaster.NewRecorder(scheme.Scheme, "authorizedkey-controller"), broadcaster.Shutdown, nil
}
