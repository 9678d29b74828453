// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package outside

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/nodetest"
	"lva.io/operators/clusters/node/podnet"
)

const (
	patience = 5 * time.Second
	// The machine's own addresses represent the outside world.
	server, resolver, other = "192.0.2.1", "192.0.2.53", "192.0.2.54"
)

// crossing is the machine as the node sees it.
type crossing struct{ *nodetest.Machine }

func (c crossing) DialContext(ctx context.Context, network, address string) (connection net.Conn, err error) {
	err = c.Inside(func() error {
		connection, err = Dial(ctx, network, address)
		return err
	})
	return connection, err
}

func run(t *testing.T) (machine *nodetest.Machine, pod *podnet.Pod) {
	t.Helper()
	network, err := podnet.Open()
	if err != nil {
		t.Fatal(err)
	}
	if pod, err = network.Attach("pod"); err != nil {
		t.Fatal(err)
	}
	machine = nodetest.NewMachine(t, server, resolver, other)
	ctx, end := context.WithCancelCause(context.Background())
	over, stopped := errors.New("the test is over"), make(chan error, 1)
	go func() { stopped <- Run(ctx, crossing{machine}) }()
	t.Cleanup(func() {
		end(over)
		if err := <-stopped; !errors.Is(err, over) {
			t.Error(err)
		}
		pod.Namespace.Close()
		if err := network.Detach("pod"); err != nil {
			t.Error(err)
		}
		network.Close()
	})
	// Before the rules are written, a connection fails at once.
	listener := serve(t, machine, server+":1")
	for deadline := time.Now().Add(patience); ; {
		connection, err := dial(pod, "tcp", listener)
		if err == nil {
			connection.Close()
			return machine, pod
		}
		select {
		case err := <-stopped:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// serve repeats its input until the other side has sent everything, and then writes "over".
func serve(t *testing.T, machine *nodetest.Machine, address string) string {
	t.Helper()
	listener, err := machine.Listen(t.Context(), "tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
				_, _ = io.WriteString(connection, "over")
			}()
		}
	}()
	return listener.Addr().String()
}

// servePackets answers each datagram with the datagram itself, after a word.
func servePackets(t *testing.T, machine *nodetest.Machine, address, word string) {
	t.Helper()
	packets, err := machine.ListenPacket(t.Context(), "udp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close() })
	go func() {
		packet := make([]byte, 1<<16)
		for {
			n, from, err := packets.ReadFrom(packet)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(append([]byte(word), packet[:n]...), from)
		}
	}()
}

// dial dials from a Pod, or from the node if there is none.
func dial(pod *podnet.Pod, network, address string) (connection net.Conn, err error) {
	connect := func() error {
		connection, err = net.DialTimeout(network, address, patience)
		return err
	}
	if pod == nil {
		return connection, connect()
	}
	err = podnet.Inside(pod.Namespace, connect)
	if err == nil {
		_ = connection.SetDeadline(time.Now().Add(patience))
	}
	return connection, err
}

func TestPodReachesOutsideServers(t *testing.T) {
	machine, pod := run(t)
	address := serve(t, machine, server+":443")
	for _, from := range []*podnet.Pod{pod, nil} {
		connection, err := dial(from, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		// More data than all buffers hold is sent. After that, this side is silent, and still receives.
		sent := strings.Repeat("vanilla ", 1<<17)
		go func() {
			_, _ = io.WriteString(connection, sent)
			_ = connection.(*net.TCPConn).CloseWrite()
		}()
		if received, err := io.ReadAll(connection); err != nil || string(received) != sent+"over" {
			t.Errorf("sent %d bytes and the end, received %d bytes: %v", len(sent), len(received), err)
		}
	}
}

func TestUnreachableServerResetsConnection(t *testing.T) {
	_, pod := run(t)
	for _, address := range []string{server + ":444", "203.0.113.1:80"} { // refused, and without a route on the machine
		connection, err := dial(pod, "tcp", address)
		if err == nil {
			_, err = io.ReadAll(connection)
			connection.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got error %v, want ECONNRESET", address, err)
		}
	}
}

func TestDatagramRepliesComeFromTheirServer(t *testing.T) {
	machine, pod := run(t)
	servePackets(t, machine, server+":123", "one says ")
	servePackets(t, machine, other+":123", "another says ")
	for _, from := range []*podnet.Pod{pod, nil} {
		for address, want := range map[string]string{server: "one says ", other: "another says "} {
			connection, err := dial(from, "udp", address+":123") // it receives datagrams only from this address
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			for _, word := range []string{"a", "bc", strings.Repeat("d", 9000)} {
				if got, err := exchange(connection, word); err != nil || got != want+word {
					t.Errorf("%s: sent %.9q, received %.30q: %v", address, word, got, err)
				}
			}
		}
	}
}

func exchange(connection net.Conn, word string) (string, error) {
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(connection, word); err != nil {
		return "", err
	}
	answer := make([]byte, 1<<16)
	n, err := connection.Read(answer)
	return string(answer[:n]), err
}

func TestClusterTrafficStaysInside(t *testing.T) {
	machine, pod := run(t)
	// The machine has servers on addresses that Pods and Services have.
	for _, address := range []string{"10.244.7.7", "10.96.7.7"} {
		if _, err := machine.DialContext(t.Context(), "tcp", address+":80"); err == nil {
			t.Fatal("dialing the machine's server at an inside address failed")
		}
		connection, err := dial(pod, "tcp", address+":80")
		if err == nil {
			connection.Close()
			t.Errorf("a connection to %s was routed outside", address)
		}
	}
	// A program on the node that listens on all addresses must not get connections to 192.0.2.1.
	everywhere, err := net.Listen("tcp4", ":8080")
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close()
	connection, err := dial(pod, "tcp", server+":8080")
	if err == nil {
		_, err = connection.Read(make([]byte, 1))
		connection.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got error %v, want ECONNRESET: the connection reached the node", err)
	}
}

func TestPingToOutsideIsUnreachable(t *testing.T) {
	_, pod := run(t)
	for address, want := range map[string]error{server: unix.EHOSTUNREACH, podnet.NodeAddress.String(): nil} {
		if err := podnet.Inside(pod.Namespace, func() error { return ping(address) }); !errors.Is(err, want) {
			t.Errorf("ping(%s) = %v, want %v", address, err, want)
		}
	}
}

func ping(address string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	// The test must see the ICMP errors that come back.
	if err := unix.SetsockoptInt(socket, unix.SOL_IP, unix.IP_RECVERR, 1); err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(
		socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience.Seconds())},
	); err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4()}
	if err := unix.Connect(socket, to); err != nil {
		return err
	}
	if _, err := unix.Write(socket, []byte{8, 0, 0, 0, 0, 0, 0, 1}); err != nil {
		return err
	}
	_, err = unix.Read(socket, make([]byte, 100))
	return err
}

