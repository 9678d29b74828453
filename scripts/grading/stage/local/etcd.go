// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"lva.io/operators/clusters/process"
)

// etcdTimeout is how long an etcd may take from its start until it is healthy. On two idle cores it takes half a
// second.
const etcdTimeout = 30 * time.Second

// startEtcd starts the etcd of a server that knows a flag for one, and returns when it is healthy. The etcd belongs to
// this server alone, starts empty, and runs until Close, even if the server is killed. It listens on the loopback
// interface without TLS, because only the flag for its URL is known. Its data need not survive a power failure.
func (s *server) startEtcd(ctx context.Context) (err error) {
	claimed, err := claimAny()
	if err != nil {
		return err
	}
	s.claims = append(s.claims, claimed)
	dir := filepath.Join(s.Scope.Dir, "server-etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the folder of the server's etcd: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "etcd.log"))
	if err != nil {
		return fmt.Errorf("creating the log of the server's etcd: %w", err)
	}
	defer log.Close()
	// The URL of a Unix socket has the form host:port, which is the name of a file in dir.
	client, peer := "http://"+localAddress(claimed.port), "unix://peer:0"
	s.etcd, err = s.Scope.Start(process.Spec{
		Name: "the server's etcd", Path: s.ControlPlane, Dir: dir, Stdout: log, Stderr: log,
		Args: []string{
			"etcd", "--name=default", "--data-dir=data", "--log-level=warn", "--unsafe-no-fsync",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
			"--heartbeat-interval=20", "--election-timeout=100", // the only member elects itself
		},
		Env: []string{"HOME=" + dir}, // each flag of etcd is also a variable, which the user may have set
	})
	if err != nil {
		return err
	}
	s.flags = append(s.flags, s.Launch.EtcdServers+"="+client)
	if err := s.awaitEtcd(ctx, client); err != nil {
		output, _ := os.ReadFile(log.Name())
		return fmt.Errorf("starting an etcd for the server: %w\n%s", err, output)
	}
	return nil
}

// awaitEtcd waits until the etcd at a URL is healthy, or has ended.
func (s *server) awaitEtcd(ctx context.Context, url string) error {
	return wait.PollUntilContextTimeout(ctx, portPoll, etcdTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-s.etcd.Done():
			return false, errors.Join(errors.New("it has ended"), s.etcd.Err())
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}
