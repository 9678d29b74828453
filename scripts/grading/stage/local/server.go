// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/submission"
)

// server is a submission that is an aggregated API server: its APIService is registered, and its Service is routed to
// this machine.
//
// Like a ready Pod, it is an endpoint of its Service while it accepts connections. The API server checks an APIService
// again when its endpoints change, so it learns at once that the server has ended or has been started.
type server struct {
	*operator
	client dynamic.Interface
	port   int
	names  []string         // in its certificate
	etcd   *process.Process // nil: it needs none
	made   []*unstructured.Unstructured

	last stage.Instance // nil: none was started
	left chan struct{}  // closed when the endpoint is no longer updated for the last instance

	mutex     sync.Mutex // of the endpoints
	ending    bool
	replacing bool // the instance that ends is replaced by another
}

// prepareServer is Prepare for an aggregated API server. Close removes its registrations.
func (i *installed) prepareServer(ctx context.Context) (_ *server, err error) {
	if len(i.Manifests.APIServices) == 0 || len(i.Manifests.APIServers) == 0 {
		return nil, &submission.Problem{Reason: "config/apiservice contains no APIService, or no Service: " +
			"write both there, and reference the Service in the APIService"}
	}
	if i.Launch.SecurePort == "" {
		return nil, &submission.Problem{Reason: fmt.Sprintf("the port of the server can't be set: "+
			"let main read it from a flag --%s, which -h must list", submission.SecurePortFlag)}
	}
	s := &server{operator: &operator{
		installed: i,
		targets:   map[int]int{},
		data:      cmp.Or(i.DataDir, i.Data()),
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.client, err = dynamic.NewForConfig(i.target.Config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if s.router, err = i.route.open(i.target); err != nil {
		return nil, err
	}
	claimed, err := claimAny()
	if err != nil {
		return nil, err
	}
	s.claims, s.port = append(s.claims, claimed), claimed.port
	if err := s.certifyServer(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder of the server: %w", err)
	}
	if i.Launch.EtcdServers != "" {
		if err := s.startEtcd(ctx); err != nil {
			return nil, err
		}
	}
	if err := i.target.Delegate(ctx, s.client, i.Manifests); err != nil {
		return nil, err
	}
	if err := i.target.CheckAPIServices(i.Manifests.APIServices); err != nil {
		return nil, err
	}
	return s, s.register(ctx)
}

// certifyServer issues the serving certificate, and adds the flags for the certificate, the port and the data folder.
func (s *server) certifyServer() (err error) {
	s.names = hostsOf(s.Manifests.APIServers)
	if s.ca, err = certificates.NewAuthority("operator-labs-aggregated"); err != nil {
		return err
	}
	pair, err := s.ca.Server(s.names[0], s.names)
	if err != nil {
		return err
	}
	certificate, key := filepath.Join(s.Scope.Dir, "server.crt"), filepath.Join(s.Scope.Dir, "server.key")
	if err := errors.Join(
		os.WriteFile(certificate, pair.Certificate, 0o600),
		os.WriteFile(key, pair.Key, 0o600),
	); err != nil {
		return fmt.Errorf("writing the serving certificate: %w", err)
	}
	s.files = []string{certificate, key}
	launch := s.Launch
	for _, flag := range []struct{ name, value string }{
		{launch.SecurePort, fmt.Sprint(s.port)},
		{launch.Certificate, certificate},
		{launch.CertificateKey, key},
		{launch.DataDir, s.data},
	} {
		if flag.name != "" {
			s.flags = append(s.flags, flag.name+"="+flag.value)
		}
	}
	return nil
}

// register creates the Services, with an endpoint that is not ready yet, and the APIServices. In an APIService, it
// changes only the namespace of the Service and the authority.
func (s *server) register(ctx context.Context) error {
	for _, service := range s.Manifests.APIServers {
		ports, err := portsOf(service)
		if err != nil {
			return err
		}
		for _, target := range ports {
			s.targets[target] = s.port
		}
		made, err := s.createService(ctx, s.client, service)
		if made != nil {
			s.made = append(s.made, made)
		}
		if err != nil {
			return err
		}
	}
	if err := s.setReady(ctx, false); err != nil {
		return err
	}
	for _, registration := range s.Manifests.APIServices {
		registration, err := install.WithCABundle(registration, s.ca.PEM)
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(registration.Object, submission.AccountNamespace,
			"spec", "service", "namespace"); err != nil {
			return &submission.Problem{Reason: fmt.Sprintf("the APIService %s can't be read: %v", registration.GetName(), err)}
		}
		if _, err := s.target.Apply(ctx, s.client.Resource(submission.APIServices), registration); err != nil {
			return err
		}
	}
	return nil
}

// setReady sets the readiness of the Services' endpoint.
func (s *server) setReady(ctx context.Context, ready bool) error {
	endpoints := &addressed{s.route.endpoints(), s.target}
	endpoints.target.Shared = false // the endpoint is this run's, and may exist already
	for _, made := range s.made {
		ports, err := portsOf(made)
		if err != nil {
			return err
		}
		for port := range ports {
			ports[port] = s.port
		}
		if err := endpoints.routeIf(ctx, s.client, made, ports, ready); err != nil {
			return err
		}
	}
	return nil
}

// Serving returns how the server can be reached.
func (s *server) Serving() *stage.Serving {
	return &stage.Serving{URL: "https://" + localAddress(s.port), Name: s.names[0], CA: s.ca.PEM, DataDir: s.data}
}

// Start starts the server. Its endpoint is ready from the time at which it accepts connections until it ends.
func (s *server) Start(log io.Writer) (stage.Instance, error) { return s.StartWith(log) }

// StartWith is Start with more flags.
func (s *server) StartWith(log io.Writer, flags ...string) (stage.Instance, error) {
	s.awaitLeft()
	started, err := s.operator.StartWith(log, flags...)
	if err != nil {
		return nil, err
	}
	s.beginFollow(started, func() {})
	return started, nil
}

// awaitLeft waits until the API server knows that the last instance has ended, if it has. Otherwise the API could
// become Available with the next instance, and unavailable again for a moment when this late update arrives.
func (s *server) awaitLeft() {
	if s.last == nil {
		return
	}
	select {
	case <-s.last.Done():
		<-s.left // each of its updates takes at most closeTimeout
	default:
	}
}

// beginFollow follows an instance in the background.
func (s *server) beginFollow(started stage.Instance, settled func()) {
	left := make(chan struct{})
	s.last, s.left = started, left
	go func() {
		defer close(left)
		s.follow(started, settled)
	}()
}

// Replace stops an instance, and starts the program as it was built last. The endpoint stays ready in the meantime, so
// that the API server does not remove the API for a moment. If the connections are routed by this program, clients that
// connect wait until the new instance accepts.
func (s *server) Replace(old stage.Instance, log io.Writer, prepare func() error) (stage.Instance, error) {
	release := func() {}
	if holder, ok := s.router.(interface {
		Hold(local string) (release func())
	}); ok {
		release = holder.Hold(localAddress(s.port))
	}
	s.setReplacing(true)
	replaced := func() {
		s.setReplacing(false)
		release()
	}
	started, err := s.startAfter(old, log, prepare)
	if err != nil {
		replaced()
		s.updateEndpoint(false)
		return nil, err
	}
	s.beginFollow(started, replaced)
	return started, nil
}

func (s *server) startAfter(old stage.Instance, log io.Writer, prepare func() error) (stage.Instance, error) {
	prepared := make(chan error, 1)
	go func() { prepared <- prepare() }()
	if err := errors.Join(old.Stop(stage.StopGrace), <-prepared); err != nil {
		return nil, err
	}
	return s.operator.Start(log)
}

// setReplacing records whether an instance that ends is being replaced.
func (s *server) setReplacing(replacing bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.replacing = replacing
}

// follow copies the server's readiness to the endpoint, and calls settled when the server accepts connections or has
// ended. follow does not report that the endpoint can't be updated: no request then reaches the server, which the
// checks detect.
func (s *server) follow(started stage.Instance, settled func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-started.Done()
		cancel()
	}()
	err := s.AwaitServing(ctx)
	settled()
	if err == nil {
		s.updateEndpoint(true)
	}
	<-started.Done()
	s.updateEndpoint(false)
}

// updateEndpoint writes whether the endpoint is ready, unless the server is being removed.
func (s *server) updateEndpoint(ready bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.ending || !ready && s.replacing {
		return
	}
	// Another instance may have been started in the meantime.
	if !ready && !free(s.port) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.setReady(ctx, ready) // see follow
}

// AwaitServing waits until the server accepts connections.
func (s *server) AwaitServing(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, portPoll/5, true, func(ctx context.Context) (bool, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", localAddress(s.port))
		if err != nil {
			return false, nil //nolint:nilerr // no process listens yet
		}
		return true, connection.Close()
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// AwaitListening waits until the APIServices are Available.
func (s *server) AwaitListening(ctx context.Context) error {
	return install.AwaitAvailable(ctx, s.client, s.Manifests.APIServices, listenTimeout)
}

// Close removes the registration first, because no namespace can be deleted while an APIService has no server. Then it
// removes the routes to this machine.
func (s *server) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.ending {
		return nil
	}
	s.ending = true
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var problems []error
	if s.client != nil {
		if !s.target.Shared { // a shared cluster's may belong to others, and closing the stage removes this run's
			problems = append(problems, install.Withdraw(ctx, s.client, s.Manifests.APIServices))
		}
		for _, made := range s.made {
			problems = append(problems,
				ignoreGone(s.client.Resource(slicesResource).Namespace(made.GetNamespace()).
					Delete(ctx, sliceName(made), metav1.DeleteOptions{})),
				ignoreGone(s.client.Resource(install.Services).Namespace(made.GetNamespace()).
					Delete(ctx, made.GetName(), metav1.DeleteOptions{})))
		}
	}
	if s.etcd != nil {
		s.etcd.Kill()
	}
	return errors.Join(slices.Concat(problems, []error{s.operator.Close()})...)
}

// ignoreGone returns the error of a removal, unless the object is gone. In a cluster that has ended meanwhile, nothing
// is left.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || utilnet.IsConnectionRefused(err) {
		return nil
	}
	return err
}

var _ stage.Replacer = (*server)(nil)
