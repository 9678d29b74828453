// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/submission"
)

const (
	// startTimeout is how long an operator may take from its start to its first request, unless Options say otherwise.
	startTimeout = 20 * time.Second
	// logLimit is how much an operator may write into its log in a run, in bytes: what a reconcile loop that never ends
	// writes in a second.
	logLimit = 8 << 20
	// lastLines of the log go into the report.
	lastLines = 20
)

// operator is the submission's program while it is graded. It is stopped and started by the checks.
type operator struct {
	run   *run
	begin func(log io.Writer) (instance, error)
	log   *operatorLog
	// gone carries the verdict on an operator that ended by itself, or floods its log.
	gone chan *verdict

	// transition is held while the operator is started or ended: one such change begins when the one before is done.
	transition sync.Mutex

	mutex   sync.Mutex
	process instance // nil when it should not run
	// logBegan is how much was in the log when it was started the last time, in bytes.
	logBegan int64
}

// instance is the operator from a start to its end: a process of this machine, or a Pod.
type instance interface {
	// Done is closed when it has ended, and Err says then how.
	Done() <-chan struct{}
	Err() error
	// Stop asks it to end, and ends it after the grace period. Kill ends it at once. Both return when it has ended; an error says that
	// it may not have.
	Stop(grace time.Duration) error
	Kill() error
}

// local is a process of this machine, which can always be ended.
type local struct{ *process.Process }

func (l local) Stop(grace time.Duration) error {
	l.Process.Stop(grace)
	return nil
}

func (l local) Kill() error {
	l.Process.Kill()
	return nil
}

func (r *run) newOperator(begin func(log io.Writer) (instance, error)) (*operator, error) {
	file, err := os.Create(r.OperatorLog)
	if err != nil {
		return nil, fmt.Errorf("making the operator's log: %w", err)
	}
	o := &operator{run: r, begin: begin, gone: make(chan *verdict, 1)}
	o.log = &operatorLog{file: file, flooded: func() {
		o.report(&verdict{outcome: report.Flooded, reason: fmt.Sprintf(
			"it wrote more than %d MB into its log: it does the same thing over and over", logLimit>>20)})
	}}
	return o, nil
}

// report says why the operator can't be graded any more. The first reason counts.
func (o *operator) report(v *verdict) {
	select {
	case o.gone <- v:
	default:
	}
}

// start starts the operator if it does not run.
func (o *operator) start() error {
	o.transition.Lock()
	defer o.transition.Unlock()
	return o.begun()
}

// begun is start for who holds the transition.
func (o *operator) begun() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.process != nil {
		return nil
	}
	o.logBegan = o.log.size()
	if err := o.run.releaseLeases(); err != nil {
		return err
	}
	p, err := o.begin(o.log)
	if err != nil {
		return err
	}
	o.process = p
	o.run.injector.Note("started")
	go o.watch(p)
	return nil
}

// watch reports an operator that ends without having been asked to.
func (o *operator) watch(p instance) {
	<-p.Done()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.process == p { // otherwise it was stopped, and another may run by now
		o.process = nil
		if taken := o.portTaken(); taken != nil { // a manager may have begun its work before it listens
			o.report(taken)
			return
		}
		o.report(&verdict{outcome: report.Crashed, reason: endedByItself + submission.Ending(p.Err())})
	}
}

const endedByItself = "it ended by itself: "

// stop ends the operator: gracefully, or as a power failure does.
func (o *operator) stop(graceful bool) error {
	o.transition.Lock()
	defer o.transition.Unlock()
	return o.end(graceful)
}

// end is stop for who holds the transition.
func (o *operator) end(graceful bool) error {
	o.mutex.Lock()
	p := o.process
	o.process = nil
	o.mutex.Unlock()
	if p == nil {
		return nil
	}
	end, ended := p.Kill, "killed"
	if graceful {
		end, ended = func() error { return p.Stop(submission.StopGrace) }, "stopped"
	}
	if err := end(); err != nil {
		return fmt.Errorf("the operator could not be %s: %w", ended, err)
	}
	o.run.injector.Note(ended)
	return nil
}

// crash is a kill after which the operator is started again, as its Deployment would.
func (o *operator) crash() error {
	o.transition.Lock()
	defer o.transition.Unlock()
	if err := o.end(false); err != nil {
		return err
	}
	return o.begun()
}

// firstStart starts the operator and waits until it has sent a request: from then on the checks can judge it.
func (o *operator) firstStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.run.StartTimeout, errSilent)
	defer cancel()
	log, err := o.run.cluster.openAudit(ctx)
	if err != nil {
		return err
	}
	if err := o.start(); err != nil {
		return err
	}
	for {
		changed := log.Changed()
		if err := log.Err(); err != nil {
			return err
		}
		if !log.Last(log.By(o.run.user).And(begins)).IsZero() {
			return nil
		}
		select {
		case <-changed:
		case v := <-o.gone:
			if v.outcome == report.Crashed {
				v = o.notStarted(log, strings.TrimPrefix(v.reason, endedByItself))
			}
			return v
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errSilent) {
				return o.notStarted(log, "")
			}
			return context.Cause(ctx)
		}
	}
}

var errSilent = errors.New("the operator asked for nothing")

// begins matches the requests by which an operator begins its work: it lists and watches what it is about. That those
// may be forbidden to it is for the checks to say.
func begins(e audit.Event) bool {
	return (e.Verb == "list" || e.Verb == "watch") && e.Resource != "leases"
}

func (o *operator) lastWords() []string { return o.log.last(lastLines) }

func (o *operator) close() {
	o.run.injector.Disarm() // a crash that is under way would start it again
	_ = o.stop(false)       // one that is left is removed with all that the run has made
	o.log.close()
}

// operatorLog is the operator's output: in a file, as much as is allowed.
type operatorLog struct {
	flooded func()

	mutex   sync.Mutex
	file    *os.File
	written int64
}

func (l *operatorLog) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.written += int64(len(p))
	if l.written > logLimit {
		l.flooded()
		return len(p), nil // a full pipe would only hang it
	}
	return l.file.Write(p)
}

// last are the last lines that were written.
func (l *operatorLog) last(lines int) []string {
	const enough = 16 << 10
	l.mutex.Lock()
	defer l.mutex.Unlock()
	size, err := l.file.Seek(0, 2)
	if err != nil || size == 0 {
		return nil
	}
	tail := make([]byte, min(size, enough))
	if _, err := l.file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil
	}
	all := strings.Split(strings.TrimRight(string(tail), "\n"), "\n")
	return all[max(0, len(all)-lines):]
}

func (l *operatorLog) close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.file.Close()
}
