// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

const (
	// startTimeout is how long an operator may take from its start to its first request, unless Options set another
	// limit.
	startTimeout = 20 * time.Second
	// logLimit is how much an operator may write into its log in a run, in bytes: about what an endless reconcile loop
	// writes in a second.
	logLimit = 8 << 20
	// lastLines is how many lines of the log the report contains.
	lastLines = 20
)

// operator is the submission's program while it is graded. The checks stop and start it.
type operator struct {
	*subject
	launcher stage.Operator
	log      *operatorLog
	machine  *machine
	// gone carries the verdict on an operator that ended by itself, or floods its log.
	gone chan *verdict

	// upgraded is true once the versions that were held back are installed. All checks of the lab itself have run by
	// then.
	upgraded atomic.Bool

	// transition is held while the operator is started or ended, so that only one such change happens at a time.
	transition sync.Mutex

	mutex    sync.Mutex
	instance stage.Instance // nil when it should not run
	// options are the options of the last start that was not caused by a fault. A crashed operator is started with them
	// again.
	options protocol.Start
	// logBegan is the size of the log, in bytes, at the last start.
	logBegan int64
	// killsBefore is how many processes the kernel had killed for lack of memory by then.
	killsBefore int
	// failure is how the last instance ended. It is nil for exit code 0.
	failure error
}

// newOperator returns an operator that does not run yet, and logs into a file. From now on, a fault can crash it.
func newOperator(s *subject, launcher stage.Operator, logFile string) (*operator, error) {
	file, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("creating the operator's log: %w", err)
	}
	o := &operator{subject: s, launcher: launcher, gone: make(chan *verdict, 1)}
	o.log = &operatorLog{file: file, flooded: func() {
		o.report(&verdict{outcome: report.Flooded, reason: fmt.Sprintf(
			"it wrote more than %d MB into its log"+repeated, logLimit>>20)})
	}}
	s.crash = o.restart
	return o, nil
}

// repeated describes the cause of most floods of the log.
const repeated = ": it does the same thing over and over"

// report sends the reason why the operator can no longer be graded. Only the first reason counts.
func (o *operator) report(v *verdict) {
	select {
	case o.gone <- v:
	default:
	}
}

// start starts the operator if it does not run.
func (o *operator) start() error { return o.startAs(protocol.Start{}) }

// Errors of startAs.
var (
	errNoSuchFlag    = errors.New("the operator's program has no such flag")
	errNotAdjustable = errors.New("the flags of this operator are set by its Deployment")
)

// startAs starts the operator with other options if it is not running.
func (o *operator) startAs(options protocol.Start) error {
	if len(options.Flags) > 0 {
		adjustable, ok := o.launcher.(stage.Adjustable)
		if !ok {
			return errNotAdjustable
		}
		for _, flag := range options.Flags {
			name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
			if !adjustable.HasFlag(name) {
				return fmt.Errorf("%w: --%s", errNoSuchFlag, name)
			}
		}
	}
	o.transition.Lock()
	defer o.transition.Unlock()
	o.mutex.Lock()
	if o.instance == nil {
		o.options = options
	}
	o.mutex.Unlock()
	return o.startLocked()
}

// startLocked starts the operator for a caller that holds transition.
func (o *operator) startLocked() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.instance != nil {
		return nil
	}
	o.logBegan = o.log.size()
	if !o.options.KeepLeases {
		if err := o.releaseLeases(); err != nil {
			return err
		}
	}
	kills := process.OutOfMemoryKills()
	started, err := o.launch()
	if err != nil {
		return err
	}
	o.instance, o.killsBefore = started, kills
	o.injector.Note("started")
	go o.watch(started)
	return nil
}

// launch starts the operator with the requested flags.
func (o *operator) launch() (stage.Instance, error) {
	if adjustable, ok := o.launcher.(stage.Adjustable); ok && len(o.options.Flags) > 0 {
		return adjustable.StartWith(o.log, o.options.Flags...)
	}
	return o.launcher.Start(o.log)
}

// watch reports an operator that ends although no check stopped it.
func (o *operator) watch(p stage.Instance) {
	<-p.Done()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.instance == p { // otherwise it was stopped, and another may run by now
		o.instance = nil
		fault := o.portTaken() // a manager may begin its work before it listens
		if fault == nil {
			fault = exhausted(strings.Join(o.log.last(allLines), "\n"), p.Err(), process.OutOfMemoryKills()-o.killsBefore,
				append(o.builder.Writable(), o.cluster.AuditLog))
		}
		if fault != nil {
			o.report(fault)
			return
		}
		ending := stage.Ending(p.Err())
		o.report(&verdict{outcome: report.Crashed, reason: "it ended by itself: " + ending, ending: ending})
	}
}

