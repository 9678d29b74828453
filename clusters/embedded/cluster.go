// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/process"
)

// startTimeout is how long a cluster may take to become ready. On two idle cores it takes about three seconds.
const startTimeout = 2 * time.Minute

// Cluster is a running cluster.
type Cluster struct {
	// Dir is its run folder: keys, data, logs. Only its user can read it.
	Dir string
	// Kubeconfig is the file of an administrator's kubeconfig.
	Kubeconfig string
	// AuditLog is the file in which the API server records each request, one JSON object a line, before it answers.
	AuditLog string
	// Egress is the Unix socket by which the API server goes out to Services: package egress listens there.
	Egress string
	// Version is the Kubernetes release.
	Version string

	config    *rest.Config
	scope     *process.Scope
	port      *reservation
	processes []*process.Process
}

// Start starts a fresh cluster and returns when it is ready: the API answers, the controllers work, and the
// ServiceAccount default exists. It ends with Stop, or with this process, whatever ends that. Cancelling the context
// ends the start, not a started cluster.
func Start(ctx context.Context, program *multicall.Program) (*Cluster, error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return nil, err
	}
	return start(ctx, program, scope, false)
}

// start makes a cluster in the scope's folder, which may hold the keys and the data of an earlier one. What a durable
// one holds survives a power failure.
func start(ctx context.Context, program *multicall.Program, scope *process.Scope, durable bool) (*Cluster, error) {
	c := &Cluster{
		Dir: scope.Dir, Kubeconfig: filepath.Join(scope.Dir, adminKubeconfig), AuditLog: filepath.Join(scope.Dir, "audit.log"),
		Egress: filepath.Join(scope.Dir, egressSocket), Version: program.Version, scope: scope,
	}
	if err := c.start(ctx, program, durable); err != nil {
		_ = c.Stop()
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, program *multicall.Program, durable bool) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("it was not ready within %s", startTimeout))
	defer cancel()
	port, err := portOf(c.Kubeconfig)
	if err != nil {
		return err
	}
	if c.port, err = reservePort(port); err != nil {
		return err
	}
	if err := writeFiles(c.Dir, c.port.Port); err != nil {
		return err
	}
	if c.config, err = loadConfig(c.Kubeconfig); err != nil {
		return err
	}
	// etcd and the API server at the same moment: the server waits for etcd by itself, and both spend the first half
	// second on their own.
	for _, component := range []component{etcd(durable), apiServer(c.port.Port, durable)} {
		if err := c.launch(program, component); err != nil {
			return err
		}
	}
	// The controllers ask once a second whether it is healthy. Started just when it is, they need to ask only once.
	if err := c.waitAPIReady(ctx); err != nil {
		return err
	}
	if err := c.launch(program, controllerManager()); err != nil {
		return err
	}
	if err := c.waitControllers(ctx); err != nil {
		return err
	}
	// Nobody waits for the scheduler, as long as there is no node: it begins when the others are through.
	return c.launch(program, scheduler())
}

// launch starts one program of the control plane, its output in a log file of its name.
func (c *Cluster) launch(program *multicall.Program, component component) error {
	log, err := os.OpenFile(c.log(component.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("making the log of %s: %w", component.name, err)
	}
	defer log.Close()
	p, err := c.scope.Start(process.Spec{
		Name: component.name, Path: program.Path, Args: append([]string{component.name}, component.flags...),
		Env: environment(), Stdout: log, Stderr: log,
	})
	if err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	return nil
}

func (c *Cluster) log(component string) string { return filepath.Join(c.Dir, component+".log") }

// Config is an administrator's access to the cluster. Each call returns a copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Host is the API server's URL.
func (c *Cluster) Host() string { return c.config.Host }

// PIDs are the process numbers of the control plane, for those who measure.
func (c *Cluster) PIDs() map[string]int {
	pids := map[string]int{}
	for _, p := range c.processes {
		pids[p.Name] = p.PID()
	}
	return pids
}

// died names a program of the cluster that has ended.
func (c *Cluster) died() (name string, dead bool) {
	for _, p := range c.processes {
		select {
		case <-p.Done():
			return p.Name, true
		default:
		}
	}
	return "", false
}

// Stop ends the cluster's processes at once and removes its folder. What it held is lost, so nothing waits for a
// graceful end.
func (c *Cluster) Stop() error {
	if c.port != nil {
		c.port.Release()
	}
	return c.scope.Close()
}
