// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package podnet

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const patience = 5 * time.Second

func open(t *testing.T) *Network {
	t.Helper()
	network, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for id := range network.Pods() {
			if err := network.Detach(id); err != nil {
				t.Error(err)
			}
		}
		network.Close()
	})
	return network
}

func attach(t *testing.T, network *Network, id string) *Pod {
	t.Helper()
	pod, err := network.Attach(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pod.Namespace.Close() })
	return pod
}

// serve answers each connection with the address of its client.
func serve(t *testing.T, pod *Pod, address string) {
	t.Helper()
	var listener net.Listener
	if err := Inside(pod.Namespace, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			client, _, _ := net.SplitHostPort(connection.RemoteAddr().String())
			fmt.Fprint(connection, client)
			connection.Close()
		}
	}()
}

func ask(address string) (answer string, err error) {
	connection, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(patience))
	all, err := io.ReadAll(connection)
	return string(all), err
}

func askFrom(pod *Pod, address string) (answer string, err error) {
	err = Inside(pod.Namespace, func() (err error) {
		answer, err = ask(address)
		return err
	})
	return answer, err
}

func TestPodsAndNodeSeeRealAddresses(t *testing.T) {
	network := open(t)
	one, other := attach(t, network, "one"), attach(t, network, "other")
	// Both Pods use the same port, and a low one.
	serve(t, one, ":80")
	serve(t, other, "[::]:80")
	for _, test := range []struct {
		name string
		ask  func() (string, error)
		want netip.Addr
	}{
		{
			"one asks the other",
			func() (string, error) { return askFrom(one, other.Address.String()+":80") },
			one.Address,
		},
		{
			"the other asks one",
			func() (string, error) { return askFrom(other, one.Address.String()+":80") },
			other.Address,
		},
		{
			"the node asks",
			func() (string, error) { return ask(one.Address.String() + ":80") },
			NodeAddress,
		},
		{
			"one asks itself",
			func() (string, error) { return askFrom(one, one.Address.String()+":80") },
			one.Address,
		},
		{
			"one asks its own lo",
			func() (string, error) { return askFrom(one, "127.0.0.1:80") },
			netip.MustParseAddr("127.0.0.1"),
		},
	} {
		if got, err := test.ask(); err != nil || got != test.want.String() {
			t.Errorf("%s: got client address %q, %v; want %s", test.name, got, err, test.want)
		}
	}
}

func TestFirstPacketsOfAPodArrive(t *testing.T) {
	network := open(t)
	socket, err := net.ListenPacket("udp4", NodeAddress.String()+":5555")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for i := range 50 {
		pod := attach(t, network, fmt.Sprint(i))
		if err := Inside(pod.Namespace, func() error {
			connection, err := net.Dial("udp4", socket.LocalAddr().String())
			if err != nil {
				return err
			}
			defer connection.Close()
			_, err = io.WriteString(connection, "hello")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		_ = socket.SetReadDeadline(time.Now().Add(patience))
		if _, from, err := socket.ReadFrom(make([]byte, 100)); err != nil ||
			!strings.HasPrefix(from.String(), pod.Address.String()+":") {
			t.Fatalf("Pod %d: received a datagram from %v, %v", i, from, err)
		}
	}
}

// The connection must not fail only by a time-out of two minutes. The refusal may arrive while connect still holds the
// socket, and is then ignored until the second packet, which is sent a second later.
func TestUnassignedAddressIsUnreachable(t *testing.T) {
	network := open(t)
	pod := attach(t, network, "one")
	for _, address := range []string{"10.244.7.7:80", "192.0.2.1:80"} {
		if _, err := askFrom(pod, address); !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("connecting to %s from a Pod: %v, want it unreachable", address, err)
		}
		if _, err := ask(address); !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("connecting to %s from the node: %v, want it unreachable", address, err)
		}
	}
}

func TestDetachRemovesEverything(t *testing.T) {
	network := open(t)
	before := strings.Join(interfaces(t), " ")
	pod := attach(t, network, "one")
	serve(t, pod, ":80")
	if _, err := ask(pod.Address.String() + ":80"); err != nil {
		t.Fatal(err)
	}
	if err := network.Detach("one"); err != nil {
		t.Fatal(err)
	}
	if err := network.Detach("one"); err != nil {
		t.Errorf("second Detach() error = %v", err)
	}
	if after := strings.Join(interfaces(t), " "); after != before {
		t.Errorf("interfaces before Attach %s, after Detach %s", before, after)
	}
	if _, err := ask(pod.Address.String() + ":80"); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("connecting to a detached Pod: %v, want EHOSTUNREACH", err)
	}
	if next := attach(t, network, "two"); next.Address == pod.Address {
		t.Error("the address of the detached Pod was reused immediately")
	}
}

func interfaces(t *testing.T) (names []string) {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		names = append(names, link.Attrs().Name)
	}
	slices.Sort(names)
	return names
}

func TestOpenFindsAttachedPods(t *testing.T) {
	first := open(t)
	pod := attach(t, first, "one")
	serve(t, pod, ":80")
	second := open(t)
	if !maps.Equal(first.Pods(), second.Pods()) || second.Pods()["one"] != pod.Address {
		t.Fatalf("Pods before %v, after the second Open %v", first.Pods(), second.Pods())
	}
	if _, err := ask(pod.Address.String() + ":80"); err != nil {
		t.Errorf("after the second Open, the Pod is unreachable: %v", err)
	}
	if _, err := second.Attach("one"); err == nil {
		t.Error("the Pod was attached twice")
	}
	if other := attach(t, second, "other"); other.Address == pod.Address {
		t.Error("two Pods have the same address")
	}
	if err := second.Detach("one"); err != nil {
		t.Error(err)
	}
}

