// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/openfiles"
	"lva.io/operators/clusters/process"
)

// startTimeout is how long a cluster may take to become ready. On two idle cores it takes about three seconds.
const startTimeout = 2 * time.Minute

// Cluster is a running cluster.
type Cluster struct {
	// Dir is the cluster's run folder, with keys, data and logs. Only its user can read it.
	Dir string
	// Kubeconfig is the file of an administrator's kubeconfig.
	Kubeconfig string
	// AuditLog is the file in which the API server records each request, one JSON object a line, before it answers.
	AuditLog string
	// Egress is the Unix socket through which the API server connects to Services. Package egress listens there.
	Egress string
	// Version is the Kubernetes release.
	Version string

	config  *rest.Config
	scope   *process.Scope
	port    *reservation
	hasNode bool

	// end cancels the parts of the start that still run. working is closed when no part runs any more. After that, err
	// holds the reason of a failure.
	end     context.CancelFunc
	working chan struct{}
	err     error

	mutex     sync.Mutex
	processes []*process.Process
}

// Start starts a new cluster and returns when it is ready: the API answers, the controllers work, and the
// ServiceAccount default exists. The cluster ends with Stop, or with this process, however that ends. Cancelling the
// context ends the start, but not a started cluster.
//
// The first start of a program takes longer, because it prepares the data that all later starts begin with (see
// preparedStore).
func Start(ctx context.Context, program *multicall.Program) (*Cluster, error) {
	c, err := startPrepared(ctx, program, startOptions{scheduler: true})
	if err != nil {
		return nil, err
	}
	return c.waitComplete(ctx)
}

// StartServer is like Start, for callers that create no Pods and do not wait for the controllers. It returns when the
// API server is ready, a second sooner. The controllers start in the background. If they fail, Failed returns the
// reason. There is no scheduler.
func StartServer(ctx context.Context, program *multicall.Program) (*Cluster, error) {
	return startPrepared(ctx, program, startOptions{})
}

// startOptions are the differences between the clusters that this package starts.
type startOptions struct {
	durable       bool       // the data survives a power failure
	scheduler     bool       // clients may create Pods
	node          *NodeParts // Pods run, if it is not nil
	noNode        string     // why there is no node, for the message on Pods that are Pending
	preparedHooks []string   // start-up hooks that are not awaited, because their work was done before
}

// startPrepared starts a cluster's server, with a prepared store if possible.
func startPrepared(ctx context.Context, program *multicall.Program, options startOptions) (*Cluster, error) {
	store, err := preparedStore(ctx, program)
	if err != nil {
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return nil, err
	}
	taken, err := takeStore(store, filepath.Join(scope.Dir, dataDir))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a cluster: %w", err), scope.Close())
	}
	if taken {
		options.preparedHooks = preparedHooks
	}
	return start(ctx, program, scope, options)
}

// start starts a cluster in the scope's folder, and returns when its server is ready. The folder may hold the keys and
// the data of an earlier cluster.
func start(
	ctx context.Context, program *multicall.Program, scope *process.Scope, options startOptions,
) (*Cluster, error) {
	c := newCluster(program, scope)
	c.hasNode = options.node != nil
	if err := c.startServer(ctx, program, options); err != nil {
		close(c.working)
		_ = c.Stop()
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	rest, end := context.WithTimeoutCause(context.WithoutCancel(ctx), startTimeout, errSlow)
	c.end = end
	go func() {
		defer close(c.working)
		c.err = c.startRest(rest, program, options)
	}()
	return c, nil
}

// newCluster returns a cluster in the scope's folder that is not started yet.
func newCluster(program *multicall.Program, scope *process.Scope) *Cluster {
	return &Cluster{
		Dir:        scope.Dir,
		Kubeconfig: filepath.Join(scope.Dir, adminKubeconfig),
		AuditLog:   filepath.Join(scope.Dir, "audit.log"),
		Egress:     filepath.Join(scope.Dir, egressSocket),
		Version:    program.Version,
		scope:      scope,
		end:        func() {},
		working:    make(chan struct{}),
	}
}

var errSlow = fmt.Errorf("it was not ready within %s", startTimeout)

func (c *Cluster) startServer(ctx context.Context, program *multicall.Program, options startOptions) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	port, err := portOf(c.Kubeconfig)
	if err != nil {
		return err
	}
	if c.port, err = reservePort(port); err != nil {
		return err
	}
	if err := writeFiles(c.Dir, c.port.Port, options); err != nil {
		return err
	}
	if c.config, err = loadConfig(c.Kubeconfig); err != nil {
		return err
	}
	// Start etcd and the API server at the same time. The server waits for etcd by itself, and neither needs the other for
	// the first half second.
	server := apiServer(c.port.Port, options.durable)
	server.flags = append(server.flags, aggregatorFlags()...)
	if options.node != nil {
		server.flags = withFlags(server.flags, nodeFlags()...)
	}
	if err := c.launch(program, etcd(options.durable), server); err != nil {
		return err
	}
	return c.waitAPIReady(ctx, options.preparedHooks...)
}

