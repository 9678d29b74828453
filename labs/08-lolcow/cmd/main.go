// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command manager runs the Lolcow operator. It only wires: the work is done in internal/controller.
package main

import (
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	lolcowv1alpha1 "lva.io/operators/labs/08-lolcow/api/v1alpha1"
	"lva.io/operators/labs/08-lolcow/internal/controller"
	// +kubebuilder:scaffold:imports
)

// kubebuilder adds what belongs to another API or webhook at the scaffold marks, and expects the names scheme, setupLog
// and mgr.

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	// The scheme knows the kinds that this operator talks about; it needs no others. "no kind is registered for the type"
	// means that one is missing here.
	utilruntime.Must(lolcowv1alpha1.AddToScheme(scheme))
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(corev1.AddToScheme(scheme))
	// +kubebuilder:scaffold:scheme
}

func main() {
	var options ctrl.Options
	var namespace, image string
	flag.StringVar(&image, "image", controller.DefaultImage, "image of the web server with the cow")
	flag.StringVar(&namespace, "namespace", os.Getenv("WATCH_NAMESPACE"),
		"the only namespace to look at (default $WATCH_NAMESPACE, and without it all)")
	flag.StringVar(&options.Metrics.BindAddress, "metrics-bind-address", "0", "address of the metrics; 0: none")
	flag.BoolVar(&options.Metrics.SecureServing, "metrics-secure", true,
		"serve the metrics by HTTPS, to those who may `get` the path /metrics; false: by HTTP, to everyone")
	flag.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", "0", "address of the probes; 0: none")
	flag.BoolVar(&options.LeaderElection, "leader-elect", false, "of several operators, let one at a time do the work")
	flag.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", "",
		"namespace of the Lease (default the Pod's own)")
	logging := zap.Options{Development: true}
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))

	if err := run(options, namespace, image); err != nil {
		setupLog.Error(err, "The operator cannot go on")
		os.Exit(1)
	}
}

func run(options ctrl.Options, namespace, image string) error {
	options.Scheme = scheme
	options.LeaderElectionID = "lolcow.my.domain"
	// main ends when the manager does, so the next Pod need not wait until the Lease has run out.
	options.LeaderElectionReleaseOnCancel = true
	options.Cache = cacheOptions(namespace)
	if options.Metrics.SecureServing {
		// Metrics reveal what runs here. So a client has to send a token, and the API server authenticates and authorizes it.
		options.Metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}

	// The manager holds what all controllers share: the connection to the API server, and a cache of what it says.
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server (is KUBECONFIG set?): %w", err)
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	reconciler := &controller.LolcowReconciler{
		Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder(controller.FieldOwner),
		BackOff: controller.NewBackOff(), Image: image,
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the lolcow controller: %w", err)
	}
	// +kubebuilder:scaffold:builder
	// TODO(lab): 8. register the controller's Collector.

	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return fmt.Errorf("set up the liveness probe: %w", err)
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return fmt.Errorf("set up the readiness probe: %w", err)
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// cacheOptions limits the objects in the cache, and so the permissions to list and watch that the operator needs.
func cacheOptions(namespace string) (options cache.Options) {
	// TODO(lab): 5. not all Pods of the cluster; 9. and of one namespace only, if one is given.
	return options
}
