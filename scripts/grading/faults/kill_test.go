// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The program counts from 0 to goal, one write for each number. So the log shows exactly what was done when it died.
func TestProgramKilledAtAWriteContinues(t *testing.T) {
	t.Parallel()
	v := &victim{t: t}
	b := newBench(t, v.kill)
	v.bench = b
	b.create(t, "counter")
	for _, schedule := range Sweep(goal) {
		fault := schedule.Faults[0]
		t.Run(schedule.String(), func(t *testing.T) {
			if err := set(t.Context(), b.direct, b.namespace, "counter", "0"); err != nil {
				t.Fatal(err)
			}
			v.kills = 0
			if err := b.Arm(schedule); err != nil {
				t.Fatal(err)
			}
			first := len(b.Log())
			if err := v.start(); err != nil {
				t.Fatal(err)
			}
			writes := map[Kind]int{KillBefore: goal + 1, KillAfter: goal}[fault.Kind]
			eventually(t, "all is written, and it was killed", func() bool {
				log := b.Log()[first:]
				return b.value(t, "counter") == strconv.Itoa(goal) &&
					slices.ContainsFunc(log, func(e Entry) bool { return e.Write && e.Number == writes && e.Code != 0 }) &&
					slices.ContainsFunc(log, func(e Entry) bool { return e.Verb == "killed" })
			})
			b.Disarm() // waits for the start after the kill
			if err := v.stop(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, entry := range b.Log()[first:] {
				if entry.Write || entry.Service == Operator {
					got = append(got, fmt.Sprintf("%s %d %s", entry.Verb, entry.Code, entry.Fault))
				}
			}
			var want []string
			for n := 1; n <= writes; n++ {
				switch {
				case n == fault.At && fault.Kind == KillBefore:
					want = append(want, "update 0 kill-before", "killed 0 ", "started 0 ")
				case n == fault.At:
					want = append(want, "update 200 kill-after", "killed 0 ", "started 0 ")
				default:
					want = append(want, "update 200 ")
				}
			}
			want = append(append([]string{"started 0 "}, want...), "killed 0 ")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the log (-want +got):\n%s", diff)
			}
			if v.kills != 1 {
				t.Errorf("the program was killed %d times for one fault", v.kills)
			}
		})
	}
}

// killed simulates an operator that is being killed. The test decides when it is dead.
type killed struct {
	begins chan struct{}
	dead   chan error
}

func newKilled() *killed { return &killed{make(chan struct{}, 10), make(chan error)} }

func (k *killed) kill() error {
	k.begins <- struct{}{}
	return <-k.dead
}

func TestRequestsOfADyingOperatorHaveNoEffect(t *testing.T) {
	t.Parallel()
	operator := newKilled()
	b := newBench(t, operator.kill)
	b.create(t, "x")
	b.create(t, "y")
	client := b.client(t)
	if _, err := client.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err) // the client has a connection now
	}
	b.arm(t, Fault{Kind: KillBefore, Class: Write, At: 1})
	write := func(name string) error {
		_, err := client.CoreV1().ConfigMaps(b.namespace).Patch(t.Context(), name, "application/merge-patch+json",
			[]byte(`{"data":{"value":"written"}}`), metav1.PatchOptions{})
		return err
	}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- write("x") }()
	<-operator.begins
	go func() { second <- write("y") }()
	eventually(t, "the second write arrives", func() bool { log := b.Log(); return log[len(log)-1].Name == "y" })
	select {
	case err := <-first:
		t.Fatalf("a write was answered while its sender died: %v", err)
	case err := <-second:
		t.Fatalf("a write was answered after its sender began to die: %v", err)
	default:
	}
	// Meanwhile another operator, with connections of its own, has been started already.
	if _, err := b.freezer.Book(t.Context(), take("one")); err != nil {
		t.Fatal(err)
	}
	operator.dead <- nil
	if errFirst, errSecond := <-first, <-second; errFirst == nil || errSecond == nil {
		t.Errorf("a write of the killed operator was answered: %v, %v", errFirst, errSecond)
	}
	if x, y := b.value(t, "x"), b.value(t, "y"); x != "" || y != "" {
		t.Errorf("a write of the killed operator was executed: %q, %q", x, y)
	}
	b.demandBooked(t, "one")
	log := b.Log()
	last := log[len(log)-3:]
	if last[0].Fault != KillBefore || last[0].Number != 1 ||
		last[1].Number != 0 || !last[1].Injected || last[1].Code != 0 || last[2].Number != 2 {
		t.Errorf("the log ends with\n%s\n%s\n%s", last[0], last[1], last[2])
	}
	// The marked connections are closed. A request on a new one is executed.
	if err := write("y"); err != nil {
		t.Error(err)
	}
}

func TestTwoSimultaneousFaultsKillTheOperatorOnce(t *testing.T) {
	t.Parallel()
	kills := 0 // one at a time
	injector := New(func() error { kills++; return nil })
	t.Cleanup(func() { injector.Close() })
	// The service answers neither request before both have arrived.
	var arrived sync.WaitGroup
	arrived.Add(2)
	url, err := injector.Proxy("oven", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait()
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := injector.Arm(Schedule{Faults: []Fault{
		{Kind: KillAfter, Class: Write, At: 1}, {Kind: KillAfter, Class: Write, At: 2},
	}}); err != nil {
		t.Fatal(err)
	}
	client := lone(t)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := send(t.Context(), client, http.MethodPut, url); err == nil {
				t.Error("the answer was delivered")
			}
		})
	}
	both.Wait()
	injector.Disarm()
	if kills != 1 {
		t.Errorf("the operator that sent both was killed %d times", kills)
	}
}

