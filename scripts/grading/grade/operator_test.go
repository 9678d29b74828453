// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/stage"
)

// census counts the running operators, and records their largest number.
type census struct {
	mutex      sync.Mutex
	runs, most int
}

func (c *census) add(n int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.runs += n
	c.most = max(c.most, c.runs)
}

// slowToEnd is an instance that takes its time to end.
type slowToEnd struct {
	*census
	fails error
	done  chan struct{}
}

func (s *slowToEnd) Done() <-chan struct{} { return s.done }
func (s *slowToEnd) Err() error            { return nil }
func (s *slowToEnd) Kill() error           { return s.Stop(0) }

func (s *slowToEnd) Stop(time.Duration) error {
	<-time.After(5 * time.Millisecond)
	s.add(-1)
	close(s.done)
	return s.fails
}

// newSlow returns an operator whose instances are slow to end, or can't be ended.
func newSlow(t *testing.T, fails error) (*operator, *census) {
	t.Helper()
	links := &connection{injector: faults.New(nil)}
	t.Cleanup(links.close)
	all := &census{}
	// The cluster is shared, and a run does not touch its Leases.
	s := &subject{connection: links, cluster: &stage.Cluster{Shared: true}}
	o, err := newOperator(s, slowLauncher{census: all, fails: fails}, filepath.Join(t.TempDir(), "operator.log"))
	if err != nil {
		t.Fatal(err)
	}
	return o, all
}

// slowLauncher starts such instances.
type slowLauncher struct {
	stage.Operator
	*census
	fails error
}

func (p slowLauncher) Start(io.Writer) (stage.Instance, error) {
	p.add(1)
	return &slowToEnd{census: p.census, fails: p.fails, done: make(chan struct{})}, nil
}

// A fault kills the operator while one check stops it and another check starts it. There is never more than one.
func TestOneOperatorAtATime(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	o, all := newSlow(t, nil)
	var group sync.WaitGroup
	for range 20 {
		for _, change := range []func() error{
			o.start, o.restart, func() error { return o.stop(stage.StopGrace) }, func() error { return o.stop(0) },
		} {
			group.Go(func() {
				if err := change(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	o.close()
	if all.most != 1 {
		t.Errorf("%d operators ran at the same time", all.most)
	}
	for _, entry := range o.injector.Log() {
		if entry.Verb != "started" && entry.Verb != "stopped" && entry.Verb != "killed" {
			t.Errorf("the log records that the operator was %s", entry.Verb)
		}
	}
}

func TestFailedKillIsNotLogged(t *testing.T) {
	t.Parallel()
	o, _ := newSlow(t, errors.New("no answer"))
	if err := o.start(); err != nil {
		t.Fatal(err)
	}
	if err := o.stop(0); err == nil || err.Error() != "the operator could not be killed: no answer" {
		t.Errorf("stop() error = %v", err)
	}
	for _, entry := range o.injector.Log() {
		if strings.Contains(entry.Verb, "killed") {
			t.Error("the log records that the operator was killed")
		}
	}
}

// adjustable is a launcher whose program has one flag. It records the flags with which the program was started.
type adjustable struct {
	slowLauncher
	started *[][]string
}

func (adjustable) HasFlag(flag string) bool { return flag == "leader-elect" }

func (p adjustable) StartWith(log io.Writer, flags ...string) (stage.Instance, error) {
	*p.started = append(*p.started, flags)
	return p.Start(log)
}

// Flags apply until the operator is stopped, even if it crashes. A flag that its program does not have would end the
// program, so it is refused.
func TestStartWithFlags(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	o, all := newSlow(t, nil)
	var started [][]string
	o.launcher = adjustable{slowLauncher{census: all}, &started}
	unknown := protocol.Start{Flags: []string{"--leader-elect", "--namespace=herd"}}
	if err := o.startAs(unknown); !errors.Is(err, errNoSuchFlag) || !strings.Contains(err.Error(), "--namespace") {
		t.Errorf("startAs() with an unknown flag: %v", err)
	}
	for _, do := range []func() error{
		func() error { return o.startAs(protocol.Start{Flags: []string{"--leader-elect=true"}}) }, o.restart,
		func() error { return o.stop(stage.StopGrace) }, o.start, o.restart,
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	o.close()
	if len(started) != 2 || started[0][0] != "--leader-elect=true" || started[1][0] != "--leader-elect=true" {
		t.Errorf("started with the flags %q, want them only at the first start and after the crash", started)
	}
	o, _ = newSlow(t, nil)
	if err := o.startAs(protocol.Start{Flags: []string{"--leader-elect"}}); !errors.Is(err, errNotAdjustable) {
		t.Errorf("startAs() of an operator with fixed flags: %v", err)
	}
}
