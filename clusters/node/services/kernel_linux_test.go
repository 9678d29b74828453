// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"lva.io/operators/clusters/node/podnet"
)

func TestServiceBalancesAcrossPods(t *testing.T) {
	w := newWorld(t, "client", "one", "other")
	w.apply(planOf(
		Route{Name: "default/web/TCP/80", Frontends: []Frontend{web}, Backends: w.backends("one", "other")},
		Route{Name: "default/web/TCP/80/external", Frontends: []Frontend{nodePort}, Backends: w.backends("one", "other")},
		Route{Name: "default/web/UDP/53", Frontends: []Frontend{dns}, Backends: w.backends("one", "other")},
		Route{
			Name: "default/web/UDP/53/external", Frontends: []Frontend{{Protocol: corev1.ProtocolUDP, Port: 30053}},
			Backends: w.backends("one", "other"),
		},
	))
	client, node := w.pods["client"].Address.String(), podnet.NodeAddress.String()
	for _, test := range []struct {
		from, network, address string
		seen                   string // the client's address as the Pod sees it
	}{
		{"client", "tcp", "10.96.0.7:80", client},
		{"client", "udp", "10.96.0.7:53", client},
		{"client", "tcp", "10.244.0.1:30080", client},
		{"client", "udp", "10.244.0.1:30053", client},
		{"", "tcp", "10.96.0.7:80", node},
		{"", "udp", "10.96.0.7:53", node},
		{"", "tcp", "10.244.0.1:30080", node},
		{"", "tcp", "127.0.0.1:30080", node},
		{"", "udp", "127.0.0.1:30053", node},
	} {
		t.Run(fmt.Sprintf("%s to %s %s", test.from, test.network, test.address), func(t *testing.T) {
			reached := map[string]int{}
			for range 40 {
				pod, seen, err := w.ask(test.from, test.network, test.address)
				if err != nil {
					t.Fatal(err)
				}
				if seen != test.seen {
					t.Fatalf("Pod %s sees client %s, want %s", pod, seen, test.seen)
				}
				reached[pod]++
			}
			if reached["one"] < 5 || reached["other"] < 5 {
				t.Errorf("connections per Pod = %v, want at least 5 of 40 for each", reached)
			}
		})
	}
}

func TestPodReachesItselfThroughItsService(t *testing.T) {
	w := newWorld(t, "one")
	w.apply(planOf(
		Route{Name: "tcp", Frontends: []Frontend{web}, Backends: w.backends("one")},
		Route{Name: "udp", Frontends: []Frontend{dns}, Backends: w.backends("one")},
	))
	for network, address := range map[string]string{"tcp": "10.96.0.7:80", "udp": "10.96.0.7:53"} {
		if pod, seen, err := w.ask("one", network, address); err != nil || pod != "one" ||
			seen != podnet.NodeAddress.String() {
			t.Errorf("over %s, Pod %q answers and sees client %q: %v", network, pod, seen, err)
		}
	}
}

func TestUnroutedAddressIsRefused(t *testing.T) {
	w := newWorld(t, "client", "one")
	// A program on the node listens on all addresses. It must not get these connections.
	everywhere, err := net.Listen("tcp4", ":81")
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close()
	w.apply(planOf(Route{Name: "tcp", Frontends: []Frontend{web}, Backends: w.backends("one")}))
	for _, from := range []string{"client", ""} {
		for _, test := range []struct{ network, address string }{
			{"tcp", "10.96.0.7:81"}, {"tcp", "10.96.0.8:80"}, {"udp", "10.96.0.7:80"}, {"tcp", "10.244.0.1:30080"},
		} {
			if _, _, err := w.ask(from, test.network, test.address); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s to %s %s: got error %v, want ECONNREFUSED", from, test.network, test.address, err)
			}
		}
	}
}

func TestRulesFollowThePlan(t *testing.T) {
	w := newWorld(t, "client", "one", "two", "three")
	reaches := func(address string, want ...string) {
		t.Helper()
		reached := map[string]bool{}
		for range 30 {
			pod, _, err := w.ask("client", "tcp", address)
			if err != nil {
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Fatal(err)
				}
				pod = "refused"
			}
			reached[pod] = true
		}
		if got := slices.Sorted(maps.Keys(reached)); !slices.Equal(got, want) {
			t.Errorf("connections to %s reached %v, want %v", address, got, want)
		}
	}
	other := Frontend{Address: netip.MustParseAddr("10.96.0.9"), Protocol: corev1.ProtocolTCP, Port: 80}
	w.apply(Plan{})
	reaches("10.96.0.7:80", "refused")
	w.apply(planOf(Route{Name: "a", Frontends: []Frontend{web}, Backends: w.backends("one")}))
	reaches("10.96.0.7:80", "one")
	w.apply(planOf(Route{Name: "a", Frontends: []Frontend{web, nodePort}, Backends: w.backends("one", "two")}))
	reaches("10.96.0.7:80", "one", "two")
	reaches("10.244.0.1:30080", "one", "two")
	// Another Route takes over a frontend, and this one gets a new one.
	w.apply(planOf(
		Route{Name: "a", Frontends: []Frontend{other}, Backends: w.backends("one")},
		Route{Name: "b", Frontends: []Frontend{web}, Backends: w.backends("three")},
	))
	reaches("10.96.0.7:80", "three")
	reaches("10.96.0.9:80", "one")
	reaches("10.244.0.1:30080", "refused")
	w.apply(Plan{})
	reaches("10.96.0.7:80", "refused")
	reaches("10.96.0.9:80", "refused")
	if left := w.contents(); left != w.emptyContents() {
		t.Errorf("these rules remain:\n%s", left)
	}
}

