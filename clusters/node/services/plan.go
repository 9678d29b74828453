// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Frontend is an address and port that clients connect to.
type Frontend struct {
	// Address is a Service's address. The zero address stands for all addresses of the node.
	Address  netip.Addr
	Protocol corev1.Protocol
	Port     uint16
}

// Route routes connections to any of its frontends to one of its backends.
type Route struct {
	// Name identifies the route in the kernel: namespace/service/protocol/port.
	Name string
	// Frontends are sorted.
	Frontends []Frontend
	// Backends are sorted. There is at least one.
	Backends []netip.AddrPort
	// Affinity is how long a client is routed to the same backend. 0: there is no affinity.
	Affinity time.Duration
	// Owner is the object that the route belongs to.
	Owner Owner
}

// Owner is a Service or a Pod, for messages about it.
type Owner struct {
	// Kind is "Service" or "Pod".
	Kind string
	types.NamespacedName
	UID types.UID
}

// Port is a port of the node that the machine publishes, too.
type Port struct {
	Frontend
	Owner Owner
}

// Plan has everything that the kernel must know, by the names of the Routes. Connections to other frontends are
// refused. A Service without endpoints has no Route.
type Plan map[string]Route

// State has the objects that a Plan is computed from.
type State struct {
	Services []*corev1.Service
	Slices   []*discoveryv1.EndpointSlice
	// Node is the name of this node, which determines which endpoints are local.
	Node string
	// HostPorts are the host ports of Pods, by the IDs of their sandboxes.
	HostPorts map[string]HostPorts
}

// HostPorts are the ports of a Pod that are also ports of the node.
type HostPorts struct {
	Owner   Owner
	Address netip.Addr
	Ports   []HostPort
}

// HostPort is a port of the node that is routed to a Pod.
type HostPort struct {
	// HostIP is the node's address for the port. The zero address, and 0.0.0.0, stand for all of them.
	HostIP        netip.Addr
	Protocol      corev1.Protocol
	HostPort      uint16
	ContainerPort uint16
}

// notOurs are the labels of Service and EndpointSlice objects that this proxy does not serve.
var notOurs = []string{"service.kubernetes.io/service-proxy-name", corev1.IsHeadlessService}

// Rules computes a Plan from the objects of the API. It keeps no state, and makes no requests.
func Rules(state State) Plan {
	plan := Plan{}
	slicesOf := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range state.Slices {
		if slice.AddressType == discoveryv1.AddressTypeIPv4 {
			service := slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
			slicesOf[service] = append(slicesOf[service], slice)
		}
	}
	for _, service := range state.Services {
		if !isProxied(service) {
			continue
		}
		for _, port := range service.Spec.Ports {
			endpoints := endpointsOf(port, slicesOf[service.Namespace+"/"+service.Name])
			plan.add(insideRoute(service, port, endpoints, state.Node))
			plan.add(outsideRoute(service, port, endpoints, state.Node))
		}
	}
	for id, pod := range state.HostPorts {
		for _, port := range pod.Ports {
			plan.add(hostPortRoute(id, pod, port))
		}
	}
	plan.resolveConflicts()
	return plan
}

// isProxied reports whether this proxy serves a Service. It leaves headless Services and those of type ExternalName to
// the DNS server, because they have no address of their own, and labelled Services to another proxy.
func isProxied(service *corev1.Service) bool {
	if service.Spec.Type == corev1.ServiceTypeExternalName ||
		service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return false
	}
	for _, label := range notOurs {
		if _, ok := service.Labels[label]; ok {
			return false
		}
	}
	return true
}

func (p Plan) add(route Route) {
	if len(route.Frontends) == 0 || len(route.Backends) == 0 {
		return
	}
	slices.SortFunc(route.Frontends, compareFrontends)
	route.Frontends = slices.Compact(route.Frontends)
	slices.SortFunc(route.Backends, netip.AddrPort.Compare)
	route.Backends = slices.Compact(route.Backends)
	p[route.Name] = route
}

func compareFrontends(a, b Frontend) int {
	return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
}

// resolveConflicts assigns a frontend that several Routes have to the one with the first name, because the kernel's
// maps have one entry for a key. The API server and the scheduler make sure that Services and Pods don't collide. Only
// external addresses, which users choose, still can.
func (p Plan) resolveConflicts() {
	owner := map[Frontend]string{}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		route := p[name]
		route.Frontends = slices.DeleteFunc(route.Frontends, func(frontend Frontend) bool {
			first, taken := owner[frontend]
			if !taken {
				owner[frontend] = name
			}
			return taken && first != name
		})
		if p[name] = route; len(route.Frontends) == 0 {
			delete(p, name)
		}
	}
}

// endpoint is an endpoint to which a port of a Service may be routed.
type endpoint struct {
	address                     netip.AddrPort
	node                        string
	ready, serving, terminating bool
}

// endpointsOf finds the endpoints of one port. Slices use the names of the Service's ports. Each slice may have another
// number for a port.
func endpointsOf(port corev1.ServicePort, slices []*discoveryv1.EndpointSlice) (endpoints []endpoint) {
	for _, slice := range slices {
		for _, candidate := range slice.Ports {
			if ptr.Deref(candidate.Name, "") != port.Name ||
				ptr.Deref(candidate.Protocol, corev1.ProtocolTCP) != protocolOf(port.Protocol) || candidate.Port == nil {
				continue
			}
			for _, e := range slice.Endpoints {
				for _, text := range e.Addresses {
					address, err := netip.ParseAddr(text)
					if err != nil || !address.Is4() {
						continue
					}
					// As the API defines it, an endpoint without a ready condition is ready.
					ready := ptr.Deref(e.Conditions.Ready, true)
					endpoints = append(endpoints, endpoint{
						address:     netip.AddrPortFrom(address, uint16(*candidate.Port)),
						node:        ptr.Deref(e.NodeName, ""),
						ready:       ready,
						serving:     ptr.Deref(e.Conditions.Serving, ready),
						terminating: ptr.Deref(e.Conditions.Terminating, false),
					})
				}
			}
		}
	}
	return endpoints
}

