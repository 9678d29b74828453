// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package own

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/local"
)

// Pool lends control planes to runs that test the grader and not a student's submission, such as runs of mutants. Such
// a run takes the control plane of an earlier one, which is reset to its initial state. A reset takes one second.
// Starting a control plane takes three seconds, and five seconds of processor time.
// (docs/decisions/0021-mutants-share-a-control-plane.md)
type Pool struct {
	start    func(context.Context) (*embedded.Cluster, error)
	baseline func(context.Context, *existing.Cluster) (*existing.Baseline, error)
	stage    func(*embedded.Cluster, *stage.Cluster) (stage.Stage, error)

	mutex sync.Mutex
	free  []*lent
}

// NewPool returns an empty pool. It starts as many control planes as are lent at the same time.
func NewPool(program *multicall.Program) *Pool {
	return &Pool{
		start:    func(ctx context.Context) (*embedded.Cluster, error) { return embedded.Start(ctx, program) },
		baseline: existing.NewBaseline,
		stage: func(lent *embedded.Cluster, described *stage.Cluster) (stage.Stage, error) {
			return local.New(described, local.ByEgress(lent.Egress)), nil
		},
	}
}

// NewPoolOfNodes returns a pool of clusters in which Pods run. start starts a cluster with everything that every run is
// to find there. on returns a run's stage at a cluster that is lent. Stopping that stage ends only the run's part of
// the cluster.
func NewPoolOfNodes(
	start func(context.Context) (*embedded.Cluster, error),
	on func(*embedded.Cluster, *stage.Cluster) (stage.Stage, error),
) *Pool {
	return &Pool{start: start, baseline: existing.NewBaselineWithPods, stage: on}
}

// Lease lends a control plane to runs that follow one another. Return gives it back.
type Lease struct {
	pool *Pool
	lent *lent
}

// Lease begins a lease. Nothing is started before the first run.
func (p *Pool) Lease() *Lease { return &Lease{pool: p} }

// lent is a control plane of the pool.
type lent struct {
	*embedded.Cluster
	baseline *existing.Baseline
	used     bool
	recorded int64 // bytes of the audit logs of earlier runs
}

const (
	// restoreTimeout is the time limit for a reset, which takes a second, or several if Pods have to end. A control plane
	// that is not reset by then is stopped.
	restoreTimeout = 20 * time.Second
	// recordedLimit is the maximum size of all audit logs of one control plane, in bytes. At 100 MB the API server begins
	// another file.
	recordedLimit = 50 << 20
)

// Start is a stage.Start. It returns a control plane in which no object of another run is left.
func (l *Lease) Start(ctx context.Context, _ func(string)) (stage.Stage, error) {
	if l.lent == nil {
		l.lent = l.pool.take()
	}
	if l.lent != nil && l.lent.used {
		if err := l.lent.restore(ctx); err != nil {
			if err := l.stop(); err != nil {
				return nil, err
			}
		}
	}
	if l.lent == nil {
		var err error
		if l.lent, err = l.pool.newLent(ctx); err != nil {
			return nil, err
		}
	}
	l.lent.used = true
	cluster := Describe(l.lent.Cluster)
	cluster.Stop = func() error { return nil } // other parts of the run may not have ended yet
	return l.pool.stage(l.lent.Cluster, cluster)
}

// Return gives the control plane back. The runs must be over.
func (l *Lease) Return() {
	if l.lent == nil {
		return
	}
	l.pool.mutex.Lock()
	defer l.pool.mutex.Unlock()
	l.pool.free = append(l.pool.free, l.lent)
	l.lent = nil
}

func (l *Lease) stop() error {
	stopped := l.lent
	l.lent = nil
	return stopped.Stop()
}

func (p *Pool) take() *lent {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return nil
	}
	taken := p.free[last]
	p.free = p.free[:last]
	return taken
}

// Close stops the control planes. None may still be lent.
func (p *Pool) Close() (err error) {
	for one := p.take(); one != nil; one = p.take() {
		err = errors.Join(err, one.Stop())
	}
	return err
}

func (p *Pool) newLent(ctx context.Context) (*lent, error) {
	cluster, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	opened, err := existing.Open(ctx, cluster.Kubeconfig, embedded.Context)
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	baseline, err := p.baseline(ctx, opened)
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return &lent{Cluster: cluster, baseline: baseline}, nil
}

// restore removes the objects of an earlier run, and its audit log.
func (l *lent) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, restoreTimeout, fmt.Errorf("it took longer than %s", restoreTimeout))
	defer cancel()
	if err := l.baseline.Restore(ctx); err != nil {
		return err
	}
	log, err := os.Stat(l.AuditLog)
	if err != nil {
		return fmt.Errorf("reading the size of the audit log: %w", err)
	}
	if l.recorded += log.Size(); l.recorded > recordedLimit {
		return errors.New("its audit log is too large")
	}
	// The API server has opened the file for appending.
	if err := os.Truncate(l.AuditLog, 0); err != nil {
		return fmt.Errorf("emptying the audit log: %w", err)
	}
	return nil
}
