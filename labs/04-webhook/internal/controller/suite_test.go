// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	demov1 "lva.io/operators/labs/04-webhook/api/v1"
)

// environment is etcd and an API server with the kind Icecream. Nothing else runs: no controller but the one that a
// test calls, no garbage collector, no node.
var environment = envtest.Environment{
	CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
	ErrorIfCRDPathMissing: true,
}

// startEnvironment is called by the first test that needs an API server, so that plain tests of plain Go stay fast.
var startEnvironment = sync.OnceValues(func() (client.WithWatch, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS does not say where etcd and kube-apiserver are: " +
			"run `make test`, which sets it")
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	config, err := environment.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := demov1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("add the API to the scheme: %w", err)
	}
	// This client has no cache: a test reads its own writes.
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
})

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
func apiServer(t *testing.T) client.WithWatch {
	t.Helper()
	api, err := startEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return api
}
