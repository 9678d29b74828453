// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package shared

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/local"
	"lva.io/operators/scripts/grading/stage/pod"
)

// Cluster is a cluster that exists before and after the run. Runs take turns there, and each one removes what it has
// created. If a run was killed, the next one removes what is left of it.
type Cluster struct {
	// Context is the context of the cluster in the kubeconfig File. Default: those that kubectl would use.
	Context, File string
	// Address is the IP address at which the cluster reaches this machine. Default: it is detected, if possible.
	Address string
	// Audit is the API server's audit log. Default: a proxy records the requests that the run needs to know.
	Audit AuditLog
	// FrontProxy is the cluster's front proxy. Default: its certificate is not available, and no request is sent to an
	// aggregated API server in its name.
	FrontProxy FrontProxy
	// Pods are the options of an operator that runs as a Pod. Default: it runs as a process of this machine.
	Pods *pod.Options
	// Holder names this run to others who wait for the cluster. Default: user and machine.
	Holder string
}

// AuditLog is the audit log of an API server elsewhere.
type AuditLog interface {
	// Follow copies the log from its beginning until the context ends.
	Follow(ctx context.Context, to io.Writer) error
	// String returns the location of the log.
	String() string
}

// FrontProxy is the front proxy of an API server elsewhere.
type FrontProxy interface {
	// Files copies its certificate and its key into a folder.
	Files(ctx context.Context, dir string) (embedded.FrontProxy, error)
}

// Start opens the cluster when it is this run's turn. It implements stage.Start.
func (c Cluster) Start(ctx context.Context, onWait func(reason string)) (_ stage.Stage, err error) {
	o, err := c.open(ctx, onWait)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	described := &stage.Cluster{
		Version: o.Version, Kubeconfig: filepath.Join(o.scope.Dir, "kubeconfig"), Config: o.Config(), Account: o.account,
		AuditLog: filepath.Join(o.scope.Dir, "audit.log"), Shared: true, Lost: o.lease.Lost(), Stop: o.Close,
	}
	if err := o.WriteKubeconfig(described.Kubeconfig); err != nil {
		return nil, err
	}
	if c.Audit == nil {
		if described.Recorder, err = audit.NewRecorder(described.AuditLog); err != nil {
			return nil, err
		}
		o.closers = append(o.closers, described.Recorder.Close)
	} else if err := o.copyAudit(ctx, described); err != nil {
		return nil, err
	}
	if c.FrontProxy != nil {
		if described.FrontProxy, err = c.FrontProxy.Files(ctx, o.scope.Dir); err != nil {
			return nil, err
		}
	}
	if c.Pods != nil {
		return pod.New(described, *c.Pods), nil
	}
	return local.New(described, o.route()), nil
}

// opened is a shared cluster while this run holds it.
type opened struct {
	*existing.Cluster
	shared  Cluster
	lease   *existing.Hold
	scope   *process.Scope
	closers []func() error
}

// needed lists the rights of an account on whose behalf a lab is installed, which creates kinds, and rights to them.
var needed = []existing.Right{
	{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "impersonate", Resource: "users"},
	{Verb: "impersonate", Resource: "groups"},
	{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	{Verb: "create", Resource: "namespaces"},
}

// open opens the cluster when it is this run's turn, and removes the objects that an earlier run has left.
func (c Cluster) open(ctx context.Context, onWait func(reason string)) (_ *opened, err error) {
	cluster, err := existing.Open(ctx, c.File, c.Context)
	if err != nil {
		return nil, err
	}
	missing, err := cluster.MissingRights(ctx, needed...)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		var rights []string
		for _, right := range missing {
			rights = append(rights, right.String())
		}
		return nil, fmt.Errorf("the account of the context %s may not %s: a lab installs kinds and roles, "+
			"which requires an administrator; grade on the embedded cluster (omit --cluster), "+
			"or on one of your own (`make cluster`)", c.Context, strings.Join(rights, ", "))
	}
	o := &opened{Cluster: cluster, shared: c}
	if o.scope, err = process.NewScope(process.Options{}); err != nil {
		return nil, err
	}
	if o.lease, err = cluster.Hold(ctx, c.holder(), onWait); err != nil {
		return nil, errors.Join(err, o.scope.Close())
	}
	if _, err := cluster.Clean(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("cleaning up after an earlier run: %w", err), o.Close())
	}
	return o, nil
}

