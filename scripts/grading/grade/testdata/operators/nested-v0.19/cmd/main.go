// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	demov1 "example.com/parlour/api/v1"
	"example.com/parlour/internal/controller"
)

func main() {
	metricsAddr := flag.String("metrics-bind-address", "0", "Address of the metrics; 0 switches them off.")
	flag.Parse()
	ctrl.SetLogger(zap.New())

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(demov1.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: *metricsAddr},
	})
	end(err, "cannot make the manager")
	end((&controller.IcecreamReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr), "cannot add the controller")
	end(mgr.Start(ctrl.SetupSignalHandler()), "the manager ended")
}

func end(err error, what string) {
	if err != nil {
		ctrl.Log.Error(err, what)
		os.Exit(1)
	}
}
