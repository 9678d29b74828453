// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// errClosed is the error with which requests end and new ones fail after Close.
var errClosed = errors.New("the fault injector is closed")

// Injector proxies the requests of one operator to the services that it calls. All methods are safe for concurrent use.
type Injector struct {
	// Address is the IP address of this machine at which the proxies listen. Default: 127.0.0.1. Set it before the first
	// proxy is created.
	Address string
	// AdvertiseAddress is the IP address by which the operator reaches them. Default: Address.
	AdvertiseAddress string
	// API wraps the transport to the API server. A request passes through it after its fault was applied. Default: no
	// wrapper. Set it before ProxyAPI is called.
	API func(http.RoundTripper) http.RoundTripper

	kill        func() error
	record      *record
	credentials *credentials

	// ctx ends with Close, and so does everything that was started with it. Close waits for running.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	// killing is held while the operator is killed and started, one kill at a time.
	killing sync.Mutex

	mutex       sync.Mutex
	closed      bool
	stops       []func()
	transports  []*http.Transport
	plan        *plan
	counts      map[counterKey]int
	connections map[*connection]bool
	watches     map[*watch]bool
	refusing    bool
}

// counterKey is the key of a counter: a class of requests, and a service or "" for all services.
type counterKey struct {
	class   Class
	service string
}

// plan is a schedule from Arm to Disarm.
type plan struct {
	schedule Schedule
	// over is closed by Disarm, which releases everything that is held back.
	over chan struct{}
	// kills counts the kills of this plan that are in progress. A kill is added under the injector's mutex, while the plan
	// is the injector's.
	kills sync.WaitGroup
	// stale is how long watch events are held back at present.
	stale time.Duration
}

func newPlan(schedule Schedule) *plan { return &plan{schedule: schedule, over: make(chan struct{})} }

// New returns an injector without faults. kill must kill the operator (SIGKILL), wait until it is dead and start it
// again. It is called once for each fault that kills, never twice at the same time, and logs what it did with Note. It
// may not call Arm, Disarm or Close, because these wait for it. If kill is nil, no such fault can be armed.
func New(kill func() error) *Injector {
	ctx, cancel := context.WithCancel(context.Background())
	return &Injector{
		kill: kill, record: newRecord(), credentials: newCredentials(), ctx: ctx, cancel: cancel,
		plan: newPlan(Schedule{}), counts: map[counterKey]int{},
		connections: map[*connection]bool{}, watches: map[*watch]bool{},
	}
}

// Arm starts a schedule, and counts requests from now on. A schedule that is armed already is disarmed. If a fault
// can't be injected, Arm returns an error and arms nothing.
func (i *Injector) Arm(schedule Schedule) error {
	if err := schedule.Validate(); err != nil {
		return err
	}
	if j := slices.IndexFunc(schedule.Faults, func(f Fault) bool { return f.Kind.Kills() }); j >= 0 && i.kill == nil {
		return fmt.Errorf("%s: there is no operator to kill", schedule.Faults[j])
	}
	schedule.Faults = slices.Clone(schedule.Faults)
	i.replace(newPlan(schedule), true)
	return nil
}

// Disarm ends the schedule. No more faults are injected. Slow answers and watch events that are held back are
// delivered, and the connections of requests that get no answer are cut. If the operator is being killed, Disarm waits
// until it was started again. Requests are still counted.
func (i *Injector) Disarm() { i.replace(newPlan(Schedule{}), false) }

func (i *Injector) replace(next *plan, recount bool) {
	i.mutex.Lock()
	last := i.plan
	i.plan = next
	if recount {
		clear(i.counts)
	}
	close(last.over)
	i.mutex.Unlock()
	last.kills.Wait()
}

// Log returns what was logged so far, in the order of arrival: at most the LogLimit newest entries.
func (i *Injector) Log() []Entry { return i.record.all() }