func (c Cluster) holder() string {
	if c.Holder != "" {
		return c.Holder
	}
	name, machine := "an unknown user", "an unknown host"
	if known, err := user.Current(); err == nil {
		name = known.Username
	}
	if known, err := os.Hostname(); err == nil {
		machine = known
	}
	return fmt.Sprintf("%s on %s (process %d)", name, machine, os.Getpid())
}

// closeTimeout is the time limit for removing the objects that a run has created.
const closeTimeout = 3 * time.Minute

// Close removes what the run has created, and releases the cluster for the next run.
func (o *opened) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	select {
	case <-o.lease.Lost(): // the objects now belong to another run
	default:
		if _, cleaned := o.Clean(ctx); cleaned != nil {
			err = fmt.Errorf("cleaning up after the run: %w: the next run tries again", cleaned)
		}
	}
	err = errors.Join(err, o.lease.Release(ctx))
	for _, closer := range o.closers {
		err = errors.Join(err, closer())
	}
	return errors.Join(err, o.scope.Close())
}

// route returns the Route by which the cluster's API server reaches webhooks on this machine.
func (o *opened) route() local.Route {
	if o.shared.Address != "" {
		return local.ByAddress(o.shared.Address)
	}
	target, err := url.Parse(o.Config().Host)
	if err != nil {
		return local.NoRoute(fmt.Errorf("reading the cluster's address: %w", err))
	}
	noRoute := local.NoRoute(fmt.Errorf("can't detect the address at which the cluster at %s reaches this machine: "+
		"set it with --address", target.Host))
	// Nothing is sent. The system only selects the local address that it would use.
	connection, err := net.Dial("udp", net.JoinHostPort(target.Hostname(), "443"))
	if err != nil {
		return noRoute
	}
	defer connection.Close()
	ip := connection.LocalAddr().(*net.UDPAddr).IP
	if ip.IsLoopback() {
		return noRoute // an endpoint must not be a loopback address, which means another machine in the cluster
	}
	return local.ByAddress(ip.String())
}

// auditPatience is how long it may take until the copy of the audit log has started. Before that, the whole log is
// read, which may cover a week.
const auditPatience = time.Minute

// copyAudit begins to copy the API server's audit log, from now on.
func (o *opened) copyAudit(ctx context.Context, c *stage.Cluster) error {
	file, err := os.OpenFile(c.AuditLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("creating the copy of the audit log: %w", err)
	}
	c.AuditDelayed = true
	mark, err := audit.Marker(c.Config)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	from := audit.MarkPath + rand.Text()
	if err := mark(ctx, from); err != nil {
		return errors.Join(err, file.Close())
	}
	copied := &markFilter{mark: []byte(from), out: file, started: make(chan struct{})}
	copying, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.shared.Audit.Follow(copying, copied) }()
	o.closers = append(o.closers, func() error {
		cancel()
		<-ended //nolint:errcheck // the error reports only the cancellation
		return file.Close()
	})
	select {
	case <-copied.started:
		return nil
	case err := <-ended:
		ended <- nil
		return err
	case <-time.After(auditPatience):
		return fmt.Errorf("the API server's audit log, %s, lacks the request that was just sent: "+
			"was the cluster created by `make cluster`?", o.shared.Audit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// markFilter passes on the lines that come after the one with the mark.
type markFilter struct {
	mark    []byte
	out     *os.File
	started chan struct{}
	once    sync.Once
	rest    []byte
	found   bool
}

func (m *markFilter) Write(p []byte) (int, error) {
	if m.found {
		return m.out.Write(p)
	}
	m.rest = append(m.rest, p...)
	for {
		line, after, whole := bytes.Cut(m.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		m.rest = after
		if bytes.Contains(line, m.mark) {
			break
		}
	}
	m.found = true
	_, err := m.out.Write(m.rest)
	m.rest = nil
	m.once.Do(func() { close(m.started) })
	return len(p), err
}