func (c *Cluster) startRest(ctx context.Context, program *multicall.Program, options startOptions) error {
	// The controllers check once a second whether all of the server is healthy. If they start just after it is, they check
	// only once.
	if err := c.waitAPIReady(ctx); err != nil {
		return err
	}
	if err := c.launch(program, controllerManager()); err != nil {
		return err
	}
	var node errgroup.Group
	if options.node != nil {
		node.Go(func() error { return c.startNode(ctx, program, options) })
	}
	if err := errors.Join(c.waitControllers(ctx), node.Wait()); err != nil || !options.scheduler {
		return err
	}
	if options.durable && options.node == nil {
		if err := c.forgetNode(ctx); err != nil {
			return err
		}
	}
	// Without a node, Start does not wait for the scheduler, so the scheduler starts after everything else.
	return c.launch(program, scheduler(options.noNode))
}

// waitComplete waits until the controllers work. If they don't, the cluster is stopped.
func (c *Cluster) waitComplete(ctx context.Context) (*Cluster, error) {
	var err error
	select {
	case <-c.working:
		err = c.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Stop()
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	return c, nil
}

// Failed returns why the controllers don't work, if that is known by now.
func (c *Cluster) Failed() error {
	select {
	case <-c.working:
		if c.err != nil {
			return fmt.Errorf("starting the controllers of a cluster: %w", c.err)
		}
	default:
	}
	return nil
}

// launch starts programs of the control plane. The output of each is written to a log file with its name.
func (c *Cluster) launch(program *multicall.Program, components ...component) error {
	if err := openfiles.Check(); err != nil {
		return err
	}
	for _, component := range components {
		if err := c.launchOne(program, component); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) launchOne(program *multicall.Program, component component) error {
	log, err := os.OpenFile(c.log(component.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("creating the log of %s: %w", component.name, err)
	}
	defer log.Close()
	p, err := c.scope.Start(process.Spec{
		Name: component.name, Path: program.Path, Args: append([]string{component.name}, component.flags...),
		Env: append(environment(), component.env...), Stdout: log, Stderr: log,
	})
	if err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.processes = append(c.processes, p)
	return nil
}

func (c *Cluster) log(component string) string { return filepath.Join(c.Dir, component+".log") }

// Config returns an administrator's access to the cluster. Each call returns a copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Host returns the API server's URL.
func (c *Cluster) Host() string { return c.config.Host }

// PIDs returns the process numbers of the control plane, for measurements.
func (c *Cluster) PIDs() map[string]int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	pids := map[string]int{}
	for _, p := range c.processes {
		pids[p.Name] = p.PID()
	}
	return pids
}

// died returns the name of a program of the cluster that has ended.
func (c *Cluster) died() (name string, dead bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, p := range c.processes {
		select {
		case <-p.Done():
			return p.Name, true
		default:
		}
	}
	return "", false
}

// Stop kills the cluster's processes and removes its folder. The cluster's data is lost anyway, so Stop does not wait
// for a graceful end.
func (c *Cluster) Stop() error {
	c.end()
	<-c.working
	if c.port != nil {
		c.port.Release()
	}
	return c.scope.Close()
}