// chosen returns the endpoints for new connections: those that are ready. If there are none, it returns those that are
// about to end and still answer. Otherwise a rolling update of a single replica would lose connections (KEP-1669).
func chosen(endpoints []endpoint, counts func(endpoint) bool) (backends []netip.AddrPort) {
	for _, condition := range []func(endpoint) bool{
		func(e endpoint) bool { return e.ready },
		func(e endpoint) bool { return e.serving && e.terminating },
	} {
		for _, e := range endpoints {
			if counts(e) && condition(e) {
				backends = append(backends, e.address)
			}
		}
		if len(backends) > 0 {
			return backends
		}
	}
	return nil
}

// counting returns which endpoints a traffic policy counts: all, or those on this node. All Pods are on this node.
// Endpoints that a user wrote by hand are often on none.
func counting(local bool, node string) func(endpoint) bool {
	return func(e endpoint) bool { return !local || e.node == node }
}

// insideRoute returns the route that Pods and the node use to a Service: by its ClusterIP.
func insideRoute(service *corev1.Service, port corev1.ServicePort, endpoints []endpoint, node string) Route {
	local := ptr.Deref(service.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster) ==
		corev1.ServiceInternalTrafficPolicyLocal
	route := newRoute(service, port, "", chosen(endpoints, counting(local, node)))
	for _, text := range append(slices.Clone(service.Spec.ClusterIPs), service.Spec.ClusterIP) {
		route.addFrontend(text, port.Protocol, port.Port)
	}
	return route
}

// outsideRoute returns the route that other clients use: by ports of the node, and by addresses that other systems
// route here.
func outsideRoute(service *corev1.Service, port corev1.ServicePort, endpoints []endpoint, node string) Route {
	local := service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	route := newRoute(service, port, "/external", chosen(endpoints, counting(local, node)))
	if port.NodePort != 0 {
		route.Frontends = append(route.Frontends, Frontend{Protocol: protocolOf(port.Protocol), Port: uint16(port.NodePort)})
	}
	for _, text := range service.Spec.ExternalIPs {
		route.addFrontend(text, port.Protocol, port.Port)
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ptr.Deref(ingress.IPMode, corev1.LoadBalancerIPModeVIP) == corev1.LoadBalancerIPModeVIP {
			route.addFrontend(ingress.IP, port.Protocol, port.Port)
		}
	}
	return route
}

func newRoute(service *corev1.Service, port corev1.ServicePort, suffix string, backends []netip.AddrPort) Route {
	route := Route{Backends: backends, Owner: Owner{
		"Service", types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, service.UID,
	}}
	route.Name = fmt.Sprintf("%s/%s/%s/%d%s",
		service.Namespace, service.Name, protocolOf(port.Protocol), port.Port, suffix)
	if service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		seconds := corev1.DefaultClientIPServiceAffinitySeconds
		if config := service.Spec.SessionAffinityConfig; config != nil && config.ClientIP != nil {
			seconds = ptr.Deref(config.ClientIP.TimeoutSeconds, seconds)
		}
		route.Affinity = time.Duration(seconds) * time.Second
	}
	return route
}

// hostPortRoute returns the route for a host port, which is like a Service of one Pod.
func hostPortRoute(id string, pod HostPorts, port HostPort) Route {
	frontend := Frontend{Address: port.HostIP, Protocol: protocolOf(port.Protocol), Port: port.HostPort}
	if frontend.Address.IsUnspecified() {
		frontend.Address = netip.Addr{}
	}
	name := fmt.Sprintf("hostport/%s/%s/%d", id, frontend.Protocol, port.HostPort)
	if frontend.Address.IsValid() {
		name += "/" + frontend.Address.String()
	}
	return Route{
		Name:      name,
		Frontends: []Frontend{frontend},
		Backends:  []netip.AddrPort{netip.AddrPortFrom(pod.Address, port.ContainerPort)},
		Owner:     pod.Owner,
	}
}

// addFrontend adds an address as a frontend. This cluster has only IPv4 addresses.
func (r *Route) addFrontend(text string, protocol corev1.Protocol, port int32) {
	if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
		r.Frontends = append(r.Frontends, Frontend{Address: address, Protocol: protocolOf(protocol), Port: uint16(port)})
	}
}

// Published returns the ports that the machine publishes, too: those on all of the node's addresses, and on its
// 127.0.0.1.
func (p Plan) Published() (ports []Port) {
	for _, route := range p {
		for _, frontend := range route.Frontends {
			if !frontend.Address.IsValid() || frontend.Address.IsLoopback() {
				ports = append(ports, Port{frontend, route.Owner})
			}
		}
	}
	slices.SortFunc(ports, func(a, b Port) int { return compareFrontends(a.Frontend, b.Frontend) })
	return ports
}

func protocolOf(protocol corev1.Protocol) corev1.Protocol {
	return cmp.Or(protocol, corev1.ProtocolTCP)
}
