// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"lva.io/operators/clusters/node/podnet"
	"lva.io/operators/clusters/node/relay"
)

// BenchmarkRequest measures the cost of a request from one Pod to another by three paths: directly, by the kernel's
// rules, and by a proxy in user space that could replace them. Client, server and proxy are one process, so that
// cpu-µs/op is the work of all of them. See docs/decisions/0024-services-in-the-kernel.md.
func BenchmarkRequest(b *testing.B) {
	for _, path := range []string{"pod", "kernel", "user-space"} {
		// Each path has its own Pods. A client that reaches one Pod by two addresses may use the same port both times. Then,
		// for a second, the Pod takes the second connection for a late packet of the first.
		b.Run(path, func(b *testing.B) {
			w := newWorld(b, "client", "one", "two")
			var web80, sink81 []netip.AddrPort
			for _, name := range []string{"one", "two"} {
				w.serveHTTP(name)
				web80 = append(web80, netip.AddrPortFrom(w.pods[name].Address, 80))
				sink81 = append(sink81, netip.AddrPortFrom(w.pods[name].Address, 81))
			}
			addresses := map[string][2]string{
				"pod":        {web80[0].String(), sink81[0].String()},
				"kernel":     {"10.96.0.7:80", "10.96.0.7:81"},
				"user-space": {userSpaceProxy(b, web80), userSpaceProxy(b, sink81)},
			}[path]
			sink := Frontend{Address: webAddress, Protocol: corev1.ProtocolTCP, Port: 81}
			w.apply(planOf(
				Route{Name: "web", Frontends: []Frontend{web}, Backends: web80},
				Route{Name: "sink", Frontends: []Frontend{sink}, Backends: sink81},
			))
			b.Run("new", func(b *testing.B) { w.measure(b, func() error { return eachByItsOwn(b, addresses[0]) }) })
			b.Run("kept-alive", func(b *testing.B) { w.measure(b, func() error { return allByOne(b, addresses[0]) }) })
			b.Run("bytes", func(b *testing.B) { w.measure(b, func() error { return bytes(b, addresses[1]) }) })
		})
	}
}

// serveHTTP answers "hello" on port 80, and discards everything on port 81.
func (w *world) serveHTTP(pod string) {
	w.t.Helper()
	var web, sink net.Listener
	if err := w.inside(pod, func() (err error) {
		if web, err = net.Listen("tcp4", ":80"); err != nil {
			return err
		}
		sink, err = net.Listen("tcp4", ":81")
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(answer, "hello")
		}),
	}
	go func() { _ = server.Serve(web) }()
	go func() {
		for {
			connection, err := sink.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(io.Discard, connection)
			}()
		}
	}()
	w.t.Cleanup(func() { server.Close(); sink.Close() })
}

func (w *world) measure(b *testing.B, f func() error) {
	b.Helper()
	before := cpu()
	if err := w.inside("client", f); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // it can't fail for the calling process
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func eachByItsOwn(b *testing.B, address string) error {
	b.Helper()
	for b.Loop() {
		connection, err := net.DialTimeout("tcp4", address, patience)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n"); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, connection)
		connection.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func allByOne(b *testing.B, address string) error {
	b.Helper()
	connection, err := net.DialTimeout("tcp4", address, patience)
	if err != nil {
		return err
	}
	defer connection.Close()
	answer := make([]byte, 1000)
	for b.Loop() {
		if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: web\r\n\r\n"); err != nil {
			return err
		}
		if _, err := connection.Read(answer); err != nil {
			return err
		}
	}
	return nil
}

func bytes(b *testing.B, address string) error {
	b.Helper()
	connection, err := net.DialTimeout("tcp4", address, patience)
	if err != nil {
		return err
	}
	defer connection.Close()
	some := make([]byte, 1<<20)
	b.SetBytes(int64(len(some)))
	for b.Loop() {
		if _, err := connection.Write(some); err != nil {
			return err
		}
	}
	return nil
}

// userSpaceProxy accepts connections on the node, and connects to a backend for each.
func userSpaceProxy(b *testing.B, backends []netip.AddrPort) (address string) {
	b.Helper()
	listener, err := net.Listen("tcp4", podnet.NodeAddress.String()+":0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() {
		for i := 0; ; i++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				pod, err := net.DialTimeout("tcp4", backends[i%len(backends)].String(), patience)
				if err != nil {
					relay.Refuse(client)
					return
				}
				relay.Join(b.Context(), client, pod)
			}()
		}
	}()
	return listener.Addr().String()
}

// BenchmarkChange measures the cost of changing the Pod of one Service among many in the kernel.
func BenchmarkChange(b *testing.B) {
	for _, services := range []int{10, 1000} {
		b.Run(fmt.Sprint(services), func(b *testing.B) {
			w := newWorld(b, "one", "two")
			plan := Plan{}
			for i := range services {
				plan.add(Route{
					Name:     fmt.Sprintf("default/service-%d/TCP/80", i),
					Backends: w.backends("one"),
					Frontends: []Frontend{{
						Address:  netip.AddrFrom4([4]byte{10, 96, byte(1 + i/200), byte(1 + i%200)}),
						Protocol: corev1.ProtocolTCP,
						Port:     80,
					}},
				})
			}
			w.apply(plan)
			backends := [][]netip.AddrPort{w.backends("one"), w.backends("one", "two")}
			for i := 0; b.Loop(); i++ {
				route := plan["default/service-0/TCP/80"]
				route.Backends = backends[i%2]
				plan = maps.Clone(plan)
				plan.add(route)
				w.apply(plan)
			}
		})
	}
}
