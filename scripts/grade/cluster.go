// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"

	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/submission"
)

// Start starts the cluster of a run, or opens one that is there, and may wait for its turn: waits is told for what.
type Start func(ctx context.Context, waits func(reason string)) (*Cluster, error)

// Cluster is the cluster of a run: what differs between one of its own and one that others use, too.
type Cluster struct {
	// Version is the Kubernetes release.
	Version string
	// Kubeconfig is the file of an administrator's kubeconfig, and Config what it says.
	Kubeconfig string
	Config     *rest.Config
	// AuditLog is the file of the API server's audit log.
	AuditLog string
	// AuditLate says that the file is a copy, which comes a moment late.
	AuditLate bool
	// Recorder writes the audit log where the API server's own can't be had. Default: nobody has to.
	Recorder *audit.Recorder
	// Shared says that the cluster has other users: what they have there is not touched.
	Shared bool
	// Installer makes the account by which what the submission brings is installed. Default: the administrator's, in a cluster
	// where there is nobody else.
	Installer func(ctx context.Context, groups []string) (*existing.Account, error)
	// Way is how the API server gets to webhooks on this machine; nil where it can't, for the reason NoWay.
	Way   submission.Way
	NoWay error
	// Pods is where the operator runs as a Pod. Default: it runs on this machine.
	Pods *Pods
	// Lost is closed when the cluster is another run's all at once. Default: it never is.
	Lost <-chan struct{}
	// Failed says why the cluster is not what it must be, if that is known by now. Default: it never fails.
	Failed func() error
	// Stop ends the cluster, or removes from it what the run has made.
	Stop func() error
}

// Embedded is a cluster of the run's own. It is gone afterwards. The controllers may still be starting: no lab that runs without
// Pods waits for anything that they do.
func Embedded(start func(context.Context) (*embedded.Cluster, error)) Start {
	return func(ctx context.Context, _ func(string)) (*Cluster, error) {
		cluster, err := start(ctx)
		if err != nil {
			return nil, err
		}
		return ofEmbedded(cluster), nil
	}
}

func ofEmbedded(cluster *embedded.Cluster) *Cluster {
	return &Cluster{
		Version: cluster.Version, Kubeconfig: cluster.Kubeconfig, Config: cluster.Config(), AuditLog: cluster.AuditLog,
		Way: submission.ByEgress(cluster.Egress), Failed: cluster.Failed, Stop: cluster.Stop,
	}
}

func (c *Cluster) failed() error {
	if c.Failed == nil {
		return nil
	}
	return c.Failed()
}

// openAudit reads the audit log until the context ends.
func (c *Cluster) openAudit(ctx context.Context) (*audit.Log, error) {
	log, err := audit.Open(ctx, c.AuditLog)
	if err != nil || !c.AuditLate {
		return log, err
	}
	mark, err := audit.Marker(c.Config)
	if err != nil {
		return nil, err
	}
	log.ComesLate(mark)
	return log, nil
}
