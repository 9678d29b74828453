// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package stage

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"lva.io/operators/scripts/grading/submission"
)

// Start makes a stage, or opens one that is there, and may wait for its turn: waits is told for what. The caller closes
// it.
type Start func(ctx context.Context, waits func(reason string)) (Stage, error)

// Stage is a cluster and a place where its operators run, until it is closed. It has one submission at a time.
//
// What has to be done comes in one order, since each step returns what the next one needs: Install, Prepare, Start.
type Stage interface {
	// Cluster is the cluster.
	Cluster() *Cluster
	// Address is the IP address of this machine at which the proxies before an operator listen that runs there, and Known
	// the one by which the operator reaches them.
	Address() string
	Known() string
	// Installing is what Install does in a word or two, for the display of progress.
	Installing() string
	// Patience is how long an operator may take there from its start to its first request; 0: no longer than anywhere.
	Patience() time.Duration
	// Install brings a submission's API and its operator's account into the cluster: kinds, and the rights of its roles
	// and no others. The operator does not run yet, and no request reaches its webhooks. What is wrong with the submission
	// is a
	// *submission.Problem, and what is in the way a *install.InTheWayError.
	Install(ctx context.Context, what Submission, gateway Gateway) (Installed, error)
	// Close ends the cluster, or removes from it what was installed. The operator has ended.
	Close() error
}

// Submission describes what a stage installs.
type Submission struct {
	*submission.Workshop
	Manifests *submission.Manifests
	// Name is what its image is called, if it gets one.
	Name string
	// Groups are the API groups of its kinds: in a cluster of others it may decide about them, and about no others.
	Groups []string
	// APIOnly says that its operator will not be started.
	APIOnly bool
	// Webhooks says that its webhooks are registered. Otherwise it is enough that they can listen.
	Webhooks bool
	// Conversion says that its webhook converts between the versions of its kinds as soon as it is prepared. Otherwise
	// there is no conversion, and versions that its manifests hold back come with an Upgrader's Upgrade.
	Conversion bool
	// Aggregated says that it is an aggregated API server, which is registered.
	Aggregated bool
	// Workloads says that it makes Deployments and Services, and reads Pods.
	Workloads bool
	// DataDir is the folder in which such a server stores on this machine. Default: one that goes with the workshop's
	// scope.
	DataDir string
	// ControlPlane is the program that is etcd when etcd is its first argument: an aggregated API server that knows a
	// flag --etcd-servers gets one. It is not used if Aggregated is false.
	ControlPlane string
}

// Gateway is the connection of the operator to the API server and to the other services that it uses. Default: to the
// API server itself.
type Gateway struct {
	// Host is the URL that it finds for the API server, and CA whose certificates it trusts there, in PEM.
	Host string
	CA   []byte
	// Exchange is told the account's token, and returns the one that the operator gets in its place.
	Exchange func(token string) (shown string)
	// Refuse lets nothing through any more, and Admit lets through again: what an operator sends that is being killed must
	// do nothing.
	Refuse, Admit func()
	// Environment is what the operator gets besides, as NAME=value.
	Environment []string
	// Reached are the addresses that the operator must reach, as host:port.
	Reached []string
}

// Ports are the ports of TCP to which the operator connects.
func (g Gateway) Ports() (ports []int, err error) {
	addresses := slices.Clone(g.Reached)
	if host, err := url.Parse(g.Host); err == nil && host.Port() != "" {
		addresses = append(addresses, host.Host)
	} else if err == nil && host.Host != "" {
		addresses = append(addresses, net.JoinHostPort(host.Hostname(), "443"))
	}
	for _, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("reading an address that the operator reaches: %w", err)
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return nil, fmt.Errorf("reading an address that the operator reaches: %w", err)
		}
		ports = append(ports, number)
	}
	return ports, nil
}

// Shown is the token that the operator gets.
func (g Gateway) Shown(token string) string {
	if g.Exchange == nil {
		return token
	}
	return g.Exchange(token)
}

// Installed is a submission that was installed.
type Installed interface {
	// User is the name by which the API server, and so the audit log, knows its operator.
	User() string
	// Prepare makes what the operator needs besides, and lets the API server ask its webhooks. It may wait for its turn:
	// waits is told for what. The errors are as those of Install.
	Prepare(ctx context.Context, waits func(reason string)) (Operator, error)
}

// Operator is an operator that can be started. Only one of it runs at a time.
type Operator interface {
	// Arguments are those with which it is started, where that is our doing.
	Arguments() []string
	// Start starts it, and returns when it runs. What it prints goes into the log.
	Start(log io.Writer) (Instance, error)
	// Listening waits until the API server finds its webhooks, for as long as an operator may reasonably take: that they
	// never listen is no error. There is nothing to wait for if there are none.
	Listening(ctx context.Context) error
	// Occupied reports whether another program listens at a port at which the operator wants to.
	Occupied(port string) bool
	// Close gives back what Prepare has taken. The operator has ended.
	Close() error
}

// Adjustable is an Operator that can be started with other flags than usual.
type Adjustable interface {
	Operator
	// Knows reports whether its program has a flag of this name.
	Knows(flag string) bool
	// StartWith is Start with more flags, which come last: of two of one name, the last one counts.
	StartWith(log io.Writer, flags ...string) (Instance, error)
}

// Upgrader is an Operator of which the versions that its manifests hold back can be brought into the cluster.
type Upgrader interface {
	Operator
	// Upgradable reports whether that can be done there.
	Upgradable() bool
	// Upgrade brings its definitions into the cluster as they are, has its webhook convert between their versions, and
	// returns when the API server serves all of them. What is stored stays as it is. What is wrong with the submission is
	// a *submission.Problem.
	Upgrade(ctx context.Context) error
}

// Serving is where an aggregated API server is asked directly, and where it stores.
type Serving struct {
	// URL is https, and empty where it is asked by its Service. CA, in PEM, is the authority of its certificate, and Name
	// the name in it.
	URL, Name string
	CA        []byte
	// Namespace, Service and Port are of the Service before its Pod; empty where URL is not.
	Namespace, Service string
	Port               int32
	// DataDir is the folder in which it stores; empty for a Pod.
	DataDir string
}

// Server is an Operator that is an aggregated API server.
type Server interface {
	Operator
	// Serving says where it is; nil: the submission was not installed as an aggregated API server.
	Serving() *Serving
	// Answers waits until it accepts connections, or its Pod is ready, as long as the context allows. The error is then
	// the context's cause.
	Answers(ctx context.Context) error
}

// Replacer is a Server whose program can be replaced almost without interruption.
type Replacer interface {
	Server
	// Replace ends an instance, as Stop does, and starts the program as it was built last. While the old one ends it calls
	// prepare, whose error is its own. Who asks meanwhile waits, where that can be had, and is not refused.
	Replace(old Instance, log io.Writer, prepare func() error) (Instance, error)
}

// Instance is a running operator, from its start to its end.
type Instance interface {
	// Done is closed when it has ended, and Err says then how: nil for an exit code of zero.
	Done() <-chan struct{}
	Err() error
	// Stop asks it to end, and ends it after the grace period. Kill ends it at once. Both return when it has ended; an
	// error says that it may not have.
	Stop(grace time.Duration) error
	Kill() error
}

// StopGrace is how long an operator may take to end when it is asked to. Kubernetes gives 30 s. A run does not wait
// that long.
const StopGrace = 5 * time.Second

// Ending says how a program ended.
func Ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
