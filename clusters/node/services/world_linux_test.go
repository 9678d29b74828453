// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"lva.io/operators/clusters/node/podnet"
)

const patience = 5 * time.Second

// world is a node's network with some Pods. Each Pod answers with its name and the client's address.
type world struct {
	t       testing.TB
	network *podnet.Network
	kernel  *kernel
	pods    map[string]*podnet.Pod
}

func newWorld(tb testing.TB, names ...string) *world {
	tb.Helper()
	network, err := podnet.Open()
	if err != nil {
		tb.Fatal(err)
	}
	kernel, err := openKernel()
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{tb, network, kernel, map[string]*podnet.Pod{}}
	for _, name := range names {
		w.attach(name)
	}
	tb.Cleanup(func() {
		for id := range network.Pods() {
			if err := network.Detach(id); err != nil {
				tb.Error(err)
			}
		}
		network.Close()
		kernel.conn.AddTable(kernel.table) // there may be none yet
		kernel.conn.DelTable(kernel.table)
		if err := errors.Join(kernel.conn.Flush(), kernel.close()); err != nil {
			tb.Error(err)
		}
	})
	return w
}

func (w *world) attach(name string) *podnet.Pod {
	w.t.Helper()
	pod, err := w.network.Attach(name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { pod.Namespace.Close() })
	w.pods[name] = pod
	w.serve(pod.ID)
	return pod
}

// serve answers on port 8080, over TCP and UDP.
func (w *world) serve(name string) {
	w.t.Helper()
	var listener net.Listener
	var packets net.PacketConn
	if err := podnet.Inside(w.pods[name].Namespace, func() (err error) {
		if listener, err = net.Listen("tcp4", ":8080"); err != nil {
			return err
		}
		packets, err = net.ListenPacket("udp4", ":8080")
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { listener.Close(); packets.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(connection, name)
		}
	}()
	go func() {
		question := make([]byte, 100)
		for {
			_, from, err := packets.ReadFrom(question)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo([]byte(name+" "+host(from)), from)
		}
	}()
}

// answer writes the Pod's name and the client's address each time a byte arrives.
func answer(connection net.Conn, name string) {
	defer connection.Close()
	question := make([]byte, 1)
	for {
		if _, err := connection.Read(question); err != nil {
			return
		}
		if _, err := io.WriteString(connection, name+" "+host(connection.RemoteAddr())); err != nil {
			return
		}
	}
}

func host(address net.Addr) string {
	host, _, _ := net.SplitHostPort(address.String())
	return host
}

// ask sends a question from a Pod, or from the node if from is empty.
func (w *world) ask(from, network, address string) (pod, client string, err error) {
	err = w.inside(from, func() error {
		pod, client, err = ask(network, address)
		return err
	})
	return pod, client, err
}

func (w *world) inside(pod string, f func() error) error {
	if pod == "" {
		return f()
	}
	return podnet.Inside(w.pods[pod].Namespace, f)
}

func ask(network, address string) (pod, client string, err error) {
	connection, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return "", "", err
	}
	defer connection.Close()
	return askOn(connection)
}

func askOn(connection net.Conn) (pod, client string, err error) {
	_ = connection.SetDeadline(time.Now().Add(patience))
	if _, err := connection.Write([]byte("?")); err != nil {
		return "", "", err
	}
	reply := make([]byte, 100)
	n, err := connection.Read(reply)
	if err != nil {
		return "", "", err
	}
	pod, client, _ = strings.Cut(string(reply[:n]), " ")
	return pod, client, nil
}

func (w *world) apply(plan Plan) {
	w.t.Helper()
	if err := w.kernel.apply(plan); err != nil {
		w.t.Fatal(err)
	}
}

// backends returns the addresses and ports of Pods.
func (w *world) backends(names ...string) (backends []netip.AddrPort) {
	for _, name := range names {
		backends = append(backends, netip.AddrPortFrom(w.pods[name].Address, 8080))
	}
	return backends
}

// planOf returns a plan as Rules does.
func planOf(routes ...Route) Plan {
	plan := Plan{}
	for _, route := range routes {
		plan.add(route)
	}
	return plan
}

var (
	webAddress = netip.MustParseAddr("10.96.0.7")
	web        = Frontend{Address: webAddress, Protocol: corev1.ProtocolTCP, Port: 80}
	dns        = Frontend{Address: webAddress, Protocol: corev1.ProtocolUDP, Port: 53}
	nodePort   = Frontend{Protocol: corev1.ProtocolTCP, Port: 30080}
)

// service returns the Service default/web with one port.
func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"},
			Ports: []corev1.ServicePort{{
				Name:       "http",
				Protocol:   corev1.ProtocolTCP,
				Port:       80,
				TargetPort: intstr.FromInt32(8080),
			}},
		},
	}
	for _, change := range change {
		change(s)
	}
	return s
}

// slice returns an EndpointSlice of default/web, with endpoints at one port.
func slice(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      "web-1",
			Labels:    map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   endpoints,
		Ports: []discoveryv1.EndpointPort{{
			Name:     new("http"),
			Protocol: ptr.To(corev1.ProtocolTCP),
			Port:     ptr.To[int32](8080),
		}},
	}
}

// at returns the endpoint of a Pod whose UID is its address. condition is "ready", "not ready", "ending" (it still
// answers), "ended" (it doesn't), or "" (no conditions are set).
func at(address fmt.Stringer, condition string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address.String()}, NodeName: new("node")}
	e.TargetRef = &corev1.ObjectReference{Kind: "Pod", UID: uid(address)}
	if condition != "" {
		e.Conditions = discoveryv1.EndpointConditions{
			Ready: new(condition == "ready"), Serving: new(condition == "ready" || condition == "ending"),
			Terminating: new(condition == "ending" || condition == "ended"),
		}
	}
	return e
}

func uid(address fmt.Stringer) types.UID { return types.UID(address.String()) }
