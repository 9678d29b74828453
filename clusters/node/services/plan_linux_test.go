// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// String formats a plan for the tests of this package: a line for each frontend, sorted.
func (p Plan) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		route := p[name]
		for _, frontend := range route.Frontends {
			address := "node"
			if frontend.Address.IsValid() {
				address = frontend.Address.String()
			}
			line := fmt.Sprintf("%s %s:%d ->", strings.ToLower(string(frontend.Protocol)), address, frontend.Port)
			for _, backend := range route.Backends {
				line += " " + backend.String()
			}
			if route.Affinity > 0 {
				line += " for " + route.Affinity.String()
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestRules(t *testing.T) {
	t.Parallel()
	a, b, c := netip.MustParseAddr("10.244.0.5"), netip.MustParseAddr("10.244.0.6"), netip.MustParseAddr("10.244.0.7")
	withoutNode := func(e discoveryv1.Endpoint) discoveryv1.Endpoint {
		e.NodeName = nil
		return e
	}
	nodePort := func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = 30080
	}
	services := func(services ...*corev1.Service) []*corev1.Service { return services }
	slicesOf := func(all ...*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice { return all }
	for _, test := range []struct {
		name  string
		state State
		want  []string
	}{
		{"nothing", State{}, nil},
		{"no endpoints", State{Services: services(service())}, nil},
		{
			"endpoints that are ready, or without conditions",
			State{Services: services(service()), Slices: slicesOf(slice(at(b, ""), at(a, "ready")))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080 10.244.0.6:8080"},
		},
		{
			"endpoints of several slices, one of them twice",
			State{Services: services(service()), Slices: slicesOf(slice(at(a, "ready")), slice(at(b, "ready"), at(a, "ready")))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080 10.244.0.6:8080"},
		},
		{
			"endpoints that are not ready or terminating are left out",
			State{Services: services(service()), Slices: slicesOf(slice(at(a, "ready"), at(b, "not ready"), at(c, "ending")))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080"},
		},
		{
			"without ready endpoints, those terminating and serving are used",
			State{Services: services(service()), Slices: slicesOf(slice(at(a, "not ready"), at(b, "ending"), at(c, "ended")))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.6:8080"},
		},
		{
			"without serving endpoints, there is no route",
			State{Services: services(service()), Slices: slicesOf(slice(at(a, "not ready"), at(c, "ended")))},
			nil,
		},
		{
			"endpoints without a Service", State{Slices: slicesOf(slice(at(a, "ready")))}, nil,
		},
		{
			"a Service of the same name in another namespace",
			State{
				Services: services(service(func(s *corev1.Service) { s.Namespace = "other" })),
				Slices:   slicesOf(slice(at(a, "ready"))),
			},
			nil,
		},
		{
			"a headless Service",
			State{Services: services(service(func(s *corev1.Service) {
				s.Spec.ClusterIP = corev1.ClusterIPNone
			})), Slices: slicesOf(slice(at(a, "ready")))},
			nil,
		},
		{
			"a Service of type ExternalName",
			State{Services: services(service(func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeExternalName
			})), Slices: slicesOf(slice(at(a, "ready")))},
			nil,
		},
		{
			"a Service of another proxy",
			State{Services: services(service(func(s *corev1.Service) {
				s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
			})), Slices: slicesOf(slice(at(a, "ready")))},
			nil,
		},
		{
			"addresses that are not IPv4",
			State{Services: services(service(func(s *corev1.Service) {
				s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00::7")
			})), Slices: slicesOf(
				slice(at(a, "ready")), &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv6})},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080"},
		},
		{
			"a NodePort",
			State{Services: services(service(nodePort)), Slices: slicesOf(slice(at(a, "ready")))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080", "tcp node:30080 -> 10.244.0.5:8080"},
		},
		{
			"one port number for two protocols",
			State{Services: services(service(func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 80})
			})), Slices: slicesOf(func() *discoveryv1.EndpointSlice {
				s := slice(at(a, "ready"))
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{
					Name:     new("dns"),
					Protocol: ptr.To(corev1.ProtocolUDP),
					Port:     ptr.To[int32](5353),
				})
				return s
			}())},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080", "udp 10.96.0.7:80 -> 10.244.0.5:5353"},
		},
		{
			"slices with different numbers for a port",
			State{Services: services(service()), Slices: slicesOf(slice(at(a, "ready")), func() *discoveryv1.EndpointSlice {
				s := slice(at(b, "ready"))
				s.Ports[0].Port = ptr.To[int32](9090)
				return s
			}())},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080 10.244.0.6:9090"},
		},
		{
			"a port without a name and without a protocol",
			State{Services: services(service(func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
			})), Slices: slicesOf(func() *discoveryv1.EndpointSlice {
				s := slice(at(a, "ready"))
				s.Ports = []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}}
				return s
			}())},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080"},
		},
		{
			"session affinity",
			State{Services: services(service(func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			})), Slices: slicesOf(slice(at(a, "ready")))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080 for 3h0m0s"},
		},
		{
			"session affinity with a timeout",
			State{Services: services(service(func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
					ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)},
				}
			})), Slices: slicesOf(slice(at(a, "ready")))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080 for 1m0s"},
		},
		{
			"internalTrafficPolicy Local",
			State{Services: services(service(nodePort, func(s *corev1.Service) {
				s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
			})), Slices: slicesOf(slice(at(a, "ready"), withoutNode(at(b, "ready"))))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080", "tcp node:30080 -> 10.244.0.5:8080 10.244.0.6:8080"},
		},
		{
			"externalTrafficPolicy Local without ready endpoints on the node",
			State{Services: services(service(nodePort, func(s *corev1.Service) {
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			})), Slices: slicesOf(slice(at(a, "ending"), withoutNode(at(b, "ready"))))},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.6:8080", "tcp node:30080 -> 10.244.0.5:8080"},
		},
		{
			"external IPs and load balancer addresses",
			State{Services: services(service(func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"192.0.2.1"}
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
					{IP: "192.0.2.2"}, {IP: "192.0.2.3", IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)}, {Hostname: "example.com"},
				}
			})), Slices: slicesOf(slice(at(a, "ready")))},
			[]string{
				"tcp 10.96.0.7:80 -> 10.244.0.5:8080", "tcp 192.0.2.1:80 -> 10.244.0.5:8080", "tcp 192.0.2.2:80 -> 10.244.0.5:8080",
			},
		},
		{
			"an address of two Services belongs to the first name",
			State{Services: services(service(func(s *corev1.Service) { s.Name = "zebra" }), service()), Slices: slicesOf(
				slice(at(a, "ready")), func() *discoveryv1.EndpointSlice {
					s := slice(at(b, "ready"))
					s.Labels[discoveryv1.LabelServiceName] = "zebra"
					return s
				}())},
			[]string{"tcp 10.96.0.7:80 -> 10.244.0.5:8080"},
		},
		{
			"host ports",
			State{HostPorts: map[string]HostPorts{"abc": {Address: a, Ports: []HostPort{
				{HostPort: 8888, ContainerPort: 80},
				{HostPort: 8889, ContainerPort: 81, HostIP: netip.MustParseAddr("127.0.0.1"), Protocol: corev1.ProtocolUDP},
				{HostPort: 8889, ContainerPort: 82, HostIP: netip.MustParseAddr("10.244.0.1"), Protocol: corev1.ProtocolUDP},
				{HostPort: 8890, ContainerPort: 83, HostIP: netip.IPv4Unspecified()},
			}}}},
			[]string{
				"tcp node:8888 -> 10.244.0.5:80", "tcp node:8890 -> 10.244.0.5:83",
				"udp 10.244.0.1:8889 -> 10.244.0.5:82", "udp 127.0.0.1:8889 -> 10.244.0.5:81",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.state.Node = "node"
			if got, want := Rules(test.state).String(), strings.Join(test.want, "\n"); got != want {
				t.Errorf("got plan\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestPublished(t *testing.T) {
	t.Parallel()
	owner := Owner{"Service", types.NamespacedName{Namespace: "default", Name: "web"}, "uid"}
	at := Frontend{Address: localhost, Protocol: corev1.ProtocolUDP, Port: 53}
	plan := planOf(Route{
		Name:      "a",
		Backends:  []netip.AddrPort{netip.MustParseAddrPort("10.244.0.5:80")},
		Frontends: []Frontend{web, at, nodePort},
		Owner:     owner,
	})
	want := []Port{{nodePort, owner}, {at, owner}}
	if got := plan.Published(); !slices.Equal(got, want) {
		t.Errorf("Published() = %v, want %v", got, want)
	}
}

func TestPublishedHostPortBelongsToItsPod(t *testing.T) {
	t.Parallel()
	owner := Owner{"Pod", types.NamespacedName{Namespace: "default", Name: "web-0"}, "uid"}
	plan := Rules(State{HostPorts: map[string]HostPorts{
		"abc": {
			Owner:   owner,
			Address: netip.MustParseAddr("10.244.0.5"),
			Ports:   []HostPort{{HostPort: 8888, ContainerPort: 80}},
		},
	}})
	want := []Port{{Frontend{Protocol: corev1.ProtocolTCP, Port: 8888}, owner}}
	if got := plan.Published(); !slices.Equal(got, want) {
		t.Errorf("Published() = %v, want %v", got, want)
	}
}
