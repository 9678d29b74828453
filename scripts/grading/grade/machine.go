// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

const (
	// stallTick is how often a run checks whether it was stalled.
	stallTick = 100 * time.Millisecond
	// stallTolerated is how late a tick may be. On a busy machine, a tick is late by some tenths of a second. A machine
	// that was paused, by `docker pause` or SIGSTOP, or whose hypervisor runs other machines, has taken this time from
	// the operator, too, while leases and timeouts expire.
	stallTolerated = 3 * time.Second
	// usageInterval is how often the grader reads how long it ran and how long it waited for a processor.
	usageInterval = time.Second
	// starvedFactor is the ratio of waiting to running from which the grader counts as starved. All requests of an
	// operator pass through the grader, so if the grader is starved, so are the requests. With five runs at once on two
	// cores, it waits twice as long as it runs. With the unit tests in addition, it waits twelve times as long, and next
	// to 20 programs that compute, 300 times.
	starvedFactor = 30
	// starvedLeast is the least time that it must have waited, so that a moment of starvation does not count.
	starvedLeast = 3 * time.Second
)

// machine measures what this machine supplies to a run. watchMachine starts the measurement.
type machine struct {
	end, ended chan struct{}

	mutex sync.Mutex
	// longest is the longest stall, and given what the grader was supplied since the run began.
	longest time.Duration
	given   supply
	// cut is true if a part of the submission was ended before it had as much time as on a quiet machine.
	cut bool
}

// supply is how long the threads of the grader ran, and how long they waited for a processor, each summed up.
type supply struct{ ran, waited time.Duration }

func watchMachine() *machine {
	m := &machine{end: make(chan struct{}), ended: make(chan struct{})}
	// The time before the goroutine first runs counts, too.
	go m.watch(time.Now(), ownUsage(), suspended)
	return m
}

// watch measures from a moment at which the usage was this. suspended returns how long the machine was suspended
// since it booted. The clock of timers stops during a suspension, but creation timestamps, leases and tokens continue
// to age.
func (m *machine) watch(began time.Time, before protocol.Usage, suspended func() time.Duration) {
	defer close(m.ended)
	slept := suspended()
	// A ticker would drop the ticks for which it is late.
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

// plus adds what was used between two readings. The usage of a thread that has ended is missing from the second one.
func (s supply) plus(before, now protocol.Usage) supply {
	seconds := func(now, before float64) time.Duration {
		return time.Duration(max(0, now-before) * float64(time.Second))
	}
	return supply{ran: s.ran + seconds(now.CPU, before.CPU), waited: s.waited + seconds(now.Waited, before.Waited)}
}

// since is what was supplied since an earlier moment.
func (s supply) since(earlier supply) supply {
	return supply{ran: s.ran - earlier.ran, waited: s.waited - earlier.waited}
}

// starved reports whether the machine was so busy that it is unknown whether the operator or the machine was too
// slow.
func (s supply) starved() bool { return s.waited >= starvedLeast && s.waited >= starvedFactor*s.ran }

// share is the part of a processor that a process gets if it needs one: 1 on a quiet machine, and also if nothing is
// known.
func (s supply) share() float64 {
	if s.waited < starvedLeast {
		return 1
	}
	return float64(s.ran) / float64(s.ran+s.waited)
}

// stopwatch starts to measure time by what the machine supplies. elapsed returns how much time a quiet machine would
// have needed to supply as much since then.
func (m *machine) stopwatch() (elapsed func() time.Duration) {
	began, given := time.Now(), m.now()
	return func() time.Duration { return time.Duration(m.now().since(given).share() * float64(time.Since(began))) }
}

// after returns a channel that is closed when the counted time reaches the limit, unless the context ends before.
func (m *machine) after(ctx context.Context, limit time.Duration) <-chan struct{} {
	over, elapsed := make(chan struct{}), m.stopwatch()
	go func() {
		for elapsed() < limit {
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

// longestWait is how many times as long as on a quiet machine anything may take on a busy one.
const longestWait = 5

// withTimeout is context.WithTimeoutCause with counted time. It ends after longestWait times the limit at the latest,
// and then the run is cut short.
func (m *machine) withTimeout(
	parent context.Context, limit time.Duration, cause error,
) (context.Context, context.CancelFunc) {
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

// now is what was supplied until a second ago at the latest. It is always zero on systems without schedstat, and if
// nothing is measured.
func (m *machine) now() supply {
	if m == nil {
		return supply{}
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.given
}

// cutShort records that a part of the submission was ended before it had as much time as on a quiet machine.
func (m *machine) cutShort() {
	if m == nil {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.cut = true
}

// wasCut reports whether cutShort was called since the last call of wasCut.
func (m *machine) wasCut() (was bool) {
	if m == nil {
		return false
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	was, m.cut = m.cut, false
	return was
}

// stop ends the measurement, and returns the longest stall.
func (m *machine) stop() time.Duration {
	close(m.end)
	<-m.ended
	return m.longest
}

// reconsider replaces a verdict that the machine may have caused: the machine stopped the run, or starved it during a
// check that failed, and the result is below full marks and depends on time. Full marks are not in doubt, and neither
// is a submission that does not compile.
func (r *run) reconsider(err error, stalled time.Duration) error {
	var problem, remedy string
	switch {
	case stalled >= stallTolerated:
		problem, remedy = fmt.Sprintf("stopped for %.1f s in the middle of the run", stalled.Seconds()), "grade it again"
	case r.starved != supply{}:
		problem = fmt.Sprintf("was too busy while the operator was tested: "+
			"the grader waited for a processor for %.0f s, and ran for %.1f s",
			r.starved.waited.Seconds(), r.starved.ran.Seconds())
		remedy = "end other programs, and grade it again"
	default:
		return err
	}
	v, isVerdict := errors.AsType[*verdict](err)
	switch {
	case err != nil && !isVerdict:
		return err
	case isVerdict && slices.Contains([]report.Outcome{report.NotBuilt, report.NotGenerated, report.Error}, v.outcome):
		return err
	case err == nil && !r.failed():
		return nil
	}
	return &verdict{outcome: report.Error, machine: true, reason: fmt.Sprintf("this machine %s, "+
		"so it is unknown whether the operator or the machine was too slow: %s", problem, remedy)}
}

// failed reports whether a check failed, or a schedule of a torture.
func (r *run) failed() bool {
	return r.torture != nil && r.torture.Failure != nil ||
		slices.ContainsFunc(r.report.Checks, func(c report.Check) bool { return c.Status == report.Failed })
}
