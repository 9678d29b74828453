// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package stage

import (
	"context"

	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/stage/install"
)

// Cluster describes the cluster of a stage. It holds the differences between a cluster of the run's own and one that
// others use, too.
type Cluster struct {
	// Version is the Kubernetes release.
	Version string
	// Kubeconfig is the file of an administrator's kubeconfig, and Config is its content.
	Kubeconfig string
	Config     *rest.Config
	// AuditLog is the file of the API server's audit log.
	AuditLog string
	// AuditDelayed is true if the file is a copy, which is written a moment later.
	AuditDelayed bool
	// NodeExpected is true if a node becomes Ready by itself, unless it already is.
	NodeExpected bool
	// Recorder writes the audit log if the API server's own is not available. Default: there is no recorder.
	Recorder *audit.Recorder
	// FrontProxy are the files with which the API server authenticates to aggregated API servers. Default: they are not
	// available.
	FrontProxy embedded.FrontProxy
	// Shared is true if the cluster has other users, whose objects must not be changed.
	Shared bool
	// Account creates the account that installs a submission. It has the rights that the lab's operators need. Default:
	// the administrator's account, in a cluster without other users.
	Account func(context.Context, *Submission) (*existing.Account, error)
	// Lost is closed when another run has taken over the cluster. Default: it is never closed.
	Lost <-chan struct{}
	// Failed returns an error if it is known by now that the cluster is broken. Default: it never is.
	Failed func() error
	// Stop stops the cluster, or removes from it what the run has created.
	Stop func() error
}

// Failure returns an error if it is known by now that the cluster is broken.
func (c *Cluster) Failure() error {
	if c.Failed == nil {
		return nil
	}
	return c.Failed()
}

// OpenAudit reads the audit log until the context ends.
func (c *Cluster) OpenAudit(ctx context.Context) (*audit.Log, error) {
	log, err := audit.Open(ctx, c.AuditLog)
	if err != nil || !c.AuditDelayed {
		return log, err
	}
	mark, err := audit.Marker(c.Config)
	if err != nil {
		return nil, err
	}
	log.SetDelayed(mark)
	return log, nil
}

// InstallTarget returns the parameters for installing a submission in the cluster.
func (c *Cluster) InstallTarget(ctx context.Context, what *Submission) (install.Target, error) {
	target := install.Target{Config: c.Config, Shared: c.Shared, Groups: what.Groups}
	if c.Account == nil {
		return target, nil
	}
	account, err := c.Account(ctx, what)
	if err != nil {
		return target, err
	}
	target.Config, target.NamespaceCreated = account.Config, account.Own
	return target, nil
}