// send sends a request without a body. The error is that of the connection.
func send(ctx context.Context, client *http.Client, method, url string) error {
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func TestFailedRestartIsLogged(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, func() error { return errors.New("its program is gone") })
	b.arm(t, Fault{Kind: KillBefore, Class: Write, At: 1})
	if _, err := b.freezer.Book(t.Context(), take("one")); err == nil {
		t.Error("the request was answered")
	}
	b.demandBooked(t)
	if log := b.Log(); log[len(log)-1].Service != Operator || log[len(log)-1].Message != "its program is gone" {
		t.Errorf("the log ends with %+v", log[len(log)-1])
	}
}

func TestDisarmWaitsForAKillAndPreventsTheNext(t *testing.T) {
	t.Parallel()
	operator := newKilled()
	b := newFreezerBench(t, operator.kill)
	b.arm(t, Fault{Kind: KillAfter, Class: Write, At: 1})
	go func() { _, _ = b.freezer.Book(context.WithoutCancel(t.Context()), take("one")) }()
	<-operator.begins
	disarmed := make(chan time.Time, 1)
	go func() {
		b.Disarm()
		disarmed <- time.Now()
	}()
	eventually(t, "the schedule is over", func() bool {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		return len(b.plan.schedule.Faults) == 0
	})
	select {
	case <-disarmed:
		t.Fatal("Disarm() returned before the kill ended")
	default:
	}
	dead := time.Now()
	operator.dead <- nil
	if at := <-disarmed; at.Before(dead) {
		t.Error("Disarm() returned before the operator was started again")
	}
	if _, err := b.freezer.Book(t.Context(), take("two")); err != nil {
		t.Errorf("Book() after Disarm: error = %v", err)
	}
}

// A request that was sent under one schedule and executed under the next must not kill the operator.
func TestKillIsSkippedAfterTheScheduleEnds(t *testing.T) {
	t.Parallel()
	b := New(func() error { t.Error("the operator was killed"); return nil })
	t.Cleanup(func() { b.Close() })
	arrived, proceed := make(chan struct{}), make(chan struct{})
	url, err := b.Proxy("oven", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(arrived); <-proceed }))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Arm(Schedule{Faults: []Fault{{Kind: KillAfter, Class: Read, At: 1}}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- send(t.Context(), lone(t), http.MethodGet, url) }()
	<-arrived
	b.Disarm()
	close(proceed)
	if err := <-ended; err != nil {
		t.Errorf("error = %v after the end of the schedule", err)
	}
	if entry := b.Log()[0]; entry.Fault != "" || entry.Code != http.StatusOK {
		t.Errorf("the log has %s", entry)
	}
}

// An operator that takes a moment to die may connect again in the meantime. None of its requests are executed.
func TestRefusedOperatorHasNoEffect(t *testing.T) {
	t.Parallel()
	injector := New(nil)
	t.Cleanup(func() { injector.Close() })
	var done atomic.Int32
	url, err := injector.Proxy("oven", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done.Add(1) }))
	if err != nil {
		t.Fatal(err)
	}
	before := lone(t)
	if err := send(t.Context(), before, http.MethodPut, url); err != nil {
		t.Fatal(err)
	}
	injector.Refuse()
	var both sync.WaitGroup
	for _, client := range []*http.Client{before, lone(t)} {
		both.Go(func() {
			if err := send(t.Context(), client, http.MethodPut, url); err == nil {
				t.Error("the request was answered")
			}
		})
	}
	eventually(t, "both requests have arrived", func() bool { return len(injector.Log()) == 3 })
	injector.Admit()
	both.Wait()
	if err := send(t.Context(), lone(t), http.MethodPut, url); err != nil {
		t.Errorf("the next operator: error = %v", err)
	}
	if got := done.Load(); got != 2 {
		t.Errorf("%d requests were executed, want 2: the first and the last", got)
	}
}

// The client may have disconnected before the request is handled. The operator is killed all the same, and Disarm waits
// only for the kill.
func TestKillAfterTheClientDisconnected(t *testing.T) {
	t.Parallel()
	kills := 0
	i := New(func() error { kills++; return nil })
	if err := i.Arm(Schedule{Faults: []Fault{{Kind: KillBefore, Class: Write, At: 1}}}); err != nil {
		t.Fatal(err)
	}
	x := i.enter(request{entry: Entry{Service: "api", Verb: "update", Write: true}, counts: true},
		&connection{ended: make(chan struct{})})
	func() {
		defer func() {
			cut := recover()
			if err, ok := cut.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("the request ended with %v", cut)
			}
		}()
		x.serve(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", http.NoBody), nil)
	}()
	i.Disarm()
	if kills != 1 {
		t.Errorf("the operator was killed %d times, want 1", kills)
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}