func TestDNSForwardsToTheMachinesResolver(t *testing.T) {
	original := resolvConf
	t.Cleanup(func() { resolvConf = original }) // when no goroutine reads it any more
	resolvConf = filepath.Join(t.TempDir(), "resolv.conf")
	machine, pod := run(t)
	question := "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01"
	asks := func(network string) (string, error) {
		connection, err := dial(pod, network, podnet.NodeAddress.String()+":53")
		if err != nil {
			return "", err
		}
		defer connection.Close()
		return exchange(connection, question)
	}
	servfail := question[:2] + "\x81\x02" + question[4:]
	if answer, err := asks("udp"); err != nil || answer != servfail {
		t.Errorf("without a name server, got answer %q, %v", answer, err)
	}
	configure := func(servers ...string) {
		t.Helper()
		content := "search example.com\nnameserver " + strings.Join(servers, "\nnameserver ") + "\n"
		if err := os.WriteFile(resolvConf, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure(resolver)
	if answer, err := asks("udp"); err != nil || answer != servfail {
		t.Errorf("with an unreachable name server, got answer %q, %v", answer, err)
	}
	servePackets(t, machine, other+":53", "")
	configure(resolver, other)
	if answer, err := asks("udp"); err != nil || answer != question {
		t.Errorf("with a second name server, got answer %q, %v", answer, err)
	}
	serve(t, machine, resolver+":53")
	if answer, err := asks("tcp"); err != nil || answer != question {
		t.Errorf("over TCP, got answer %q, %v", answer, err)
	}
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	var got []string
	for _, element := range intervals([]netip.Prefix{
		netip.MustParsePrefix("10.96.0.0/16"),
		netip.MustParsePrefix("224.0.0.0/3"),
	}) {
		address, _ := netip.AddrFromSlice(element.Key)
		text := address.String()
		if element.IntervalEnd {
			text = "before " + text
		}
		got = append(got, text)
	}
	if want := "10.96.0.0, before 10.97.0.0, 224.0.0.0"; strings.Join(got, ", ") != want {
		t.Errorf("got intervals %v, want %s", got, want)
	}
}
