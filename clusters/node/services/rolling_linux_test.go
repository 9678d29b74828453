// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"lva.io/operators/clusters/node/podnet"
)

// replica is a Pod that ends gracefully: it answers the connections that it has accepted, and then ends.
type replica struct {
	id       string
	address  netip.Addr
	pod      Pod
	listener net.Listener
	end      func()
}

func (w *world) replica(id string) *replica {
	w.t.Helper()
	pod, err := w.network.Attach(id)
	if err != nil {
		w.t.Fatal(err)
	}
	r := &replica{
		id:      id,
		address: pod.Address,
		pod:     Pod{UID: uid(pod.Address), Address: pod.Address, Namespace: pod.Namespace},
	}
	if err := podnet.Inside(pod.Namespace, func() (err error) {
		r.listener, err = net.Listen("tcp4", ":8080")
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			connection, err := r.listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { answer(connection, id) })
		}
	})
	r.end = func() {
		r.listener.Close() // at once, because a program may rely on it that no new connections are routed to it
		open.Wait()
		if err := w.network.Detach(id); err != nil {
			w.t.Error(err)
		}
		pod.Namespace.Close()
	}
	return r
}

// Two replicas are replaced by others again and again, with the slices that Kubernetes would write, while clients
// connect. Every connection of every client must be answered, because Pods end only after they are drained.
func TestRollingUpdateLosesNoConnection(t *testing.T) {
	const rounds, clients = 10, 4
	w := newWorld(t, "client")
	proxy := &Proxy{kernel: w.kernel, changed: make(chan struct{})}
	nodePort := service(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	})
	follow := func(endpoints ...discoveryv1.Endpoint) {
		t.Helper()
		slice := slice(endpoints...)
		slice.Labels[discoveryv1.LabelManagedBy] = managed
		state := State{Services: []*corev1.Service{nodePort}, Slices: []*discoveryv1.EndpointSlice{slice}, Node: "node"}
		if err := proxy.follow(state); err != nil {
			t.Fatal(err)
		}
	}
	old := []*replica{w.replica("0a"), w.replica("0b")}
	follow(at(old[0].address, "ready"), at(old[1].address, "ready"))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var answered atomic.Int64
	var load sync.WaitGroup
	failed := make(chan error, clients)
	for i := range clients {
		from, address := "client", "10.96.0.7:80"
		if i%2 == 1 {
			from, address = "", "10.244.0.1:30080"
		}
		load.Go(func() {
			err := w.inside(from, func() error {
				for ctx.Err() == nil {
					if _, _, err := ask("tcp", address); err != nil {
						return err
					}
					answered.Add(1)
				}
				return nil
			})
			if err != nil {
				failed <- err
			}
		})
	}
	// enough lets the clients send more requests, so that they meet each state.
	enough := func() {
		for until := answered.Load() + 40; answered.Load() < until && len(failed) == 0; {
			<-time.After(time.Millisecond)
		}
	}
	for round := range rounds {
		enough()
		next := []*replica{w.replica(fmt.Sprint(round+1, "a")), w.replica(fmt.Sprint(round+1, "b"))}
		follow(
			at(old[0].address, "ready"), at(old[1].address, "ready"),
			at(next[0].address, "ready"), at(next[1].address, "ready"),
		)
		enough()
		// The Pods are deleted. The slice shows that a moment after their programs would get the signal to end.
		var ending sync.WaitGroup
		for _, pod := range old {
			ending.Go(func() {
				if err := proxy.drained(ctx, pod.pod); err != nil {
					t.Error(err)
				}
				pod.end()
			})
		}
		follow(
			at(old[0].address, "ending"), at(old[1].address, "ready"),
			at(next[0].address, "ready"), at(next[1].address, "ready"),
		)
		enough()
		follow(
			at(old[0].address, "ended"), at(old[1].address, "ending"),
			at(next[0].address, "ready"), at(next[1].address, "ready"),
		)
		ending.Wait()
		old = next
	}
	stop()
	load.Wait()
	select {
	case err := <-failed:
		t.Errorf("after %d answered connections, one failed: %v", answered.Load(), err)
	default:
	}
	t.Logf("%d connections were answered", answered.Load())
	for _, pod := range old {
		pod.end()
	}
}

func TestDrained(t *testing.T) {
	w := newWorld(t, "one")
	proxy := &Proxy{kernel: w.kernel, changed: make(chan struct{})}
	pod := Pod{UID: uid(w.pods["one"].Address), Address: w.pods["one"].Address, Namespace: w.pods["one"].Namespace}
	follow := func(managedBy, condition string) {
		t.Helper()
		slice := slice(at(pod.Address, condition))
		slice.Labels[discoveryv1.LabelManagedBy] = managedBy
		if err := proxy.follow(State{
			Services: []*corev1.Service{service()},
			Slices:   []*discoveryv1.EndpointSlice{slice},
		}); err != nil {
			t.Fatal(err)
		}
	}
	waits := func() bool {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := proxy.drained(ctx, pod)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err != nil
	}
	for _, test := range []struct {
		managedBy, condition string
		want                 bool
	}{
		{managed, "ready", true},
		{managed, "not ready", false},
		{managed, "ending", false}, // it is the last one and still gets connections, and no other will take over
		{managed, "ended", false},
		{"another-controller", "ready", false}, // such a slice guarantees nothing about Pods
	} {
		follow(test.managedBy, test.condition)
		if got := waits(); got != test.want {
			t.Errorf("Pod %s in a slice managed by %s: waits = %v", test.condition, test.managedBy, got)
		}
	}
}
