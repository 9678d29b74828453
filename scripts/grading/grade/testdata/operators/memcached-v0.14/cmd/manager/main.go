// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"flag"
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client/config"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	"example.com/memcached-operator/pkg/apis"
	"example.com/memcached-operator/pkg/controller"
)

// Change below variables to serve metrics on different host or port.
var (
	metricsHost = "0.0.0.0"
	metricsPort = 8383
)

var log = logf.Log.WithName("cmd")

func main() {
	flag.Parse()
	logf.SetLogger(zap.New())

	// the namespace that is looked after; empty: all
	namespace, found := os.LookupEnv("WATCH_NAMESPACE")
	if !found {
		log.Error(fmt.Errorf("WATCH_NAMESPACE must be set"), "failed to get watch namespace")
		os.Exit(1)
	}
	mgr, err := manager.New(config.GetConfigOrDie(), manager.Options{
		Namespace:          namespace,
		MetricsBindAddress: fmt.Sprintf("%s:%d", metricsHost, metricsPort),
	})
	if err != nil {
		log.Error(err, "")
		os.Exit(1)
	}
	if err := apis.AddToScheme(mgr.GetScheme()); err != nil {
		log.Error(err, "")
		os.Exit(1)
	}
	if err := controller.AddToManager(mgr); err != nil {
		log.Error(err, "")
		os.Exit(1)
	}
	log.Info("Starting the Cmd.")
	if err := mgr.Start(signals.SetupSignalHandler()); err != nil {
		log.Error(err, "Manager exited non-zero")
		os.Exit(1)
	}
}
