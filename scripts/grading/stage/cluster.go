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

// Cluster is the cluster of a stage: what differs between one of a run's own and one that others use, too.
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
	// NodeFollows says that a node becomes Ready by itself, if it is not by now.
	NodeFollows bool
	// Recorder writes the audit log where the API server's own is not available. Default: there is no recorder.
	Recorder *audit.Recorder
	// FrontProxy are the files by which the API server comes to aggregated API servers. Default: they can't be had.
	FrontProxy embedded.FrontProxy
	// Shared says that the cluster has other users: what they have there is not touched.
	Shared bool
	// Account makes the account by which a submission is installed, which has the rights that its lab's operators need.
	// Default: the administrator's, in a cluster without other users.
	Account func(context.Context, *Submission) (*existing.Account, error)
	// Lost is closed when the cluster is another run's all at once. Default: it never is.
	Lost <-chan struct{}
	// Failed says why the cluster is not what it must be, if that is known by now. Default: it never fails.
	Failed func() error
	// Stop ends the cluster, or removes from it what the run has made.
	Stop func() error
}

// Failure says why the cluster is not what it must be, if that is known by now.
func (c *Cluster) Failure() error {
	if c.Failed == nil {
		return nil
	}
	return c.Failed()
}

// OpenAudit reads the audit log until the context ends.
func (c *Cluster) OpenAudit(ctx context.Context) (*audit.Log, error) {
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

// Into is how a submission is installed there.
func (c *Cluster) Into(ctx context.Context, what *Submission) (install.Into, error) {
	into := install.Into{Config: c.Config, Shared: c.Shared, Groups: what.Groups}
	if c.Account == nil {
		return into, nil
	}
	account, err := c.Account(ctx, what)
	if err != nil {
		return into, err
	}
	into.Config, into.Made = account.Config, account.Own
	return into, nil
}
