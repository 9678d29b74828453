// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package own

import (
	"context"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/local"
)

// Start returns a stage.Start for an embedded cluster, which start starts. The cluster is stopped with the stage. The
// controllers may still be starting, because no lab that runs without Pods waits for anything that they do.
func Start(start func(context.Context) (*embedded.Cluster, error)) stage.Start {
	return func(ctx context.Context, _ func(string)) (stage.Stage, error) {
		cluster, err := start(ctx)
		if err != nil {
			return nil, err
		}
		return New(cluster), nil
	}
}

// StartServer is Start for a cluster without a node, which a program of the checkout starts.
func StartServer(program *multicall.Program) stage.Start {
	return Start(func(ctx context.Context) (*embedded.Cluster, error) { return embedded.StartServer(ctx, program) })
}

// New returns a stage at an embedded cluster that has just been started. The cluster ends with the stage.
func New(cluster *embedded.Cluster) stage.Stage {
	return local.New(Describe(cluster), local.ByEgress(cluster.Egress))
}

// Describe describes an embedded cluster that a run has for itself.
func Describe(cluster *embedded.Cluster) *stage.Cluster {
	return &stage.Cluster{
		Version: cluster.Version, Kubeconfig: cluster.Kubeconfig, Config: cluster.Config(), AuditLog: cluster.AuditLog,
		NodeExpected: cluster.HasNode(), FrontProxy: cluster.FrontProxy(), Failed: cluster.Failed, Stop: cluster.Stop,
	}
}