// stop asks the operator to end, and kills it if it has not ended within grace. If grace is 0, stop kills it at once.
func (o *operator) stop(grace time.Duration) error {
	o.transition.Lock()
	defer o.transition.Unlock()
	return o.end(grace)
}

// end is stop for a caller that holds transition.
func (o *operator) end(grace time.Duration) error {
	o.mutex.Lock()
	p := o.instance
	o.instance = nil
	o.mutex.Unlock()
	if p == nil {
		return nil
	}
	end, ended := p.Kill, "killed"
	if grace > 0 {
		end, ended = func() error { return p.Stop(grace) }, "stopped"
	}
	if err := end(); err != nil {
		return fmt.Errorf("the operator could not be %s: %w", ended, err)
	}
	o.mutex.Lock()
	o.failure = p.Err()
	o.mutex.Unlock()
	o.injector.Note(ended)
	return nil
}

// stopped stops the operator and returns how it ended.
func (o *operator) stopped(grace time.Duration) (protocol.Stopped, error) {
	if err := o.stop(grace); err != nil {
		return protocol.Stopped{}, err
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.failure == nil {
		return protocol.Stopped{}, nil
	}
	return protocol.Stopped{Failure: o.failure.Error()}, nil
}

// restart kills the operator and starts it again, as its Deployment would.
func (o *operator) restart() error {
	o.transition.Lock()
	defer o.transition.Unlock()
	if err := o.end(0); err != nil {
		return err
	}
	return o.startLocked()
}

// firstStart starts the operator and waits until it has sent a request: from then on the checks can judge it. A busy
// machine extends the patience by the processor time that it withholds.
func (o *operator) firstStart(ctx context.Context, patience time.Duration) error {
	ctx, cancel := o.machine.withTimeout(ctx, patience, errNoRequest)
	defer cancel()
	log, err := o.cluster.OpenAudit(ctx)
	if err != nil {
		return err
	}
	if err := o.start(); err != nil {
		return err
	}
	if server := o.server(); server != nil {
		return o.firstAnswer(ctx, server, log, patience)
	}
	for {
		changed := log.Changed()
		if err := log.Err(); err != nil {
			return err
		}
		if !log.Last(log.By(o.installed.User()).And(startsWork)).IsZero() {
			return nil
		}
		select {
		case <-changed:
		case v := <-o.gone:
			return o.endedEarly(v, log, patience)
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errNoRequest) {
				if overload := o.tooBusy(patience); overload != nil {
					return overload
				}
				return o.notStarted(log, "", patience)
			}
			return context.Cause(ctx)
		}
	}
}

// firstAnswer waits until an aggregated API server accepts connections. Such a server may send no requests before it
// gets one.
func (o *operator) firstAnswer(ctx context.Context, server stage.Server, log *audit.Log, patience time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, 1)
	go func() { answers <- server.AwaitServing(ctx) }()
	select {
	case err := <-answers:
		if errors.Is(err, errNoRequest) {
			if overload := o.tooBusy(patience); overload != nil {
				return overload
			}
			return &verdict{outcome: report.NotStarted, reason: fmt.Sprintf("it ran for %s and accepts no connections "+
				"on its port: does main listen on the port of its flag --%s?", patience, submission.SecurePortFlag)}
		}
		return err
	case v := <-o.gone:
		return o.endedEarly(v, log, patience)
	}
}

// endedEarly is the verdict on an operator that ended before it began its work.
func (o *operator) endedEarly(v *verdict, log *audit.Log, patience time.Duration) *verdict {
	if v.outcome == report.Crashed {
		return o.notStarted(log, v.ending, patience)
	}
	return v
}

var errNoRequest = errors.New("the operator sent no requests")

// startsWork matches the requests by which an operator begins its work: it lists and watches its resources. The
// checks report whether those requests are allowed.
func startsWork(e audit.Event) bool {
	return (e.Verb == "list" || e.Verb == "watch") && e.Resource != "leases"
}

func (o *operator) lastLogLines() []string { return o.log.last(lastLines) }

func (o *operator) close() {
	o.injector.Disarm() // a pending crash would start it again
	_ = o.stop(0)       // a remaining instance is removed with everything else of the run
	o.log.close()
}

// operatorLog writes the operator's output to a file, up to logLimit.
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
		return len(p), nil // a full pipe would only block it
	}
	return l.file.Write(p)
}

// last returns the last lines that were written.
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
