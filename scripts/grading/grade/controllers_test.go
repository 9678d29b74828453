// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/local"
	"lva.io/operators/scripts/grading/stage/own"
)

// withControllers starts control planes whose controllers run a line of shell.
func withControllers(t *testing.T, line string) func(context.Context) (*embedded.Cluster, error) {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	program := &multicall.Program{Path: filepath.Join(t.TempDir(), "controlplane"), Version: have.ControlPlane.Version}
	script := fmt.Sprintf("#!/bin/sh\n[ $1 = kube-controller-manager ] || exec '%s' \"$@\"\n%s\n",
		have.ControlPlane.Path, line)
	if err := os.WriteFile(program.Path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (*embedded.Cluster, error) { return embedded.StartServer(ctx, program) }
}

// startWithoutControllers starts a control plane in which no controller works, and deletes what the controllers have
// created. Starting a control plane whose controllers never begin would fail after two minutes.
func startWithoutControllers(ctx context.Context, program *multicall.Program) (*embedded.Cluster, error) {
	cluster, err := embedded.Start(ctx, program)
	if err != nil {
		return nil, err
	}
	if err := stopControllers(ctx, cluster); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return cluster, nil
}

func stopControllers(ctx context.Context, cluster *embedded.Cluster) error {
	if err := syscall.Kill(cluster.PIDs()["kube-controller-manager"], syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stopping the controllers: %w", err)
	}
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		return err
	}
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, namespace := range namespaces.Items {
		now := metav1.DeleteOptions{}
		if err := errors.Join(
			client.CoreV1().ServiceAccounts(namespace.Name).DeleteCollection(ctx, now, metav1.ListOptions{}),
			client.CoreV1().ConfigMaps(namespace.Name).DeleteCollection(ctx, now, metav1.ListOptions{
				FieldSelector: "metadata.name=kube-root-ca.crt",
			}),
		); err != nil {
			return err
		}
	}
	return nil
}

// A run begins while the controllers start. The result must not depend on how long that takes.
func TestLabsWithoutPodsNeedNoControllers(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	// All of them share one control plane, in which nothing remains that a controller would have removed.
	start := func(ctx context.Context) (*embedded.Cluster, error) {
		return startWithoutControllers(ctx, have.ControlPlane)
	}
	pool := own.NewPoolOfNodes(start, func(lent *embedded.Cluster, described *stage.Cluster) (stage.Stage, error) {
		return local.New(described, local.ByEgress(lent.Egress)), nil
	})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	lease := pool.Lease()
	t.Cleanup(lease.Return)
	// Deployments wait for controllers, and so does the deletion of namespaces while an API server is away.
	labs := slices.DeleteFunc(slices.Clone(have.Labs.Labs), func(lab manifest.Lab) bool {
		return lab.NeedsNode(lab.Stage) || lab.Aggregated
	})
	for _, lab := range labs {
		t.Run(lab.Name, func(t *testing.T) {
			options := options(t, lab.Name, have.SolutionDir(&lab))
			options.Start = lease.Start
			wantFull(t, grade(t.Context(), t, options))
		})
	}
}

func TestExitOfControllersIsError(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	options := options(t, "2", unpack(t, "base"))
	options.Start = own.Start(withControllers(t, "echo 'no memory'; exit 1"))
	got := grade(t.Context(), t, options)
	if got.Outcome != report.Error || !strings.Contains(got.Reason, "kube-controller-manager has ended") ||
		!strings.Contains(got.Reason, "no memory") {
		t.Errorf("outcome is %s: %s", got.Outcome, got.Reason)
	}
}
