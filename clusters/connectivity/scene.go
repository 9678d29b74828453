// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package connectivity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/e2e-framework/klient"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"lva.io/operators/clusters/addons"
)

const (
	// marker is the label of the tests' namespaces.
	marker = "operator-labs.lva.io/connectivity"
	// abandonedAfter is the age at which a test's namespace can no longer be in use.
	abandonedAfter = 30 * time.Minute

	scenePatience = 2 * time.Minute
	// patience is how long a condition may take to become true. Policies take effect within a second, or later on a busy
	// machine.
	patience = 40 * time.Second
	// answerTime is how long one request may take. A denied request gets no answer at all.
	answerTime = 2 * time.Second

	serverPort = 8080
)

// The Pods of a scene, by their label app. There is one of each on every node.
const (
	server = "server" // answers
	client = "client" // asks
	friend = "friend" // asks, and policies let it in
)

// scene is a namespace with Pods that send and answer requests.
type scene struct {
	options   Options
	config    *rest.Config
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	framework klient.Client
	namespace string
	nodes     []corev1.Node
	service   *corev1.Service
	pods      map[string][]corev1.Pod // by the label app
}

// run creates a scene, runs the features in it and removes it.
func run(t *testing.T, options Options, report func(Result)) {
	t.Helper()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := newScene(ctx, options)
	if s != nil && s.namespace != "" {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			if err := s.client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
				t.Errorf("removing the test's namespace: %v", err)
			}
		}()
	}
	if err != nil {
		report(Result{Feature: "the test's Pods run", Problem: err.Error()})
		t.Fatal(err)
	}
	environment := env.NewWithConfig(envconf.NewWithKubeConfig(options.Kubeconfig).WithNamespace(s.namespace))
	for _, p := range proofs {
		if len(options.Only) > 0 && !slices.Contains(options.Only, p.name) {
			continue
		}
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		result := Result{Feature: p.name}
		start := time.Now()
		var problem error
		passed := t.Run(p.name, func(t *testing.T) {
			environment.WithContext(ctx).Test(t, features.New(p.name).Assess(p.name,
				func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
					t.Helper()
					problem = errors.New("the test panicked")
					problem = p.holds(ctx, s)
					if _, skipped := errors.AsType[*skipError](problem); skipped {
						t.Skip(problem)
					}
					if problem != nil {
						t.Fatal(problem)
					}
					return ctx
				}).Feature())
		})
		_, result.Skipped = errors.AsType[*skipError](problem)
		result.Passed = passed && problem == nil
		result.Took = time.Since(start)
		if problem != nil {
			result.Problem = problem.Error()
		}
		report(result)
	}
}

// skipError is the reason why a feature can't be tested here.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

func newScene(ctx context.Context, options Options) (*scene, error) {
	if options.Image == "" {
		options.Image = Image
	}
	framework, err := envconf.NewWithKubeConfig(options.Kubeconfig).NewClient()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", options.Kubeconfig, err)
	}
	s := &scene{options: options, framework: framework, config: framework.RESTConfig(), pods: map[string][]corev1.Pod{}}
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return nil, err
	}
	if s.dynamic, err = dynamic.NewForConfig(s.config); err != nil {
		return nil, err
	}
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	s.nodes = nodes.Items
	if err := s.removeAbandoned(ctx); err != nil {
		return nil, err
	}
	namespace, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "connectivity-", Labels: map[string]string{marker: "true"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a namespace for the tests: %w", err)
	}
	s.namespace = namespace.Name
	return s, s.populate(ctx)
}

// removeAbandoned deletes what killed tests left behind.
func (s *scene) removeAbandoned(ctx context.Context) error {
	namespaces, err := s.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: marker})
	if err != nil {
		return fmt.Errorf("looking for leftovers of earlier tests: %w", err)
	}
	for _, namespace := range namespaces.Items {
		if namespace.DeletionTimestamp != nil || time.Since(namespace.CreationTimestamp.Time) < abandonedAfter {
			continue
		}
		if err := s.client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the namespace %s of an earlier test: %w", namespace.Name, err)
		}
	}
	return nil
}

// populate creates the Pods and the Service, and waits until all Pods are ready.
func (s *scene) populate(ctx context.Context) error {
	for _, app := range []string{server, client, friend} {
		labels := map[string]string{"app": app}
		_, err := s.client.AppsV1().DaemonSets(s.namespace).Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: app},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						// The Pods also run on the control plane, because with one worker there would be no other node.
						Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
						TerminationGracePeriodSeconds: new(int64(0)),
						AutomountServiceAccountToken:  new(false),
						Containers: []corev1.Container{{
							Name: "probe", Image: s.options.Image, ImagePullPolicy: corev1.PullIfNotPresent,
							Args:  []string{"serve", fmt.Sprintf(":%d", serverPort)},
							Ports: []corev1.ContainerPort{{ContainerPort: serverPort}},
							ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
								HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(serverPort)},
							}},
						}},
					},
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating the test's Pods: %w", err)
		}
	}
	service, err := s.client.CoreV1().Services(s.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: server},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": server},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(serverPort)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the test's Service: %w", err)
	}
	s.service = service
	err = eventually(ctx, scenePatience, "the test's Pods run", func(ctx context.Context) error {
		pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		clear(s.pods)
		for _, pod := range pods.Items {
			if ready(&pod) {
				s.pods[pod.Labels["app"]] = append(s.pods[pod.Labels["app"]], pod)
			}
		}
		for _, app := range []string{server, client, friend} {
			if len(s.pods[app]) < len(s.nodes) {
				return fmt.Errorf("%d of %d Pods %s are ready", len(s.pods[app]), len(s.nodes), app)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, addons.Explain(ctx, addons.Target{Config: s.config}, s.namespace))
	}
	return nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ask runs the probe in a Pod and returns what it printed.
func (s *scene) ask(ctx context.Context, pod corev1.Pod, args ...string) (string, error) {
	var out, problem bytes.Buffer
	err := s.framework.Resources().ExecInPod(ctx, pod.Namespace, pod.Name, "probe",
		append([]string{"/probe"}, args...), &out, &problem)
	if err != nil {
		output, _, _ := strings.Cut(strings.TrimSpace(problem.String()), "\n")
		return out.String(), fmt.Errorf("from %s on %s: %w: %s", pod.Labels["app"], pod.Spec.NodeName, err, output)
	}
	return out.String(), nil
}

// get requests a URL from within a Pod.
func (s *scene) get(ctx context.Context, pod corev1.Pod, url string) (string, error) {
	return s.ask(ctx, pod, "get", "-t", answerTime.String(), url)
}

// eventually repeats holds until it succeeds. The error contains its last error.
func eventually(ctx context.Context, patience time.Duration, what string, holds func(context.Context) error) error {
	var last error
	// The last attempt is not cut short, because holds has time limits of its own, and its error says more than a
	// time-out.
	err := wait.PollUntilContextTimeout(ctx, 300*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = holds(ctx)
		if _, skipped := errors.AsType[*skipError](last); skipped {
			return false, last
		}
		return last == nil, nil
	})
	switch {
	case err == nil || errors.Is(err, last):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	return fmt.Errorf("%s: not within %s: %w", what, patience, last)
}
