// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util/cmapichecker"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// runSolver answers one HTTP-01 challenge.
func runSolver(ctx context.Context, args []string) error {
	var server solver.HTTP01Solver
	f := newFlags("acmesolver")
	f.IntVar(&server.ListenPort, "listen-port", 8089, "port to listen at")
	f.StringVar(&server.Domain, "domain", "", "the domain that is being proved")
	f.StringVar(&server.Token, "token", "", "the token of the challenge")
	f.StringVar(&server.Key, "key", "", "the key authorization: the answer")
	if err := f.parse(args); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.WithoutCancel(ctx))
	}()
	if err := server.Listen(logf.FromContext(ctx)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// runAPICheck waits until cert-manager's webhook mutates and validates. The arguments are those of cert-manager's own
// program: "check api".
func runAPICheck(ctx context.Context, args []string) error {
	if len(args) >= 2 && args[0] == "check" && args[1] == "api" {
		args = args[2:]
	}
	f := newFlags("startupapicheck")
	kubeconfig := f.String("kubeconfig", "", "file of a kubeconfig; default: that of its Pod")
	namespace := f.String("namespace", "", "namespace of the dry-run objects; default: that of its Pod")
	patience := f.Duration("wait", 0, "how long to wait for it")
	interval := f.Duration("interval", 5*time.Second, "how often to look")
	f.Lookup("v").NoOptDefVal = "1" // only in this program, the flag needs no value, and the chart passes none
	if err := f.parse(args); err != nil {
		return err
	}
	checker, err := newAPIChecker(*kubeconfig, *namespace)
	if err != nil {
		return err
	}
	deadline := time.After(*patience)
	ticks := time.NewTicker(*interval)
	defer ticks.Stop()
	for {
		err := checker.Check(ctx)
		if err == nil {
			fmt.Println("The cert-manager API is ready")
			return nil
		}
		fmt.Println("Not ready:", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("the cert-manager API was not ready within %s: %w", *patience, err)
		case <-ticks.C:
		}
	}
}

// newAPIChecker returns a checker for the namespace of its Pod, because the chart gives the Pod rights only there.
func newAPIChecker(kubeconfig, namespace string) (cmapichecker.Interface, error) {
	access := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: namespace}})
	config, err := access.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err = access.Namespace()
	if err != nil {
		return nil, err
	}
	return cmapichecker.New(config, namespace)
}
