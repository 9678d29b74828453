// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/submission"
)

// Shared is a cluster that was there before the run, and stays. Runs take turns there, and each removes what it has made; what
// one left behind that was killed, the next one removes.
type Shared struct {
	// Context is the context of the kubeconfig that leads to it, and File that kubeconfig. Default: what kubectl would read.
	Context, File string
	// Address is the IP address at which the cluster reaches this machine. Default: it is found out, if it can be.
	Address string
	// Node is the container of the control plane whose API server keeps an audit log, where the cluster is one of kind. Default:
	// what the run needs of it is recorded on the way.
	Node string
	// Pods is where the operator runs as a Pod. Default: it runs on this machine.
	Pods *Pods
	// Who is told to those who wait meanwhile. Default: user and machine.
	Who string
}

// Start opens the cluster when it is this run's turn.
func (s Shared) Start(ctx context.Context, waits func(reason string)) (_ *Cluster, err error) {
	o, err := s.Open(ctx, waits)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	c := &Cluster{
		Version: o.Version, Kubeconfig: filepath.Join(o.scope.Dir, "kubeconfig"), Config: o.Config(),
		AuditLog: filepath.Join(o.scope.Dir, "audit.log"), Shared: true, Pods: s.Pods, Lost: o.hold.Lost(),
	}
	c.Installer = o.Installer
	c.Way, c.NoWay = o.Way()
	if err := o.WriteKubeconfig(c.Kubeconfig); err != nil {
		return nil, err
	}
	if s.Node == "" {
		if c.Recorder, err = audit.NewRecorder(c.AuditLog); err != nil {
			return nil, err
		}
		o.closers = append(o.closers, c.Recorder.Close)
	} else if err := o.copyAudit(ctx, c); err != nil {
		return nil, err
	}
	c.Stop = o.Close
	return c, nil
}

// Opened is a shared cluster while it is ours.
type Opened struct {
	*existing.Cluster
	shared  Shared
	hold    *existing.Hold
	scope   *process.Scope
	closers []func() error
}

// needed is what an account must be allowed to do on whose behalf a lab is installed: it makes kinds, and rights to them.
var needed = []existing.Right{
	{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "impersonate", Resource: "users"},
	{Verb: "impersonate", Resource: "groups"},
	{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	{Verb: "create", Resource: "namespaces"},
}

// Open opens the cluster when it is this run's turn, and removes what an earlier one has left.
func (s Shared) Open(ctx context.Context, waits func(reason string)) (_ *Opened, err error) {
	cluster, err := existing.Open(ctx, s.File, s.Context)
	if err != nil {
		return nil, err
	}
	lacks, err := cluster.Lacks(ctx, needed...)
	if err != nil {
		return nil, err
	}
	if len(lacks) > 0 {
		var missing []string
		for _, right := range lacks {
			missing = append(missing, right.String())
		}
		return nil, fmt.Errorf("the account of the context %s may not %s: a lab brings kinds and rights of its own, so it takes an administrator's; "+
			"grade on the embedded cluster (leave out --cluster), or on one of your own (`make cluster`)", s.Context, strings.Join(missing, ", "))
	}
	o := &Opened{Cluster: cluster, shared: s}
	if o.scope, err = process.NewScope(process.Options{}); err != nil {
		return nil, err
	}
	if o.hold, err = cluster.Hold(ctx, s.who(), waits); err != nil {
		return nil, errors.Join(err, o.scope.Close())
	}
	if _, err := cluster.Clean(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("removing what an earlier run has left: %w", err), o.Close())
	}
	return o, nil
}

func (s Shared) who() string {
	if s.Who != "" {
		return s.Who
	}
	name, machine := "somebody", "another machine"
	if known, err := user.Current(); err == nil {
		name = known.Username
	}
	if known, err := os.Hostname(); err == nil {
		machine = known
	}
	return fmt.Sprintf("%s on %s (process %d)", name, machine, os.Getpid())
}

// Lost is closed when the cluster is another run's all at once.
func (o *Opened) Lost() <-chan struct{} { return o.hold.Lost() }

// closeTimeout is for the removal of what a run has made.
const closeTimeout = 3 * time.Minute

// Close removes what the run has made, and lets the next one work.
func (o *Opened) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	select {
	case <-o.hold.Lost(): // what is there by now is another run's
	default:
		if _, cleaned := o.Clean(ctx); cleaned != nil {
			err = fmt.Errorf("removing what the run has made: %w: the next run tries again", cleaned)
		}
	}
	err = errors.Join(err, o.hold.Release(ctx))
	for _, closer := range o.closers {
		err = errors.Join(err, closer())
	}
	return errors.Join(err, o.scope.Close())
}

// Way is how the cluster's API server gets to webhooks on this machine.
func (o *Opened) Way() (submission.Way, error) {
	if o.shared.Address != "" {
		return submission.ByAddress(o.shared.Address), nil
	}
	target, err := url.Parse(o.Config().Host)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's address: %w", err)
	}
	unknown := fmt.Errorf("at which address the cluster at %s reaches this machine is not known: name it with --address", target.Host)
	// Nothing is sent: the system only says from which address it would.
	connection, err := net.Dial("udp", net.JoinHostPort(target.Hostname(), "443"))
	if err != nil {
		return nil, unknown
	}
	defer connection.Close()
	ip := connection.LocalAddr().(*net.UDPAddr).IP
	if ip.IsLoopback() {
		return nil, unknown // an endpoint may not be that, and to the cluster it would be another machine
	}
	return submission.ByAddress(ip.String()), nil
}

// auditPatience is how long it may take until the copy of the audit log has begun. What an API server has logged for a week is
// read before.
const auditPatience = time.Minute

// copyAudit begins to copy the API server's audit log from its node, from now on.
func (o *Opened) copyAudit(ctx context.Context, c *Cluster) error {
	file, err := os.OpenFile(c.AuditLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("making the copy of the audit log: %w", err)
	}
	c.AuditLate = true
	mark, err := audit.Marker(c.Config)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	from := audit.MarkPath + rand.Text()
	if err := mark(ctx, from); err != nil {
		return errors.Join(err, file.Close())
	}
	copied := &afterMark{mark: []byte(from), to: file, begun: make(chan struct{})}
	copying, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- docker.Follow(copying, o.shared.Node, docker.AuditLog, copied) }()
	o.closers = append(o.closers, func() error {
		cancel()
		<-ended //nolint:errcheck // it says that we have ended it
		return file.Close()
	})
	select {
	case <-copied.begun:
		return nil
	case err := <-ended:
		ended <- nil
		return err
	case <-time.After(auditPatience):
		return fmt.Errorf("the API server's audit log, %s in the node %s, does not have the request that we sent: "+
			"was the cluster created by `make cluster`?", docker.AuditLog, o.shared.Node)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// afterMark passes on the lines that come after the one with the mark.
type afterMark struct {
	mark  []byte
	to    *os.File
	begun chan struct{}
	once  sync.Once
	rest  []byte
	found bool
}

func (w *afterMark) Write(p []byte) (int, error) {
	if w.found {
		return w.to.Write(p)
	}
	w.rest = append(w.rest, p...)
	for {
		line, after, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.rest = after
		if bytes.Contains(line, w.mark) {
			break
		}
	}
	w.found = true
	_, err := w.to.Write(w.rest)
	w.rest = nil
	w.once.Do(func() { close(w.begun) })
	return len(p), err
}
