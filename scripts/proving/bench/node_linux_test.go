// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/util/podutils"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/node"
)

// web is the image of a web server that ends on SIGTERM, and of its client.
const web = "operator-labs/probe:v1"

// patience is the time limit of each step of a benchmark.
const patience = 2 * time.Minute

// nodeParts builds the node's programs and the image.
func nodeParts(b *testing.B) embedded.NodeParts {
	b.Helper()
	absolute, err := filepath.Abs(root)
	if err != nil {
		b.Fatal(err)
	}
	store := images.StoreOf(absolute)
	catalogue, err := images.Load()
	if err != nil {
		b.Fatal(err)
	}
	image, err := catalogue.Image(web)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := store.Ensure(b.Context(), []images.Image{image}, nil); err != nil {
		b.Fatal(err)
	}
	parts := embedded.NodeParts{Programs: node.ProgramsOf(absolute), Images: store.Dir}
	if err := parts.Programs.Ensure(b.Context()); err != nil {
		b.Fatal(err)
	}
	return parts
}

// BenchmarkNodeStart alternately starts a cluster with a Ready node and one without a node.
func BenchmarkNodeStart(b *testing.B) {
	p, parts := program(b), nodeParts(b)
	var withNode, withoutNode, more samples
	for b.Loop() {
		plain := startEmbedded(b, p)
		began := time.Now()
		cluster := startWithNode(b, p, parts)
		took := time.Since(began).Seconds()
		if err := cluster.Stop(); err != nil {
			b.Fatal(err)
		}
		withNode, withoutNode, more = append(withNode, took), append(withoutNode, plain), append(more, took-plain)
	}
	b.ReportMetric(0, "ns/op")
	withNode.report(b, "s")
	withoutNode.report(b, "without-s")
	more.report(b, "more-s")
}

func startWithNode(b *testing.B, p *multicall.Program, parts embedded.NodeParts) *embedded.Cluster {
	b.Helper()
	cluster, err := embedded.StartWithNode(b.Context(), p, parts)
	if err != nil {
		b.Fatal(err)
	}
	return cluster
}

// bed is a cluster with a node, and a client for it.
type bed struct {
	*testing.B
	kubernetes.Interface
}

func newBed(b *testing.B) bed {
	b.Helper()
	cluster := startWithNode(b, program(b), nodeParts(b))
	b.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			b.Error(err)
		}
	})
	config := cluster.Config()
	config.QPS = -1
	return bed{b, kubernetes.NewForConfigOrDie(config)}
}

const space = metav1.NamespaceDefault

func (b bed) pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{server()}},
	}
}

