// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

const (
	// stallTick is how often a run looks whether the machine still runs it.
	stallTick = 100 * time.Millisecond
	// stallTolerated is how late a tick may be. A busy machine is late by some tenths of a second. One that was paused,
	// as `docker pause` and SIGSTOP do, or whose hypervisor runs others, has taken this time from the operator, too,
	// and leases and time-outs run out meanwhile.
	stallTolerated = 3 * time.Second
	// usageInterval is how often the grader reads for how long it ran and waited for a processor.
	usageInterval = time.Second
	// starvedFactor is how many times as long as it ran the grader may have waited for a processor. All requests of an
	// operator pass through the grader, so it is starved if they are. With five runs at once on two cores it waits twice
	// as long as it runs, with the unit tests besides twelve times, and among 20 programs that compute 300 times.
	starvedFactor = 30
	// starvedLeast is for how long it must have waited, so that a moment of starvation does not count.
	starvedLeast = 3 * time.Second
)

// machine is what this machine gives to a run. Start watching with watchMachine.
type machine struct {
	end, ended chan struct{}

	mutex sync.Mutex
	// longest is the longest stall, and given what the grader has had since the run began.
	longest time.Duration
	given   supply
	// cut says that something of the submission was ended before it had the time that it has on a quiet machine.
	cut bool
}

// supply is for how long the threads of the grader ran, and for how long they waited for a processor, both summed up.
type supply struct{ ran, waited time.Duration }

func watchMachine() *machine {
	m := &machine{end: make(chan struct{}), ended: make(chan struct{})}
	// The time before the goroutine first runs counts, too.
	go m.watch(time.Now(), ownUsage(), suspended)
	return m
}

// watch watches from a moment on, at which the usage was this. suspended is for how long the machine was suspended
// since it booted: the clock by which timers run stands still then, and creation timestamps, leases and tokens go on.
func (m *machine) watch(began time.Time, before protocol.Usage, suspended func() time.Duration) {
	defer close(m.ended)
	slept := suspended()
	// No ticker: that would drop the ticks for which it is late.
	for last, read := began, began; ; {
		over := false
		select {
		case <-m.end:
			over = true
		case <-time.After(stallTick):
		}
		now, sleeps := time.Now(), suspended()
		m.mutex.Lock()
		m.longest = max(m.longest, now.Sub(last)-stallTick+sleeps-slept)
		last, slept = now, sleeps
		m.mutex.Unlock()
		if over {
			return
		}
		if now.Sub(read) >= usageInterval {
			used := ownUsage()
			m.mutex.Lock()
			m.given = m.given.plus(before, used)
			m.mutex.Unlock()
			before, read = used, now
		}
	}
}

// plus adds what was used between two readings. The share of a thread that has ended is missing in the second one.
func (s supply) plus(before, now protocol.Usage) supply {
	seconds := func(now, before float64) time.Duration {
		return time.Duration(max(0, now-before) * float64(time.Second))
	}
	return supply{ran: s.ran + seconds(now.CPU, before.CPU), waited: s.waited + seconds(now.Waited, before.Waited)}
}

// since is what was given since an earlier moment.
func (s supply) since(earlier supply) supply {
	return supply{ran: s.ran - earlier.ran, waited: s.waited - earlier.waited}
}

// starved reports whether the machine ran so much else that it is unknown whether the operator or the machine was too
// slow.
func (s supply) starved() bool { return s.waited >= starvedLeast && s.waited >= starvedFactor*s.ran }

// share is the part of a processor that a process gets if it wants one: 1 on a quiet machine, and also where nothing is
// known.
func (s supply) share() float64 {
	if s.waited < starvedLeast {
		return 1
	}
	return float64(s.ran) / float64(s.ran+s.waited)
}

// counted begins to count time by what the machine gives: had is how much of it something has had by now that would
// have run since then on a quiet machine.
func (m *machine) counted() (had func() time.Duration) {
	began, given := time.Now(), m.now()
	return func() time.Duration { return time.Duration(m.now().since(given).share() * float64(time.Since(began))) }
}

// after is closed when something has had a time that is counted, unless the context ends before.
func (m *machine) after(ctx context.Context, limit time.Duration) <-chan struct{} {
	over, had := make(chan struct{}), m.counted()
	go func() {
		for had() < limit {
			select {
			case <-ctx.Done():
				return
			case <-time.After(min(usageInterval, limit)):
			}
		}
		close(over)
	}()
	return over
}

// longestWait is how many times as long as on a quiet machine something may take on a busy one.
const longestWait = 5

// withTimeout is context.WithTimeoutCause for a time that is counted. It ends after longestWait times as much at the
// latest, and then the run is cut short.
func (m *machine) withTimeout(parent context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-m.after(ctx, limit):
		case <-time.After(longestWait * limit):
			m.cutShort()
		}
		cancel(cause)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// now is what was given until a second ago at the latest. It is always zero on systems without schedstat, and if
// nothing is watched.
func (m *machine) now() supply {
	if m == nil {
		return supply{}
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.given
}

// cutShort remembers that something of the submission was ended before it had the time that it has on a quiet machine.
func (m *machine) cutShort() {
	if m == nil {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.cut = true
}

// wasCut reports it once.
func (m *machine) wasCut() (was bool) {
	if m == nil {
		return false
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	was, m.cut = m.cut, false
	return was
}

// stop ends the watch, and returns the longest stall.
func (m *machine) stop() time.Duration {
	close(m.end)
	<-m.ended
	return m.longest
}

// doubt takes back a verdict that may be the machine's doing: it stopped the run, or starved it during a check that
// failed, and something came of it that is less than full marks and that time decides. Full marks are no doubt, and
// neither is what does not compile.
func (r *run) doubt(err error, stalled time.Duration) error {
	var problem, remedy string
	switch {
	case stalled >= stallTolerated:
		problem, remedy = fmt.Sprintf("stopped for %.1f s in the middle of the run", stalled.Seconds()), "grade it again"
	case r.starved != supply{}:
		problem = fmt.Sprintf("was too busy while the operator was tested: the grader waited for a processor for %.0f s, and ran for %.1f s",
			r.starved.waited.Seconds(), r.starved.ran.Seconds())
		remedy = "end other programs, and grade it again"
	default:
		return err
	}
	v, isVerdict := errors.AsType[*verdict](err)
	failed := r.torture != nil && r.torture.Failure != nil ||
		slices.ContainsFunc(r.report.Checks, func(c report.Check) bool { return c.Status == report.Failed })
	switch {
	case err != nil && !isVerdict:
		return err
	case isVerdict && slices.Contains([]report.Outcome{report.NotBuilt, report.NotGenerated, report.Error}, v.outcome):
		return err
	case err == nil && !failed:
		return nil
	}
	return &verdict{outcome: report.Error, reason: fmt.Sprintf(
		machinePrefix+"%s, so it is unknown whether the operator or the machine was too slow: %s", problem, remedy)}
}

// machinePrefix begins the reason of a run that came to no grade because of the machine.
const machinePrefix = "this machine "

// IsMachineError reports whether a run has no grade because the machine stopped it, or was too busy.
func IsMachineError(r *report.Report) bool {
	return r.Outcome == report.Error && strings.HasPrefix(r.Reason, machinePrefix)
}
