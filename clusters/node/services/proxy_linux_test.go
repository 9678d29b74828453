// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/embedded"
)

// startAPI starts an API server in the test's own network.
func startAPI(t *testing.T) kubernetes.Interface {
	t.Helper()
	program, err := controlPlane()
	if err == nil {
		err = unix.Access(filepath.Dir(program.Path), unix.W_OK)
	}
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("the checkout belongs to another user, for whom this test has run already")
	}
	if err != nil {
		t.Fatal(err)
	}
	// The cluster has controllers, which create the ServiceAccount that a Pod needs.
	cluster, err := embedded.Start(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// apiPatience is for a server that shares the machine with all other tests.
const apiPatience = time.Minute

// published records the last call.
type published struct {
	mutex sync.Mutex
	ports []Port
}

func (p *published) set(ports []Port) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.ports = ports
}

func (p *published) has(port uint16) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(p.ports, func(known Port) bool { return known.Port == port })
}

func TestKernelFollowsTheAPI(t *testing.T) {
	w := newWorld(t, "client", "one")
	client := startAPI(t)
	ctx, end := context.WithCancelCause(context.Background())
	over, stopped := errors.New("the test is over"), make(chan error, 1)
	ports := &published{}
	proxy, err := New(Options{Client: client, Node: "node", Publish: ports.set, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	go func() { stopped <- proxy.Run(ctx) }()
	t.Cleanup(func() {
		end(over)
		if err := <-stopped; !errors.Is(err, over) {
			t.Error(err)
		}
	})
	// until waits until the kernel has applied a change in the API.
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(apiPatience); !is(); <-time.After(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: timed out after %s", what, apiPatience)
			}
		}
	}
	answers := func(address string) func() bool {
		return func() bool {
			pod, _, err := w.ask("client", "tcp", address)
			if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatal(err)
			}
			return pod == "one"
		}
	}
	refuses := func(address string) func() bool { return func() bool { return !answers(address)() } }

	web := service(func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	})
	web, err = client.CoreV1().Services("default").Create(ctx, web, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := web.Spec.ClusterIP + ":80"
	if !refuses(address)() {
		t.Error("a Service without endpoints accepted a connection")
	}
	// A finalizer keeps the Pod when it is deleted, as the kubelet does until its programs have ended.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Finalizers: []string{"test.lva.io/still-running"}},
		Spec: corev1.PodSpec{
			NodeName: "node", Containers: []corev1.Container{{Name: "web", Image: "web"}},
			AutomountServiceAccountToken: new(bool),
		},
	}
	if pod, err = client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	endpoints := slice(at(w.pods["one"].Address, "ready"))
	endpoints.Endpoints[0].TargetRef.UID = pod.UID
	endpoints.Labels["endpointslice.kubernetes.io/managed-by"] = managed
	if endpoints, err = client.DiscoveryV1().EndpointSlices("default").Create(
		ctx, endpoints, metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	until("the Service answers", answers(address))
	until("its NodePort answers", answers("10.244.0.1:30080"))
	until("its NodePort is published", func() bool { return ports.has(30080) })

	proxy.SetHostPorts("abc", HostPorts{
		Address: w.pods["one"].Address,
		Ports:   []HostPort{{HostPort: 8888, ContainerPort: 8080}},
	})
	until("the Pod's own port answers", answers("10.244.0.1:8888"))
	proxy.ClearHostPorts("abc")
	until("the Pod's own port refuses", refuses("10.244.0.1:8888"))

	drained := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return proxy.Drained(ctx, Pod{
			Name: types.NamespacedName{Namespace: "default", Name: "one"}, UID: pod.UID,
			Address: w.pods["one"].Address, Namespace: w.pods["one"].Namespace,
		})
	}
	if err := drained(apiPatience); err != nil {
		t.Errorf("Drained() error for a Pod that is not being deleted = %v", err)
	}
	if err := client.CoreV1().Pods("default").Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := drained(time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drained() error while connections are routed to the deleted Pod = %v, want DeadlineExceeded", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- drained(apiPatience) }()
	endpoints.Endpoints = nil
	if _, err := client.DiscoveryV1().EndpointSlices("default").Update(
		ctx, endpoints, metav1.UpdateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Drained() error after the Pod was removed from its slice = %v", err)
	}
	if !refuses(address)() {
		t.Error("Drained() returned while connections were routed to the Pod")
	}
	until("the NodePort is published no longer", func() bool { return !ports.has(30080) })

	if err := client.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("the kernel knows of no Service but the API server's", func() bool {
		proxy.mutex.Lock()
		defer proxy.mutex.Unlock()
		return len(proxy.readyPods) == 0
	})
}
