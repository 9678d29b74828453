// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// environment is etcd and an API server that knows the kinds of this project. Nothing else runs: no controller but the
// one that a test calls, no garbage collector, no node. The names suite_test.go, k8sClient and testEnv are left to
// kubebuilder, which writes tests of its own, with an environment of their own, when it adds an API.
var environment = envtest.Environment{
	CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
	ErrorIfCRDPathMissing: true,
}

// startEnvironment is called by the first test that needs an API server, so that plain tests of plain Go stay fast.
var startEnvironment = sync.OnceValues(func() (client.Client, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS does not say where etcd and kube-apiserver are: " +
			"run `make test`, which sets it")
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	scheme := runtime.NewScheme()
	if err := errors.Join(
		clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		appsv1alpha1.AddToScheme(scheme), appsv1beta1.AddToScheme(scheme),
	); err != nil {
		return nil, fmt.Errorf("add the APIs to the scheme: %w", err)
	}
	// By the scheme it finds out which kinds have to be converted, and leads the API server to a webhook of this program.
	environment.Scheme = scheme
	config, err := environment.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server: %w", err)
	}
	if err := startConversion(scheme); err != nil {
		return nil, fmt.Errorf("start the conversion webhook: %w", err)
	}
	// This client has no cache: a test reads its own writes.
	return client.New(config, client.Options{Scheme: scheme})
})

// startConversion serves the conversion webhook until the program ends: WebApps are stored in v1beta1, and most tests
// write v1alpha1.
func startConversion(scheme *runtime.Scheme) error {
	at := environment.WebhookInstallOptions
	server := webhook.NewServer(webhook.Options{
		Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir,
	})
	server.Register("/convert", conversion.NewWebhookHandler(scheme, conversion.NewRegistry()))
	ended := make(chan error, 1)
	go func() { ended <- server.Start(context.Background()) }()
	started := server.StartedChecker()
	return wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			select {
			case err := <-ended:
				return false, err
			default:
				return started(nil) == nil, nil
			}
		})
}

func TestMain(m *testing.M) {
	code := m.Run()
	if environment.Config != nil {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "Cannot stop the API server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// apiServer is a client of a real API server.
func apiServer(t *testing.T) client.Client {
	t.Helper()
	api, err := startEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return api
}
