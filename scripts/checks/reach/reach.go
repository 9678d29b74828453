// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/kubectl/pkg/util/podutils"
)

// Tunnel is a tunnel from an address of this machine to a port of a Pod.
type Tunnel struct {
	// Address is host:port on this machine.
	Address string

	stop  chan struct{}
	ended chan error
}

// Close closes the tunnel. It cuts open connections.
func (w *Tunnel) Close() {
	close(w.stop)
	<-w.ended //nolint:errcheck // the error only reports that we have ended it
}

// Pod opens a tunnel to a port of a running Pod. The caller closes it.
func Pod(ctx context.Context, config *rest.Config, namespace, name string, port int32) (*Tunnel, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	target := client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(namespace).Name(name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	w := &Tunnel{stop: make(chan struct{}), ended: make(chan error, 1)}
	ready, stderr := make(chan struct{}), &bytes.Buffer{}
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)},
		w.stop, ready, io.Discard, stderr)
	if err != nil {
		return nil, fmt.Errorf("connecting to port %d of the Pod %s: %w", port, name, err)
	}
	go func() {
		w.ended <- forwarder.ForwardPorts()
		close(w.ended)
	}()
	select {
	case <-ready:
	case err := <-w.ended:
		return nil, fmt.Errorf("connecting to port %d of the Pod %s: %w: %s",
			port, name, err, strings.TrimSpace(stderr.String()))
	case <-ctx.Done():
		w.Close()
		return nil, fmt.Errorf("connecting to port %d of the Pod %s: %w", port, name, context.Cause(ctx))
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("connecting to port %d of the Pod %s: %w", port, name, err)
	}
	w.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local)))
	return w, nil
}

// ErrNoPod means that no Pod behind a Service is ready.
var ErrNoPod = errors.New("no Pod behind it is ready")

// Service opens a tunnel to a ready Pod behind a Service, at the target port of the Service's port.
func Service(ctx context.Context, config *rest.Config, namespace, name string, port int32) (*Tunnel, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for the Service %s: %w", name, err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the Pods of the Service %s: %w", name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !ready(pod) {
			continue
		}
		target, err := targetOf(service, pod, port)
		if err != nil {
			return nil, err
		}
		return Pod(ctx, config, namespace, pod.Name, target)
	}
	return nil, fmt.Errorf("connecting to the Service %s: %w", name, ErrNoPod)
}

func ready(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && podutils.IsPodReady(pod) }

// targetOf returns the port of a Pod to which a Service forwards a port.
func targetOf(service *corev1.Service, pod *corev1.Pod, port int32) (int32, error) {
	for _, offered := range service.Spec.Ports {
		switch {
		case offered.Port != port:
			continue
		case offered.TargetPort.Type == intstr.Int && offered.TargetPort.IntVal == 0:
			return port, nil
		case offered.TargetPort.Type == intstr.Int:
			return offered.TargetPort.IntVal, nil
		}
		for _, container := range pod.Spec.Containers {
			for _, listed := range container.Ports {
				if listed.Name == offered.TargetPort.StrVal {
					return listed.ContainerPort, nil
				}
			}
		}
		return 0, fmt.Errorf("the Service %s leads to the port %q, which the Pod %s does not name",
			service.Name, offered.TargetPort.StrVal, pod.Name)
	}
	return 0, fmt.Errorf("the Service %s has no port %d", service.Name, port)
}
