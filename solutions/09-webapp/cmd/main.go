// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command manager runs the operator. It only wires: the work is done in internal/controller.
package main

import (
	"flag"
	"fmt"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
	"lva.io/operators/solutions/09-webapp/internal/controller"
	"lva.io/operators/solutions/09-webapp/internal/migration"
	webhookv1beta1 "lva.io/operators/solutions/09-webapp/internal/webhook/v1beta1"
	// +kubebuilder:scaffold:imports
)

//lab:begin main

// kubebuilder adds what belongs to another API or webhook at the scaffold marks, and expects the names scheme, setupLog
// and mgr.

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	// The scheme knows which Go type belongs to which kind: Kubernetes' own kinds, and those of this project.
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(appsv1alpha1.AddToScheme(scheme))
	utilruntime.Must(appsv1beta1.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	// +kubebuilder:scaffold:scheme
}

func main() {
	var options ctrl.Options
	var server webhook.Options
	flag.StringVar(&options.Metrics.BindAddress, "metrics-bind-address", "0", "address of the metrics; 0: none")
	flag.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", "0", "address of the probes; 0: none")
	flag.BoolVar(&options.LeaderElection, "leader-elect", false, "of several operators, let one at a time do the work")
	flag.IntVar(&server.Port, "webhook-port", webhook.DefaultPort, "port on which the API server asks the webhooks")
	flag.StringVar(&server.CertDir, "webhook-cert-path", "",
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
	options.LeaderElectionID = "webapp.apps.lva.io"
	// main ends when the manager does, so the next Pod need not wait until the Lease has run out.
	options.LeaderElectionReleaseOnCancel = true

	// The manager holds what all controllers share: the connection to the API server, and a cache of what it says.
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server (is KUBECONFIG set?): %w", err)
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	if err := (&controller.WebAppReconciler{
		Client: mgr.GetClient(),
		Scheme: mgr.GetScheme(),
	}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the webapp controller: %w", err)
	}
	// The manager starts its webhooks before its caches, since listed objects have to be converted.
	if err := webhookv1beta1.SetupWebAppWebhookWithManager(mgr); err != nil {
		return fmt.Errorf("set up the webapp webhook: %w", err)
	}
	if err := mgr.Add(&migration.Migrator{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}); err != nil {
		return fmt.Errorf("set up the migration: %w", err)
	}
	// +kubebuilder:scaffold:builder

	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return fmt.Errorf("set up the liveness probe: %w", err)
	}
	// Ready means that the webhook answers: until then no object should be sent here, and with Ping one would.
	if err := mgr.AddReadyzCheck("readyz", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("set up the readiness probe: %w", err)
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

//lab:else
// // TODO(lab): there is nothing here yet: `lab new` writes a project to begin with.
// func main() { println("there is no operator in this folder yet: its README.md says how to begin") }
//lab:end
