// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// services returns Services with these node ports.
func services(ports ...int32) (all []corev1.Service) {
	for _, port := range ports {
		all = append(all, corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{NodePort: port}}}})
	}
	return all
}

// TestPortsAreReusedInTurn checks that a port is drawn again only after all others, in every round, and ports of other
// Services are never drawn.
func TestPortsAreReusedInTurn(t *testing.T) {
	t.Parallel()
	ports, err := freePorts(services(FirstPort, 30080, LastPort), rand.New(rand.NewPCG(1, 8)))
	if err != nil {
		t.Fatal(err)
	}
	const free = LastPort - FirstPort + 1 - 3
	last := map[int32]int{FirstPort: 0, 30080: 0, LastPort: 0}
	for n := range 3 * free {
		port := ports.Draw()
		if before, drawn := last[port]; drawn && (before == 0 || n+1-before != free) {
			t.Fatalf("port %d was drawn as number %d, and before as number %d", port, n+1, before)
		}
		if port < FirstPort || port > LastPort {
			t.Fatalf("%d is not a node port", port)
		}
		last[port] = n + 1
	}
}

func TestFreePortsExhausted(t *testing.T) {
	t.Parallel()
	var all []int32
	for port := int32(FirstPort); port <= LastPort; port++ {
		all = append(all, port)
	}
	if _, err := freePorts(services(all...), rand.New(rand.NewPCG(1, 8))); err == nil ||
		!strings.Contains(err.Error(), "all node ports") {
		t.Errorf("freePorts() error = %v", err)
	}
}
