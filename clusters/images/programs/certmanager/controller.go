// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	// Controllers and issuers register themselves when they are imported.
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/metrics"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	"github.com/cert-manager/cert-manager/pkg/healthz"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
)

// healthTimeout is how much longer than its lease a leader may be silent before it counts as stuck.
const healthTimeout = 20 * time.Second

// runController runs the controllers for issuers self-signed, CA and ACME. Those for Vault and Venafi are not built in.
func runController(ctx context.Context, args []string) error {
	f := newFlags("controller")
	var elect election
	elect.addFlags(f)
	var options controller.ContextOptions
	f.StringVar(&options.Kubeconfig, "kubeconfig", "", "file of a kubeconfig; default: that of its Pod")
	f.StringVar(&options.Namespace, "namespace", "", "the only namespace to work in; default: all")
	f.StringVar(&options.ClusterResourceNamespace, "cluster-resource-namespace", "kube-system",
		"where a ClusterIssuer's Secrets are")
	f.StringVar(&options.HTTP01SolverImage, "acme-http01-solver-image", "",
		"image of the Pod that answers an HTTP-01 challenge")
	f.StringSliceVar(&options.HTTP01SolverNameservers, "acme-http01-solver-nameservers", nil,
		"name servers (host:port) for the self check")
	f.StringToStringVar(&options.HTTP01SolverExtraLabels, "acme-http01-solver-extra-labels", nil,
		"labels of that Pod (name=value,…)")
	f.DurationVar(&options.DNS01CheckRetryPeriod, "dns01-check-retry-period", 10*time.Second,
		"pause after a self check that failed, of HTTP-01, too")
	f.StringVar(&options.DefaultIssuerName, "default-issuer-name", "", "issuer for Ingresses that name none")
	f.StringVar(&options.DefaultIssuerKind, "default-issuer-kind", "Issuer", "kind of that issuer")
	f.StringVar(&options.DefaultIssuerGroup, "default-issuer-group", "cert-manager.io", "API group of that issuer")
	f.BoolVar(&options.EnableOwnerRef, "enable-certificate-owner-ref", false, "a Secret is deleted with its Certificate")
	f.IntVar(&options.MaxConcurrentChallenges, "max-concurrent-challenges", 60, "how many challenges may be under way")
	f.DurationVar(&options.CertificateRequestMinimumBackoffDuration, "certificate-request-minimum-backoff-duration",
		time.Hour, "pause after the first request that failed")
	f.DurationVar(&options.CertificateRequestMaximumBackoffDuration, "certificate-request-maximum-backoff-duration",
		32*time.Hour, "longest pause after requests that failed")
	f.Float32Var(&options.KubernetesAPIQPS, "kube-api-qps", 20,
		"requests a second, where the API server does not meter them")
	f.IntVar(&options.KubernetesAPIBurst, "kube-api-burst", 50,
		"requests at once, where the API server does not meter them")
	workers := f.Int("concurrent-workers", 5, "workers of each controller")
	without := f.StringSlice("controllers", nil, "controllers to leave out: -name,…")
	metricsAddress := f.String("metrics-listen-address", "0.0.0.0:9402", "where metrics are served; 0: nowhere")
	healthAddress := f.String("internal-healthz-listen-address", "0.0.0.0:9403", "where /livez is served")
	if err := f.parse(args); err != nil {
		return err
	}
	options.HTTP01SolverResourceRequestCPU = resource.MustParse("10m")
	options.HTTP01SolverResourceRequestMemory = resource.MustParse("64Mi")
	options.HTTP01SolverResourceLimitsCPU = resource.MustParse("100m")
	options.HTTP01SolverResourceLimitsMemory = resource.MustParse("64Mi")
	options.ACMEHTTP01SolverRunAsNonRoot = true
	options.DefaultAutoCertificateAnnotations = []string{"kubernetes.io/tls-acme"}
	options.GatewayAPIExtraProtocols = sets.New[string]()
	options.CopiedAnnotationPrefixes = []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"}

	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	base, err := factory.Build()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	health := healthz.NewServer(healthTimeout)
	listener, err := net.Listen("tcp", *healthAddress)
	if err != nil {
		return fmt.Errorf("listening for health checks: %w", err)
	}
	group.Go(func() error { return health.Start(ctx, listener) })
	if *metricsAddress != "0" {
		listener, err := net.Listen("tcp", *metricsAddress)
		if err != nil {
			return fmt.Errorf("listening for metrics: %w", err)
		}
		server := base.Metrics.NewServer(listener)
		group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
		group.Go(func() error {
			if err := server.Serve(listener); err != http.ErrServerClosed {
				return err
			}
			return nil
		})
	}
	group.Go(func() error {
		return elect.lead(ctx, base.RESTConfig, "cert-manager-controller", health.LeaderHealthzAdaptor,
			func(ctx context.Context) error {
				return work(ctx, factory, base, *workers, *without)
			})
	})
	return group.Wait()
}

// work runs all controllers until the context ends or one of them fails.
func work(
	ctx context.Context, factory *controller.ContextFactory, base *controller.Context, workers int, without []string,
) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, construct := range controller.Known() {
		if slices.Contains(without, "-"+name) {
			continue
		}
		built, err := construct(factory)
		if err != nil {
			return fmt.Errorf("creating controller %s: %w", name, err)
		}
		logf.FromContext(ctx).Info("starting", "controller", name)
		group.Go(func() error {
			if err := built.Run(workers, ctx); err != nil {
				return fmt.Errorf("controller %s: %w", name, err)
			}
			return nil
		})
	}
	// All controllers share these factories, and requested their informers when they were constructed.
	base.SharedInformerFactory.Start(ctx.Done())
	base.KubeSharedInformerFactory.Start(ctx.Done())
	base.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	return group.Wait()
}