// Note logs what happened to the operator: "killed", "started".
func (i *Injector) Note(verb string) { i.record.add(Entry{Service: Operator, Verb: verb}) }

// Close ends the proxies, all requests and all connections, whatever state they are in, and waits until all of them
// have ended. The log can still be read.
func (i *Injector) Close() error {
	i.mutex.Lock()
	i.closed = true
	stops, transports := i.stops, i.transports
	i.mutex.Unlock()
	i.cancel()
	i.Disarm()
	for _, stop := range stops {
		stop()
	}
	i.running.Wait()
	for _, transport := range transports {
		transport.CloseIdleConnections() // all of them are idle now
	}
	return nil
}

// begin makes Close wait until the returned function is called. Close calls stop, if there is one, to hasten that. If
// the injector is already closed, ok is false.
func (i *Injector) begin(stop func()) (end func(), ok bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.closed {
		return nil, false
	}
	if stop != nil {
		i.stops = append(i.stops, stop)
	}
	i.running.Add(1)
	return i.running.Done, true
}

// count returns the number of a request, and its fault, or nil if it has none. The injector is locked.
func (i *Injector) count(asked *request) (number int, fault *Fault, during *plan) {
	class, service := asked.entry.Class(), asked.entry.Service
	i.counts[counterKey{class, ""}]++
	i.counts[counterKey{class, service}]++
	for _, exact := range []bool{true, false} {
		for j := range i.plan.schedule.Faults {
			f := &i.plan.schedule.Faults[j]
			if f.Class != class || (f.Service != "" && f.Service != service) || (f.At != 0) != exact {
				continue
			}
			if applies := f.Kind.behaviour().applies; applies != nil && !applies(asked) {
				continue
			}
			if !exact || f.At == i.counts[counterKey{class, f.Service}] {
				return i.counts[counterKey{class, ""}], f, i.plan
			}
		}
	}
	return i.counts[counterKey{class, ""}], nil, i.plan
}

// delay returns how long watch events are held back at present, and a channel that is closed when that ends.
func (i *Injector) delay() (time.Duration, <-chan struct{}) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.plan.stale, i.plan.over
}

// endWatches ends all open watches with an error.
func (i *Injector) endWatches(err error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for w := range i.watches {
		w.end(err)
	}
}

// markForKill marks all connections of the operator, which is about to be killed. There may be none. Requests on a
// marked connection are not executed, as if the operator were dead already. If ok is true, the caller must kill the
// operator. It is false if the injector is closed, or if the operator that sent the request has been marked for another
// request in the meantime. asked is the connection of the request that causes the kill, or nil if no request does. The
// caller holds the mutex.
func (i *Injector) markForKill(during *plan, asked *connection) (marked []*connection, ok bool) {
	if i.closed || (asked != nil && asked.marked) {
		return nil, false
	}
	for c := range i.connections {
		if !c.marked {
			c.marked = true
			marked = append(marked, c)
		}
	}
	during.kills.Add(1)
	return marked, true
}

// Refuse refuses all requests of the operator, on existing connections and on new ones. It is for an operator that
// takes a moment to die, and might connect again in the meantime. Admit ends it.
func (i *Injector) Refuse() {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.refusing = true
	for c := range i.connections {
		c.marked = true
	}
}

// Admit accepts new connections again, as those of another operator. It closes the connections that were refused.
func (i *Injector) Admit() {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.refusing = false
	for c := range i.connections {
		if c.marked {
			c.end()
		}
	}
}

// killOperator kills the operator, whose connections are marked, and starts it again.
func (i *Injector) killOperator(during *plan, marked []*connection) {
	defer during.kills.Done()
	i.killing.Lock()
	defer i.killing.Unlock()
	if err := i.kill(); err != nil {
		i.record.add(Entry{Service: Operator, Verb: "not restarted", Message: err.Error()})
	}
	// The connections normally end with the operator. If it has handed them to another process, they end now.
	for _, c := range marked {
		c.end()
	}
}
