// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package smoke runs one small test that needs all parts of a cluster. It does not find out which part fails: package
// connectivity does.
package smoke

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/await"
)

const (
	// Namespace exists while the smoke test runs.
	Namespace = "operator-labs-smoke"
	// probeImage is the course's own, a web server and a web client (clusters/images/programs/probe).
	probeImage = "operator-labs/probe:v1"

	pollInterval = 200 * time.Millisecond
)

// Test has a Pod on the control plane send a request to a Pod on another node, by its Service's name. The request tests
// the scheduler, images, the network, Services and DNS at once. Test removes what it creates, and what an earlier run
// left.
func Test(ctx context.Context, client kubernetes.Interface, report func(string)) error {
	report("removing objects of earlier tests")
	if err := remove(ctx, client); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the smoke test's namespace: %w", err)
	}
	server := newPod("server", "serve", ":8080")
	server.Labels = map[string]string{"app": "smoke"}
	server.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1}
	server.Spec.Containers[0].ReadinessProbe.TCPSocket = &corev1.TCPSocketAction{}
	server.Spec.Containers[0].ReadinessProbe.TCPSocket.Port.IntVal = 8080
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "server"},
		Spec:       corev1.ServiceSpec{Selector: server.Labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	service.Spec.Ports[0].TargetPort.IntVal = 8080
	// The client retries until the server is ready. If it fails, the Pod's log has the reason.
	requester := newPod("client", "get", "-n", "1", "http://server."+Namespace+".svc.cluster.local/")
	requester.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	requester.Spec.NodeSelector = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	requester.Spec.Tolerations = []corev1.Toleration{
		{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists},
	}
	if _, err := client.CoreV1().Services(Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the smoke test's Service: %w", err)
	}
	report("starting a server on a worker")
	if err := startPod(ctx, client, server, podReady); err != nil {
		return err
	}
	report("waiting for the cluster's DNS")
	if err := WaitDNS(ctx, client); err != nil {
		return err
	}
	report("starting a client on the control plane")
	if err := startPod(ctx, client, requester, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded
	}); err != nil {
		return err
	}
	report("removing the server and the client")
	return remove(ctx, client)
}

func newPod(name string, args ...string) *corev1.Pod {
	grace := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "probe", Image: probeImage, ImagePullPolicy: corev1.PullNever, Args: args,
			}},
		},
	}
}

// startPod creates a Pod, as soon as its namespace has the ServiceAccount for it, and waits until wanted returns true
// for it.
func startPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, wanted func(*corev1.Pod) bool) error {
	pods := client.CoreV1().Pods(Namespace)
	if err := await.Until(ctx, pollInterval, "the ServiceAccount of the smoke test",
		func(ctx context.Context) (string, error) {
			_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
			if apierrors.IsForbidden(err) { // a controller creates the ServiceAccount, a moment after the namespace
				return err.Error(), nil
			}
			return "", err
		}); err != nil {
		return err
	}
	return await.Until(ctx, pollInterval, "the smoke test's Pod "+pod.Name, func(ctx context.Context) (string, error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || wanted(now) {
			return "", err
		}
		return "its phase is " + string(now.Status.Phase), nil
	})
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// WaitDNS waits until the cluster's DNS has a server that is ready.
func WaitDNS(ctx context.Context, client kubernetes.Interface) error {
	return await.Until(ctx, pollInterval, "the cluster's DNS (the Deployment coredns)",
		func(ctx context.Context) (string, error) {
			deployment, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
			if err != nil || deployment.Status.ReadyReplicas > 0 {
				return "", err
			}
			return "no Pod of it is ready", nil
		})
}

// remove removes the namespace, and waits until it is gone.
func remove(ctx context.Context, client kubernetes.Interface) error {
	namespaces := client.CoreV1().Namespaces()
	return await.Until(ctx, pollInterval, "the smoke test's namespace to go", func(ctx context.Context) (string, error) {
		err := namespaces.Delete(ctx, Namespace, metav1.DeleteOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return "", nil
		case apierrors.IsConflict(err), err == nil:
			return "it is being removed", nil
		default:
			return "", err
		}
	})
}
