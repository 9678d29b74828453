// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/egress"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/grading/stage/install"
)

// Route is how an API server that calls a Service reaches the operator on this machine.
type Route interface {
	open(target install.Target) (router, error)
	// endpoints returns the IP address for the endpoints of an aggregated API server on this machine.
	endpoints() string
}

// router routes the requests for Services to this machine until it is closed.
type router interface {
	// adapt changes a Service before it is created.
	adapt(service *unstructured.Unstructured)
	// route routes the ports of a created Service to ports of this machine.
	route(ctx context.Context, client dynamic.Interface, made *unstructured.Unstructured, ports map[int32]int) error
	Close() error
}

// ByEgress returns the Route of an embedded cluster, whose API server connects to Services through the socket.
func ByEgress(socket string) Route { return byEgress(socket) }

type byEgress string

func (r byEgress) open(install.Target) (router, error) {
	router, err := egress.Listen(string(r))
	if err != nil {
		return nil, err
	}
	return egressRouter{router}, nil
}

// endpoints returns an address to which no request is sent: the API server only checks whether endpoints exist.
func (r byEgress) endpoints() string { return embedded.MachineIP }

type egressRouter struct{ *egress.Router }

func (egressRouter) adapt(*unstructured.Unstructured) {}

func (r egressRouter) route(
	_ context.Context, _ dynamic.Interface, made *unstructured.Unstructured, ports map[int32]int,
) error {
	ip, _, _ := unstructured.NestedString(made.Object, "spec", "clusterIP")
	if net.ParseIP(ip) == nil {
		return nil // a Service without an address: the API server reports that it can't reach it
	}
	for port, local := range ports {
		r.Route(net.JoinHostPort(ip, strconv.Itoa(int(port))), localAddress(local))
	}
	return nil
}

// ByNode returns the Route of an embedded cluster with a node. As with ByEgress, the API server connects through the
// socket. In addition, Pods that call the Service are routed to this machine while the operator is prepared, by the
// node's address for programs of this machine.
func ByNode(socket, machine string) Route { return byNode{socket, machine} }

type byNode struct{ socket, machine string }

func (r byNode) open(target install.Target) (router, error) {
	router, err := egress.Listen(r.socket)
	if err != nil {
		return nil, err
	}
	return &nodeRouter{egressRouter: egressRouter{router}, pods: addressed{r.machine, target}}, nil
}

func (r byNode) endpoints() string { return r.machine }

// nodeRouter routes the API server's requests at its socket, and those of Pods by endpoints.
type nodeRouter struct {
	egressRouter
	pods   addressed
	remove []func(context.Context) error
}

func (n *nodeRouter) route(
	ctx context.Context, client dynamic.Interface, made *unstructured.Unstructured, ports map[int32]int,
) error {
	if err := n.egressRouter.route(ctx, client, made, ports); err != nil {
		return err
	}
	for _, local := range ports {
		n.Route(net.JoinHostPort(n.pods.ip, strconv.Itoa(local)), localAddress(local))
	}
	n.remove = append(n.remove, func(ctx context.Context) error {
		return client.Resource(slicesResource).Namespace(made.GetNamespace()).
			Delete(ctx, sliceName(made), metav1.DeleteOptions{})
	})
	return n.pods.route(ctx, client, made, ports)
}

// Close removes the endpoints first, so that Pods are refused as before, and not routed to a closed port.
func (n *nodeRouter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var problems []error
	for _, remove := range n.remove {
		// If the cluster has ended in the meantime, the endpoints are gone as well.
		if err := remove(ctx); err != nil && !apierrors.IsNotFound(err) && !utilnet.IsConnectionRefused(err) {
			problems = append(problems, fmt.Errorf("removing the endpoints of the operator on this machine: %w", err))
		}
	}
	return errors.Join(append(problems, n.egressRouter.Close())...)
}

// closeTimeout is how long the API server may take to remove or update endpoints.
const closeTimeout = 5 * time.Second

// ByAddress returns the Route of a shared cluster that reaches this machine at an IP address: the Services select no
// Pods, and their only endpoint is this machine.
func ByAddress(ip string) Route { return byAddress(ip) }

type byAddress string

func (r byAddress) open(target install.Target) (router, error) {
	return &addressed{string(r), target}, nil
}

func (r byAddress) endpoints() string { return string(r) }

// addressed routes the requests for Services to an IP address of this machine.
type addressed struct {
	ip     string
	target install.Target
}

func (*addressed) Close() error { return nil }

func (*addressed) adapt(service *unstructured.Unstructured) {
	unstructured.RemoveNestedField(service.Object, "spec", "selector")
}

// NoRoute returns the Route of a cluster that is not known to reach this machine. Prepare returns the reason for a
// submission with webhooks.
func NoRoute(reason error) Route { return noRoute{reason} }

type noRoute struct{ reason error }

func (r noRoute) open(install.Target) (router, error) { return nil, r.reason }

func (r noRoute) endpoints() string { return "" }

var slicesResource = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}

// sliceName returns the name of the EndpointSlice of a Service that points to this machine.
func sliceName(service *unstructured.Unstructured) string {
	return service.GetName() + "-operator-labs"
}

func (a *addressed) route(
	ctx context.Context, client dynamic.Interface, made *unstructured.Unstructured, ports map[int32]int,
) error {
	return a.routeIf(ctx, client, made, ports, true)
}

// routeIf is route with the given readiness of the operator.
func (a *addressed) routeIf(
	ctx context.Context, client dynamic.Interface, made *unstructured.Unstructured, ports map[int32]int, ready bool,
) error {
	slice := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: slicesResource.GroupVersion().String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name: sliceName(made), Namespace: made.GetNamespace(),
			Labels: map[string]string{
				discoveryv1.LabelServiceName: made.GetName(),
				discoveryv1.LabelManagedBy:   install.FieldManager,
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{a.ip},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
	}
	if ip := net.ParseIP(a.ip); ip != nil && ip.To4() == nil {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	declared, _, _ := unstructured.NestedSlice(made.Object, "spec", "ports")
	for _, one := range declared {
		port, ok := one.(map[string]any)
		if !ok {
			continue
		}
		number, _ := port["port"].(int64)
		name, _ := port["name"].(string)
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: new(int32(ports[int32(number)]))})
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(slice)
	if err != nil {
		return err
	}
	_, err = a.target.Apply(ctx, client.Resource(slicesResource).Namespace(made.GetNamespace()),
		&unstructured.Unstructured{Object: object})
	return err
}
