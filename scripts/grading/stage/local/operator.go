// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// listenTimeout is how long the operator's webhooks may take until they listen. Those of a submission without a webhook
// server never do, which the checks detect.
const listenTimeout = 3 * time.Second

// operator is the submission's program, with the ports, files and routes of its webhooks.
type operator struct {
	*installed
	flags   []string // the flags that set where it listens
	router  router   // nil: they are not registered
	claims  []*claim
	ca      *certificates.Authority
	host    string      // the name in the serving certificate
	targets map[int]int // the port at which a Service expects the operator, and where it listens
	files   []string    // the files that its flags name
	data    string      // the folder in which it stores; empty: it has none
	closed  bool
}

// User returns the name of the account that Install has created.
func (i *installed) User() string { return submission.User }

// Prepare creates what the operator needs so that its webhooks can listen: a serving certificate, and a port. If
// several operators insist on the same port, only one of them runs at a time on this machine. Prepare waits for its
// turn, as long as the context allows. If another program has the port, the error is not a *submission.Problem.
//
// If its webhooks are to be registered, Prepare applies their Services and their configurations, as kustomize would
// render them, and routes the Services to the operator. After Close the webhooks stay registered, and fail according to
// their failure policy.
func (i *installed) Prepare(ctx context.Context, onWait func(reason string)) (_ stage.Operator, err error) {
	if i.Aggregated {
		return i.prepareServer(ctx)
	}
	o := &operator{installed: i, targets: map[int]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	register := i.Webhooks && i.Manifests.HasWebhooks()
	if register || i.Manifests.Converts() {
		if err := i.target.CheckWebhooks(i.Manifests.Webhooks); err != nil {
			return nil, err
		}
		// The route is opened first. If it is in use, there is no need to wait for a port.
		if o.router, err = i.route.open(i.target); err != nil {
			return nil, err
		}
	}
	if err := o.claimPorts(ctx, onWait); err != nil {
		return nil, err
	}
	if err := o.certify(); err != nil {
		return nil, err
	}
	if o.router != nil {
		if err := o.register(ctx, register); err != nil {
			return nil, err
		}
	}
	if i.Conversion && i.Manifests.Converts() {
		if err := o.Upgrade(ctx); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Arguments returns the command in the arguments of its Deployment, and flags for its ports. StartWith adds the flag
// for its kubeconfig.
func (o *operator) Arguments() []string {
	return slices.Concat(o.Launch.Command, o.Launch.Flags, o.flags)
}

// Start starts the built program as the submission's own Deployment does, with the account's kubeconfig in all places
// where operators look for one.
func (o *operator) Start(log io.Writer) (stage.Instance, error) { return o.StartWith(log) }

// HasFlag reports whether the program's help lists a flag of this name.
func (o *operator) HasFlag(flag string) bool { return slices.Contains(o.Launch.Known, flag) }

// StartWith is Start with more flags. --kubeconfig= leaves out the flag --kubeconfig, which the operator otherwise
// gets.
func (o *operator) StartWith(log io.Writer, flags ...string) (stage.Instance, error) {
	started, err := o.start(log, flags...)
	if err != nil {
		return nil, err
	}
	return instance{started}, nil
}

func (o *operator) start(log io.Writer, flags ...string) (*process.Process, error) {
	home := o.Home()
	if err := os.MkdirAll(o.Exchange(), 0o700); err != nil {
		return nil, fmt.Errorf("creating the operator's exchange folder: %w", err)
	}
	if err := o.fillFolder(".kube", func(folder *os.Root) error {
		return folder.Symlink(o.kubeconfig, "config")
	}); err != nil {
		return nil, fmt.Errorf("linking the operator's kubeconfig: %w", err)
	}
	arguments := o.Arguments()
	if flag := o.Launch.Kubeconfig; flag != "" {
		if without := flag + "="; slices.Contains(flags, without) {
			flags = slices.DeleteFunc(slices.Clone(flags), func(given string) bool { return given == without })
		} else {
			arguments = append(arguments, flag+"="+o.kubeconfig)
		}
	}
	for _, flag := range o.Launch.DelegationKubeconfigs {
		arguments = append(arguments, flag+"="+o.kubeconfig)
	}
	return o.Scope.Start(process.Spec{
		Name: "the operator", Path: o.Program(), Args: append(arguments, flags...), Dir: home, Stdout: log, Stderr: log,
		Env: o.Variables(o.kubeconfig, o.environment...), Contained: true, Walls: o.walls(),
	})
}

// walls returns the walls around the program. It can connect to the services of its gateway, and to its own ports,
// because a webhook server checks whether it listens.
func (o *operator) walls() *process.Walls {
	ports := slices.Clone(o.ports)
	for _, c := range o.claims {
		ports = append(ports, c.port)
	}
	walls := o.Walls(append(slices.Clip(o.files), o.kubeconfig), ports)
	if walls == nil {
		return nil
	}
	walls.Write = append(walls.Write, o.Exchange())
	if o.data != "" {
		walls.Write = append(walls.Write, o.data)
	}
	return walls
}

// instance is a process of this machine, which can always be stopped.
type instance struct{ *process.Process }

func (i instance) Stop(grace time.Duration) error {
	i.Process.Stop(grace)
	return nil
}

func (i instance) Kill() error {
	i.Process.Kill()
	return nil
}

// AwaitListening waits until the started operator answers at the address that the API server will call.
func (o *operator) AwaitListening(ctx context.Context) error {
	if o.router == nil {
		return nil
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(o.ca.PEM)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: o.host}}
	listening, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	for _, port := range o.targets {
		err := wait.PollUntilContextCancel(listening, portPoll, true, func(ctx context.Context) (bool, error) {
			connection, err := dialer.DialContext(ctx, "tcp", localAddress(port))
			if err != nil {
				return false, nil //nolint:nilerr // no process listens yet
			}
			return true, connection.Close()
		})
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("waiting until the operator's webhooks listen at port %d: %w", port, context.Cause(ctx))
		}
	}
	return nil
}

// Close removes the routes to the operator, and releases its ports. Closing it again does nothing.
func (o *operator) Close() (err error) {
	if o.closed {
		return nil
	}
	o.closed = true
	if o.router != nil {
		err = o.router.Close()
	}
	for _, c := range o.claims {
		c.Close()
	}
	return err
}