// contents returns the names of the chains, and the keys of the sets.
func (w *world) contents() string {
	w.t.Helper()
	var all []string
	chains, err := w.kernel.conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, chain := range chains {
		rules, err := w.kernel.conn.GetRules(chain.Table, chain)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s: %d rules", chain.Name, len(rules)))
	}
	sets, err := w.kernel.conn.GetSets(w.kernel.table)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, set := range sets {
		elements, err := w.kernel.conn.GetSetElements(set)
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasPrefix(set.Name, "__") { // anonymous sets have numbers
			set.Name = "__"
		}
		all = append(all, fmt.Sprintf("%s: %d elements", set.Name, len(elements)))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// emptyContents returns the contents of a table that was just created.
func (w *world) emptyContents() string {
	w.t.Helper()
	w.kernel.applied = nil
	w.apply(Plan{})
	return w.contents()
}

func TestRestartedAgentReplacesRules(t *testing.T) {
	w := newWorld(t, "client", "one", "two")
	w.apply(planOf(
		Route{Name: "gone", Frontends: []Frontend{nodePort}, Backends: w.backends("one")},
		Route{Name: "web", Frontends: []Frontend{web}, Backends: w.backends("one")},
	))
	next, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	defer next.close()
	if _, _, err := w.ask("client", "tcp", "10.96.0.7:80"); err != nil {
		t.Errorf("before the first plan, a connection by the earlier rules failed: %v", err)
	}
	if err := next.apply(planOf(Route{Name: "web", Frontends: []Frontend{web}, Backends: w.backends("two")})); err != nil {
		t.Fatal(err)
	}
	if pod, _, err := w.ask("client", "tcp", "10.96.0.7:80"); err != nil || pod != "two" {
		t.Errorf("the connection reached %q, %v; want two", pod, err)
	}
	if _, _, err := w.ask("client", "tcp", "10.244.0.1:30080"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting to a frontend that is not in the plan: %v, want ECONNREFUSED", err)
	}
}

func TestUDPFlowFollowsRouteChange(t *testing.T) {
	w := newWorld(t, "client", "one", "two")
	var client net.Conn
	if err := w.inside("client", func() (err error) {
		client, err = net.Dial("udp", "10.96.0.7:53") // its port stays the same until it is closed
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, want := range []string{"one", "two", "", "one"} {
		plan := Plan{}
		if want != "" {
			plan = planOf(Route{Name: "dns", Frontends: []Frontend{dns}, Backends: w.backends(want)})
		}
		w.apply(plan)
		pod, _, err := askOn(client)
		if pod != want || (want == "") != errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got an answer from %q, %v; want %q", pod, err, want)
		}
	}
}

func TestOpenConnectionSurvivesRouteChange(t *testing.T) {
	w := newWorld(t, "client", "one", "two")
	w.apply(planOf(Route{Name: "web", Frontends: []Frontend{web}, Backends: w.backends("one")}))
	var client net.Conn
	if err := w.inside("client", func() (err error) {
		client, err = net.Dial("tcp", "10.96.0.7:80")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, plan := range []Plan{planOf(Route{Name: "web", Frontends: []Frontend{web}, Backends: w.backends("two")}), {}} {
		w.apply(plan)
		if pod, _, err := askOn(client); err != nil || pod != "one" {
			t.Errorf("got an answer from %q, %v; want one", pod, err)
		}
	}
}

func TestHostPortOnOneNodeAddress(t *testing.T) {
	w := newWorld(t, "client", "one", "two")
	at := func(address string) Frontend {
		return Frontend{Address: netip.MustParseAddr(address), Protocol: corev1.ProtocolTCP, Port: 8888}
	}
	w.apply(planOf(
		Route{Name: "one", Frontends: []Frontend{at("127.0.0.1")}, Backends: w.backends("one")},
		Route{Name: "two", Frontends: []Frontend{at("10.244.0.1")}, Backends: w.backends("two")},
	))
	for address, want := range map[string]string{"127.0.0.1:8888": "one", "10.244.0.1:8888": "two"} {
		if pod, _, err := w.ask("", "tcp", address); err != nil || pod != want {
			t.Errorf("%s: got an answer from %q, %v", address, pod, err)
		}
	}
}

func TestManyServices(t *testing.T) {
	w := newWorld(t, "client", "one")
	plan := Plan{}
	for i := range 1000 {
		name := fmt.Sprintf("a-namespace-with-quite-a-long-name/service-%04d/TCP/80", i)
		plan.add(Route{Name: name, Backends: w.backends("one"), Frontends: []Frontend{{
			Address: netip.AddrFrom4([4]byte{10, 96, byte(1 + i/200), byte(1 + i%200)}), Protocol: corev1.ProtocolTCP, Port: 80,
		}}})
	}
	began := time.Now()
	w.apply(plan)
	t.Logf("applying 1000 Services took %s", time.Since(began))
	for _, address := range []string{"10.96.1.1:80", "10.96.3.77:80", "10.96.5.200:80"} {
		if _, _, err := w.ask("client", "tcp", address); err != nil {
			t.Errorf("connecting to %s: %v", address, err)
		}
	}
	began = time.Now()
	plan.add(Route{Name: "one-more", Frontends: []Frontend{web}, Backends: w.backends("one")})
	w.apply(plan)
	t.Logf("adding one Service took %s", time.Since(began))
	began = time.Now()
	w.apply(Plan{})
	t.Logf("removing all Services took %s", time.Since(began))
	if left := w.contents(); left != w.emptyContents() {
		t.Errorf("these rules remain:\n%s", left)
	}
}

func TestManyBackends(t *testing.T) {
	w := newWorld(t, "client", "one")
	route := Route{Name: "web", Frontends: []Frontend{web}}
	for i := range 300 { // a node has at most 250 Pods
		route.Backends = append(route.Backends, netip.AddrPortFrom(w.pods["one"].Address, uint16(i+1)))
	}
	w.apply(planOf(route))
	route.Backends = w.backends("one")
	w.apply(planOf(route))
	if _, _, err := w.ask("client", "tcp", "10.96.0.7:80"); err != nil {
		t.Error(err)
	}
}

// The client sees the reset after the next packet that it sends, because its connection no longer exists.
func TestConnectionToRemovedPodIsReset(t *testing.T) {
	w := newWorld(t, "client", "one", "two")
	w.apply(planOf(Route{Name: "web", Frontends: []Frontend{web}, Backends: w.backends("one")}))
	var client net.Conn
	if err := w.inside("client", func() (err error) {
		client, err = net.Dial("tcp", "10.96.0.7:80")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, _, err := askOn(client); err != nil {
		t.Fatal(err)
	}
	w.apply(planOf(Route{Name: "web", Frontends: []Frontend{web}, Backends: w.backends("two")}))
	if err := w.network.Detach("one"); err != nil {
		t.Fatal(err)
	}
	if pod, _, err := askOn(client); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got an answer from %q, %v; want ECONNRESET", pod, err)
	}
}

// A program of a Pod that can send arbitrary packets can't reach servers that listen at the node's 127.0.0.1.
func TestPodCannotReachNodeLoopback(t *testing.T) {
	w := newWorld(t, "liar")
	w.apply(Plan{})
	for _, test := range []struct {
		address string
		heard   bool
	}{{"127.0.0.1", false}, {"10.244.0.1", true}} { // the second test shows that such packets arrive
		socket, err := net.ListenPacket("udp4", test.address+":5555")
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		if err := w.inside("liar", func() error {
			return sendRaw(w.pods["liar"].Address, netip.AddrPortFrom(netip.MustParseAddr(test.address), 5555))
		}); err != nil {
			t.Fatal(err)
		}
		_ = socket.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		if _, _, err := socket.ReadFrom(make([]byte, 100)); (err == nil) != test.heard {
			t.Errorf("datagram to %s: got error %v", test.address, err)
		}
	}
}

// sendRaw sends a datagram through eth0, whatever the routes are.
func sendRaw(from netip.Addr, to netip.AddrPort) error {
	eth0, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	packet := []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0} // without a checksum yet
	packet = slices.Concat(packet, from.AsSlice(), to.Addr().AsSlice())
	var sum uint32
	for i := 0; i < len(packet); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	binary.BigEndian.PutUint16(packet[10:], ^uint16(sum+sum>>16))
	packet = append(packet, 0x15, 0xb3, byte(to.Port()>>8), byte(to.Port()), 0, 8, 0, 0) // UDP's checksum is optional
	// The destination is the node's end of the veth pair: see package podnet.
	hardware := [8]byte{0x02, 0x00}
	copy(hardware[2:], from.AsSlice())
	return unix.Sendto(socket, packet, 0, &unix.SockaddrLinklayer{
		Protocol: 0x0008,
		Ifindex:  eth0.Index,
		Halen:    6,
		Addr:     hardware,
	})
}
