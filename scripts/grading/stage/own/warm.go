// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package own

import (
	"context"

	"lva.io/operators/clusters/embedded"
)

// Warm is a cluster that is started before it is needed: while a student types, or while another submission is
// graded.
type Warm struct {
	cancel  context.CancelFunc
	started chan started
}

type started struct {
	cluster *embedded.Cluster
	err     error
}

// NewWarm starts a cluster in the background.
func NewWarm(ctx context.Context, start func(context.Context) (*embedded.Cluster, error)) *Warm {
	ctx, cancel := context.WithCancel(ctx)
	w := &Warm{cancel: cancel, started: make(chan started, 1)}
	go func() {
		cluster, err := start(ctx)
		w.started <- started{cluster, err}
	}()
	return w
}

// Take waits for the cluster and hands it over: the caller stops it. It may be called once.
func (w *Warm) Take(ctx context.Context) (*embedded.Cluster, error) {
	select {
	case s := <-w.started:
		close(w.started)
		return s.cluster, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close stops the cluster if it was not taken.
func (w *Warm) Close() {
	w.cancel()
	if s, waiting := <-w.started; waiting && s.cluster != nil {
		_ = s.cluster.Stop()
	}
}
