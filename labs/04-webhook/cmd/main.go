// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command manager runs the icecream operator. It only wires: the work is done in internal/controller, and
// in internal/webhook.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	demov1 "lva.io/operators/labs/04-webhook/api/v1"
	"lva.io/operators/labs/04-webhook/internal/controller"
	webhookv1 "lva.io/operators/labs/04-webhook/internal/webhook/v1"
	// +kubebuilder:scaffold:imports
)

// kubebuilder adds what belongs to another API or webhook at the scaffold marks, and expects the names scheme, setupLog
// and mgr.

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	// The scheme knows the kinds that this operator talks about; it needs no others.
	utilruntime.Must(demov1.AddToScheme(scheme))
	// +kubebuilder:scaffold:scheme
}

func main() {
	var options ctrl.Options
	var server webhook.Options
	flag.StringVar(&options.Metrics.BindAddress, "metrics-bind-address", "0", "address of the metrics; 0: none")
	flag.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", "0", "address of the probes; 0: none")
	flag.BoolVar(&options.LeaderElection, "leader-elect", false, "of several operators, let one at a time do the work")
	flag.IntVar(&server.Port, "webhook-port", webhook.DefaultPort, "port on which the API server asks the webhooks")
	flag.StringVar(&server.CertDir, "webhook-cert-dir", "",
		"folder with the webhooks' tls.crt and tls.key (default $TMPDIR/k8s-webhook-server/serving-certs)")
	logging := zap.Options{Development: true}
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))

	options.WebhookServer = webhook.NewServer(server)
	if err := run(options); err != nil {
		setupLog.Error(err, "The operator cannot go on")
		os.Exit(1)
	}
}

func run(options ctrl.Options) error {
	options.Scheme = scheme
	options.LeaderElectionID = "icecream.demo.lva.io"

	// The manager holds what all controllers share: the connection to the API server, and a cache of what it says.
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server (is KUBECONFIG set?): %w", err)
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	reconciler := &controller.IcecreamReconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Recorder:  mgr.GetEventRecorder("icecream"),
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the icecream controller: %w", err)
	}
	if err := webhookv1.SetupIcecreamWebhookWithManager(mgr); err != nil {
		return fmt.Errorf("set up the icecream webhooks: %w", err)
	}
	// +kubebuilder:scaffold:builder

	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return fmt.Errorf("set up the liveness probe: %w", err)
	}
	// Ready means that the webhooks answer: until then no request should be sent here, and with Ping one would.
	if err := mgr.AddReadyzCheck("readyz", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("set up the readiness probe: %w", err)
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
