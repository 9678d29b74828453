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

// Start creates a stage, or opens an existing one. It may wait for its turn, and then passes the reason to onWait. The
// caller closes the stage.
type Start func(ctx context.Context, onWait func(reason string)) (Stage, error)

// Stage is a cluster and a place where its operators run, until it is closed. It has one submission at a time.
//
// The order of the steps is fixed, because each one returns what the next one needs: Install, Prepare, Start.
type Stage interface {
	// Cluster returns the cluster.
	Cluster() *Cluster
	// Address returns the IP address of this machine at which the proxies of an operator on this stage listen.
	// AdvertiseAddress returns the one by which the operator reaches them.
	Address() string
	AdvertiseAddress() string
	// Installing returns what Install does, in a word or two, for the display of progress.
	Installing() string
	// StartTimeout returns how long an operator on this stage may take from its start to its first request. 0 means the
	// usual time.
	StartTimeout() time.Duration
	// Install installs a submission's API and its operator's account in the cluster: its kinds, and exactly the rights of
	// its roles. The operator does not run yet, and no request reaches its webhooks. An error of the submission is a
	// *submission.Problem, and a conflict with an existing object is a *install.ForeignObjectError.
	Install(ctx context.Context, what Submission, gateway Gateway) (Installed, error)
	// Close stops the cluster, or removes from it what was installed. The operator must have ended.
	Close() error
}

// Submission describes what a stage installs.
type Submission struct {
	*submission.Builder
	Manifests *submission.Manifests
	// Name is the name of its image, if it gets one.
	Name string
	// Groups are the API groups of its kinds. In a shared cluster, its webhooks and APIServices may handle only these
	// groups.
	Groups []string
	// APIOnly is true if its operator will not be started.
	APIOnly bool
	// Webhooks is true if its webhooks are registered. Otherwise they only need to be able to listen.
	Webhooks bool
	// Conversion is true if its webhook converts between the versions of its kinds as soon as it is prepared. Otherwise
	// there is no conversion, and an Upgrader's Upgrade adds the versions that its manifests hold back.
	Conversion bool
	// Aggregated is true if it is an aggregated API server, whose APIService is registered.
	Aggregated bool
	// Workloads is true if it creates Deployments and Services, and reads Pods.
	Workloads bool
	// DataDir is the folder in which an aggregated API server stores its data on this machine. Default: one that is
	// removed with the builder's scope.
	DataDir string
	// ControlPlane is the program that runs etcd when etcd is its first argument. An aggregated API server that has a flag
	// --etcd-servers gets an etcd of its own. It is not used if Aggregated is false.
	ControlPlane string
}

// Gateway is the connection of the operator to the API server and to the other services that it uses. Default: a direct
// connection to the API server.
type Gateway struct {
	// Host is the URL at which the operator reaches the API server, and CA, in PEM, the authority whose certificates it
	// trusts there.
	Host string
	CA   []byte
	// Exchange takes the account's token, and returns the one that the operator gets in its place.
	Exchange func(token string) (shown string)
	// Refuse blocks all requests, and Admit lets them through again. While an operator is being killed, its requests must
	// have no effect.
	Refuse, Admit func()
	// Environment has additional variables for the operator, as NAME=value.
	Environment []string
	// Addresses are those that the operator must reach, as host:port.
	Addresses []string
}

// Ports returns the TCP ports to which the operator connects.
func (g Gateway) Ports() (ports []int, err error) {
	addresses := slices.Clone(g.Addresses)
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

// Shown returns the token that the operator gets.
func (g Gateway) Shown(token string) string {
	if g.Exchange == nil {
		return token
	}
	return g.Exchange(token)
}

// Installed is a submission that has been installed.
type Installed interface {
	// User returns the name by which the API server, and so the audit log, knows the operator.
	User() string
	// Prepare creates the rest of what the operator needs, and makes its webhooks reachable for the API server. It may
	// wait for its turn, and then passes the reason to onWait. The errors are those of Install.
	Prepare(ctx context.Context, onWait func(reason string)) (Operator, error)
}

// Operator is an operator that can be started. Only one instance of it runs at a time.
type Operator interface {
	// Arguments returns the arguments with which the stage starts it. It returns nil if the operator's own Deployment
	// decides them.
	Arguments() []string
	// Start starts it, and returns when it runs. Its output is written to log.
	Start(log io.Writer) (Instance, error)
	// AwaitListening waits until the API server can reach its webhooks, for as long as an operator may reasonably take.
	// It returns no error if they never listen. It returns at once if there are none.
	AwaitListening(ctx context.Context) error
	// PortInUse reports whether another program listens at a port that the operator needs.
	PortInUse(port string) bool
	// Close releases what Prepare has acquired. The operator must have ended.
	Close() error
}

// Adjustable is an Operator that can be started with other flags than usual.
type Adjustable interface {
	Operator
	// HasFlag reports whether its program has a flag of this name.
	HasFlag(flag string) bool
	// StartWith is Start with more flags. They come last, and of two flags with the same name the last one counts.
	StartWith(log io.Writer, flags ...string) (Instance, error)
}

// Upgrader is an Operator whose manifests hold back versions that can be added to the cluster later.
type Upgrader interface {
	Operator
	// Upgradable reports whether the versions can be added on this stage.
	Upgradable() bool
	// Upgrade applies its definitions with all their versions, makes its webhook convert between them, and returns when
	// the API server serves all of them. Stored objects stay as they are. An error of the submission is a
	// *submission.Problem.
	Upgrade(ctx context.Context) error
}

// Serving describes how an aggregated API server can be reached directly, and where it stores its data.
type Serving struct {
	// URL begins with https://. It is empty if the server is reached by its Service. CA, in PEM, is the authority that
	// issued its certificate, and Name the host name in the certificate.
	URL, Name string
	CA        []byte
	// Namespace, Service and Port belong to the Service of its Pod. They are empty if URL is not.
	Namespace, Service string
	Port               int32
	// DataDir is the folder in which it stores its data. It is empty for a Pod.
	DataDir string
}

// Server is an Operator that is an aggregated API server.
type Server interface {
	Operator
	// Serving returns how the server can be reached. It returns nil if the submission was not installed as an aggregated
	// API server.
	Serving() *Serving
	// AwaitServing waits until it accepts connections, or its Pod is ready, as long as the context allows. The error is
	// then the context's cause.
	AwaitServing(ctx context.Context) error
}

// Replacer is a Server whose program can be replaced almost without interruption.
type Replacer interface {
	Server
	// Replace ends an instance, as Stop does, and starts the program as it was built last. It calls prepare while the old
	// instance ends, and returns the error of prepare. If possible, clients that connect in the meantime wait and are not
	// refused.
	Replace(old Instance, log io.Writer, prepare func() error) (Instance, error)
}

// Instance is a running operator, from its start to its end.
type Instance interface {
	// Done returns a channel that is closed when the operator has ended. Err then returns how it ended: nil means an exit
	// code of zero.
	Done() <-chan struct{}
	Err() error
	// Stop asks it to end, and ends it after the grace period. Kill ends it at once. Both return when it has ended. If
	// they return an error, it may still be running.
	Stop(grace time.Duration) error
	Kill() error
}

// StopGrace is how long an operator may take to end after it was asked to. Kubernetes waits 30 s. A run does not wait
// that long.
const StopGrace = 5 * time.Second

// Ending describes how a program ended.
func Ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