func TestOpenRemovesIncompletePods(t *testing.T) {
	open(t)
	half := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pod3-4"}, PeerName: "half"}
	if err := netlink.LinkAdd(half); err != nil {
		t.Fatal(err)
	}
	network := open(t)
	if names := interfaces(t); slices.Contains(names, "pod3-4") || len(network.Pods()) > 0 {
		t.Errorf("got interfaces %v and Pods %v, want no abandoned ones", names, network.Pods())
	}
}

func TestPodCannotSpoofAddresses(t *testing.T) {
	network := open(t)
	liar, other := attach(t, network, "liar"), attach(t, network, "other")
	var listener net.PacketConn
	if err := Inside(other.Namespace, func() (err error) {
		listener, err = net.ListenPacket("udp4", ":4444")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	send := func(from netip.Addr, word string) error {
		return Inside(liar.Namespace, func() error {
			eth0, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			if err := netlink.AddrReplace(eth0, &netlink.Addr{IPNet: host(from)}); err != nil {
				return err
			}
			socket, err := net.DialUDP(
				"udp4", &net.UDPAddr{IP: from.AsSlice()}, &net.UDPAddr{IP: other.Address.AsSlice(), Port: 4444},
			)
			if err != nil {
				return err
			}
			defer socket.Close()
			_, err = socket.Write([]byte(word))
			return err
		})
	}
	if err := send(netip.MustParseAddr("10.244.9.9"), "a lie"); err != nil {
		t.Fatal(err)
	}
	if err := send(liar.Address, "the truth"); err != nil {
		t.Fatal(err)
	}
	_ = listener.SetReadDeadline(time.Now().Add(patience))
	received := make([]byte, 100)
	n, _, err := listener.ReadFrom(received)
	if err != nil || string(received[:n]) != "the truth" {
		t.Errorf("the other Pod received %q, %v; want only the datagram with the true source", received[:n], err)
	}
}

func TestReserveCyclesThroughAddresses(t *testing.T) {
	n := newNetwork(map[string]netip.Addr{})
	n.last = netip.MustParseAddr("10.244.255.253")
	for i, want := range []string{"10.244.255.254", "10.244.0.2", "10.244.0.3"} {
		if got, err := n.reserve(fmt.Sprint(i)); err != nil || got.String() != want {
			t.Errorf("reserve() = %v, %v; want %s", got, err, want)
		}
	}
	for i := 3; ; i++ {
		if _, err := n.reserve(fmt.Sprint(i)); err != nil {
			if i != 1<<16-3 { // all but the first and the last one, and the node's
				t.Errorf("reserve() failed after %d addresses: %v", i, err)
			}
			break
		}
	}
}

func TestInterfaceNames(t *testing.T) {
	for _, address := range []string{"10.244.0.2", "10.244.255.254"} {
		a := netip.MustParseAddr(address)
		if got, ok := addressOf(interfaceName(a)); !ok || got != a {
			t.Errorf("address %s: interface name %s, and addressOf() = %v", a, interfaceName(a), got)
		}
	}
	for _, name := range []string{"lo", "pod1", "pod1-2x", "pod300-1", "pod01-2"} {
		if got, ok := addressOf(name); ok {
			t.Errorf("addressOf(%s) = %s, want none", name, got)
		}
	}
}

// BenchmarkAttach measures the cost of creating a Pod's network, and BenchmarkDetach that of removing it.
func BenchmarkAttach(b *testing.B) {
	attachAndDetach(b, func(n int, attach, detach func()) {
		for range n {
			b.StartTimer()
			attach()
			b.StopTimer()
			detach()
		}
	})
}

func BenchmarkDetach(b *testing.B) {
	attachAndDetach(b, func(n int, attach, detach func()) {
		for range n {
			attach()
			b.StartTimer()
			detach()
			b.StopTimer()
		}
	})
}

func attachAndDetach(b *testing.B, measure func(n int, attach, detach func())) {
	b.Helper()
	b.StopTimer()
	network, err := Open()
	if err != nil {
		b.Fatal(err)
	}
	defer network.Close()
	measure(b.N, func() {
		pod, err := network.Attach("one")
		if err != nil {
			b.Fatal(err)
		}
		pod.Namespace.Close()
	}, func() {
		if err := network.Detach("one"); err != nil {
			b.Fatal(err)
		}
	})
}

func TestNamespaceEndsWithItsLastUser(t *testing.T) {
	network := open(t)
	pod, err := network.Attach("one")
	if err != nil {
		t.Fatal(err)
	}
	name := interfaceName(pod.Address)
	pod.Namespace.Close()
	network.Namespace(pod.Address).Close()
	// The kernel removes a namespace asynchronously, a moment later.
	for deadline := time.Now().Add(patience); ; {
		if _, err := os.Stat("/sys/class/net/" + name); errors.Is(err, os.ErrNotExist) || time.Now().After(deadline) {
			break
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	if err := network.Detach("one"); err != nil {
		t.Errorf("Detach() error after the interface was removed = %v", err)
	}
}
