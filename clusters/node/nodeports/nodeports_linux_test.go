// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package nodeports

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/clusters/node/nodetest"
	"lva.io/operators/clusters/node/podnet"
	"lva.io/operators/clusters/node/services"
)

const patience = 5 * time.Second

var (
	owner = services.Owner{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}}
	tcp   = services.Port{Frontend: services.Frontend{Protocol: corev1.ProtocolTCP, Port: 30080}, Owner: owner}
	udp   = services.Port{Frontend: services.Frontend{Protocol: corev1.ProtocolUDP, Port: 30080}, Owner: owner}
)

// inside sets up the node, with programs on its ports in place of Services.
func inside(t *testing.T) {
	t.Helper()
	network, err := podnet.Open()
	if err != nil {
		t.Fatal(err)
	}
	network.Close()
	for _, address := range []string{"10.244.0.1:30080", "127.0.0.1:30081"} {
		listener, err := net.Listen("tcp4", address)
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
				}()
			}
		}()
		packets, err := net.ListenPacket("udp4", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { packets.Close() })
		go func() {
			packet := make([]byte, 100)
			for {
				n, from, err := packets.ReadFrom(packet)
				if err != nil {
					return
				}
				_, _ = packets.WriteTo(append(packet[:n:n], from.String()...), from)
			}
		}()
	}
}

type problems struct {
	mutex sync.Mutex
	all   []string
}

func (p *problems) add(port services.Port, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.all = append(p.all, port.Owner.String()+": "+err.Error())
}

func (p *problems) count() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.all)
}

func newPorts(t *testing.T, machine Machine) (*Ports, *problems) {
	t.Helper()
	p := &problems{}
	ports := New(machine, p.add)
	t.Cleanup(ports.Close)
	return ports, p
}

func exchange(t *testing.T, machine *nodetest.Machine, network, address string) (answer string, err error) {
	t.Helper()
	connection, err := machine.DialContext(t.Context(), network, address)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	return exchangeOn(connection)
}

func exchangeOn(connection net.Conn) (answer string, err error) {
	_ = connection.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(connection, "hello"); err != nil {
		return "", err
	}
	reply := make([]byte, 100)
	n, err := connection.Read(reply)
	return string(reply[:n]), err
}

func TestMachineReachesNodePorts(t *testing.T) {
	inside(t)
	machine := nodetest.NewMachine(t)
	ports, problems := newPorts(t, machine)
	// at is a hostPort.
	at := services.Port{Frontend: services.Frontend{Address: localhost, Protocol: corev1.ProtocolTCP, Port: 30081}}
	ports.Publish([]services.Port{tcp, udp, at})
	for network, address := range map[string]string{
		"tcp":  "127.0.0.1:30080",
		"udp":  "127.0.0.1:30080",
		"tcp4": "127.0.0.1:30081",
	} {
		if answer, err := exchange(t, machine, network, address); err != nil || !strings.HasPrefix(answer, "hello") {
			t.Errorf("%s %s: got answer %q, %v", network, address, answer, err)
		}
	}
	// Each program of the machine has a conversation of its own.
	one, _ := exchange(t, machine, "udp", "127.0.0.1:30080")
	if other, _ := exchange(t, machine, "udp", "127.0.0.1:30080"); one == other {
		t.Errorf("the Pod sees two clients at the same address %s", one)
	}
	if problems.count() > 0 || ports.String() != "tcp/30080 tcp/30081 udp/30080" {
		t.Errorf("open ports = %s, reported problems = %v", ports, problems.all)
	}
}

func TestUnpublishedPortRefusesNewConnections(t *testing.T) {
	inside(t)
	machine := nodetest.NewMachine(t)
	ports, _ := newPorts(t, machine)
	ports.Publish([]services.Port{tcp, udp})
	open, err := machine.DialContext(t.Context(), "tcp", "127.0.0.1:30080")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := exchangeOn(open); err != nil {
		t.Fatal(err)
	}
	ports.Publish([]services.Port{udp})
	if _, err := exchange(t, machine, "tcp", "127.0.0.1:30080"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting to the closed port: %v, want ECONNREFUSED", err)
	}
	if answer, err := exchangeOn(open); err != nil || answer != "hello" {
		t.Errorf("the open connection returned %q, %v", answer, err)
	}
	if _, err := exchange(t, machine, "udp", "127.0.0.1:30080"); err != nil {
		t.Errorf("the other port returned: %v", err)
	}
	ports.Close()
	if _, err := exchangeOn(open); err == nil {
		t.Error("a connection is still open after Close")
	}
}

func TestTakenPortIsReportedOnceAndRetried(t *testing.T) {
	inside(t)
	machine := nodetest.NewMachine(t)
	taken, err := machine.Listen(t.Context(), "tcp4", "127.0.0.1:30080")
	if err != nil {
		t.Fatal(err)
	}
	ports, problems := newPorts(t, machine)
	ports.Publish([]services.Port{tcp, udp})
	ports.Publish([]services.Port{tcp, udp})
	if want := "default/web: TCP port 30080 of this machine's 127.0.0.1 " +
		"is in use by another program"; problems.count() != 1 || !strings.HasPrefix(problems.all[0], want) {
		t.Errorf("reported problems = %q", problems.all)
	}
	if ports.String() != "udp/30080" || len(ports.Failed()) != 1 {
		t.Errorf("open ports = %s, failed ports = %v", ports, ports.Failed())
	}
	taken.Close()
	for deadline := time.Now().Add(patience); ports.String() != "tcp/30080 udp/30080"; <-time.After(
		10 * time.Millisecond,
	) {
		if time.Now().After(deadline) {
			t.Fatalf("open ports = %s, want the released port among them", ports)
		}
	}
	if answer, err := exchange(t, machine, "tcp", "127.0.0.1:30080"); err != nil || answer != "hello" {
		t.Errorf("got answer %q, %v", answer, err)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	low := services.Frontend{Protocol: corev1.ProtocolTCP, Port: 80}
	if err := explain(
		low, &net.OpError{Op: "listen", Err: syscall.EACCES},
	); !strings.Contains(err.Error(), "choose port 1024 or higher") {
		t.Error(err)
	}
	if err := explain(low, context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