func server() corev1.Container {
	return corev1.Container{Name: "web", Image: web, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"}}
}

func (b bed) create(name string) {
	b.Helper()
	if _, err := b.CoreV1().Pods(space).Create(b.Context(), b.pod(name), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// waitFor waits until done returns true for a Pod. It calls done with deleted true when the Pod is gone.
func (b bed) waitFor(name string, done func(pod *corev1.Pod, deleted bool) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	named := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	err := await.Change(ctx, b.CoreV1().Pods(space), named, func(change watch.Event) (bool, error) {
		pod, ok := change.Object.(*corev1.Pod)
		return ok && done(pod, change.Type == watch.Deleted), nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func ready(pod *corev1.Pod, _ bool) bool { return podutils.IsPodReady(pod) }

// BenchmarkPod creates a Pod with an image that is present, waits until it is Ready, deletes it, and waits until it is
// gone.
func BenchmarkPod(bench *testing.B) { newBed(bench).churnPods() }

// BenchmarkPodOnKind does the same on the cluster of `make cluster`.
func BenchmarkPodOnKind(bench *testing.B) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		bench.Fatal(err)
	}
	kubeconfig := docker.Kubeconfig(absolute, docker.DefaultCluster)
	if _, err := os.Stat(kubeconfig); err != nil {
		bench.Skip("there is no kind cluster: `make cluster` creates one")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		bench.Fatal(err)
	}
	config.QPS = -1
	bed{bench, kubernetes.NewForConfigOrDie(config)}.churnPods()
}

func (b bed) churnPods() {
	b.Helper()
	b.create("first") // some steps are slow only the first time
	b.waitFor("first", ready)
	b.remove("first")
	var readySeconds, goneSeconds samples
	for n := 0; b.Loop(); n++ {
		name := fmt.Sprintf("pod-%d", n)
		began := time.Now()
		b.create(name)
		b.waitFor(name, ready)
		readySeconds = append(readySeconds, time.Since(began).Seconds())
		began = time.Now()
		b.remove(name)
		goneSeconds = append(goneSeconds, time.Since(began).Seconds())
	}
	b.ReportMetric(0, "ns/op")
	readySeconds.report(b.B, "ready-s")
	goneSeconds.report(b.B, "gone-s")
}

// remove deletes a Pod, and waits until it is gone.
func (b bed) remove(name string) {
	b.Helper()
	if err := b.CoreV1().Pods(space).Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.waitGone(name)
}

// waitGone waits until the Pod no longer exists.
func (b bed) waitGone(name string) {
	b.Helper()
	pod, err := b.CoreV1().Pods(space).Get(b.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	err = await.ChangeSince(ctx, pod.ResourceVersion, b.CoreV1().Pods(space),
		metav1.ListOptions{FieldSelector: "metadata.name=" + name},
		func(change watch.Event) (bool, error) { return change.Type == watch.Deleted, nil })
	if err != nil {
		b.Fatal(err)
	}
}

// deploy creates or changes a Deployment, and waits until all replicas are up to date and Ready.
func (b bed) deploy(name string, replicas int32, revision string) {
	b.Helper()
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"revision": revision}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{server()}},
			},
		},
	}
	deployment.Spec.Template.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
	}
	deployments := b.AppsV1().Deployments(space)
	_, err := deployments.Create(b.Context(), deployment, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"revision":%q}}}}}`, revision)
		_, err = deployments.Patch(b.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	err = await.Change(ctx, deployments, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name,
	}, func(change watch.Event) (bool, error) {
		d, ok := change.Object.(*appsv1.Deployment)
		return ok && d.Status.ObservedGeneration >= d.Generation && d.Spec.Template.Annotations["revision"] == revision &&
			d.Status.UpdatedReplicas == replicas && d.Status.ReadyReplicas == replicas && d.Status.Replicas == replicas, nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReplicas waits until a Deployment with fifty replicas is Ready.
func BenchmarkReplicas(bench *testing.B) {
	b := newBed(bench)
	b.create("first")
	b.waitFor("first", ready)
	var took samples
	for n := 0; b.Loop(); n++ {
		name := fmt.Sprintf("fifty-%d", n)
		began := time.Now()
		b.deploy(name, 50, "1")
		took = append(took, time.Since(began).Seconds())
		background := metav1.DeletePropagationForeground
		if err := b.AppsV1().Deployments(space).Delete(b.Context(), name, metav1.DeleteOptions{
			PropagationPolicy: &background,
		}); err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(b.Context(), patience)
		err := await.Until(ctx, time.Second/4, "the end of the Deployment", func(ctx context.Context) (string, error) {
			if _, err := b.AppsV1().Deployments(space).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return "it is there", err
			}
			return "", nil
		})
		cancel()
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	took.report(bench, "s")
}

// BenchmarkRollingUpdate makes two rolling updates while eight clients send requests to a NodePort of the machine, each
// with a new connection. A request that gets no answer is lost.
func BenchmarkRollingUpdate(bench *testing.B) {
	b := newBed(bench)
	b.deploy("web", 3, "0")
	service, err := b.CoreV1().Services(space).Create(b.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", service.Spec.Ports[0].NodePort)
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	if err := await.Until(ctx, time.Second/10, "the Service", func(ctx context.Context) (string, error) {
		return ask(ctx, url), nil
	}); err != nil {
		b.Fatal(err)
	}
	var asked, lost atomic.Int64
	for n := 0; b.Loop(); n++ {
		ctx, stop := context.WithCancel(b.Context())
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for ctx.Err() == nil {
					if problem := ask(b.Context(), url); problem != "" {
						lost.Add(1)
						b.Log(problem)
					}
					asked.Add(1)
				}
			})
		}
		b.deploy("web", 3, fmt.Sprintf("%d-a", n))
		b.deploy("web", 3, fmt.Sprintf("%d-b", n))
		stop()
		clients.Wait()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(asked.Load()), "requests")
	b.ReportMetric(float64(lost.Load()), "lost")
}

// ask sends a request over a connection of its own, and returns a description of the problem, if there is one.
func ask(ctx context.Context, url string) (problem string) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	answer, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(body), "answers") {
		return fmt.Sprintf("%s %q %v", answer.Status, body, err)
	}
	return ""
}
