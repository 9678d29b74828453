// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/config"
	"lva.io/operators/clusters/images"
)

const (
	ciliumNamespace = metav1.NamespaceSystem
	// ciliumPatience limits the time from the chart to a working network. With a registry, most of it is spent pulling
	// images.
	ciliumPatience = 10 * time.Minute
	// notReadyTaint is the taint that Cilium's operator removes from a node when the agent there works.
	notReadyTaint = "node.cilium.io/agent-not-ready"
)

var ciliumNodes = schema.GroupVersionResource{Group: "cilium.io", Version: "v2", Resource: "ciliumnodes"}

// Cilium is the network of a cluster that we created, and replaces kube-proxy there. On a shared cluster it changes
// nothing, because a change of the network interrupts everyone on the cluster.
func Cilium(store *images.Store) Addon { return &cilium{charts: store.Chart, patience: ciliumPatience} }

// chartSource finds the chart of an add-on.
type chartSource func(ctx context.Context, name string) (images.Chart, error)

type cilium struct {
	charts   chartSource
	patience time.Duration
}

func (*cilium) Name() string { return "cilium" }

func (c *cilium) Install(ctx context.Context, target Target, report func(string)) error {
	if target.Shared {
		report("the cluster has a network of its own: leaving it as it is")
		return c.wait(ctx, target, report)
	}
	source, err := c.charts(ctx, c.Name())
	if err != nil {
		return err
	}
	chart, err := loadChart(source)
	if err != nil {
		return err
	}
	values, err := ciliumValues(target)
	if err != nil {
		return err
	}
	release, err := newHelm(target, c.Name(), ciliumNamespace)
	if err != nil {
		return err
	}
	if err := release.ensure(ctx, chart, values, report); err != nil {
		return err
	}
	if !target.Pods {
		report("no Pods can run here, so it has no effect")
		return nil
	}
	return c.wait(ctx, target, report)
}

func ciliumValues(target Target) (map[string]any, error) {
	files := []string{"cilium"}
	if target.AirGap {
		files = append(files, "cilium-air-gap")
	}
	values, err := readValues(files...)
	if err != nil {
		return nil, err
	}
	// No kube-proxy forwards to the API server's Service yet.
	if target.APIHost != "" {
		values["k8sServiceHost"], values["k8sServicePort"] = target.APIHost, target.APIPort
	}
	return values, nil
}

// readValues reads Helm values from clusters/config/addons. Later files override earlier ones.
func readValues(names ...string) (map[string]any, error) {
	var files [][]byte
	for _, name := range names {
		content, err := config.Addons.ReadFile("addons/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		files = append(files, content)
	}
	return mergeValues(files...)
}

// wait waits until the network works.
func (c *cilium) wait(ctx context.Context, target Target, report func(string)) error {
	return waitReady(ctx, target, ciliumNamespace, c.patience, "Cilium", report,
		func(ctx context.Context) (string, error) {
			return ciliumObjection(ctx, target)
		})
}

// ciliumObjection reports what is missing until Cilium is usable: every agent and the operator ready, a CiliumNode with
// addresses for every node, every node ready and without Cilium's taint.
func ciliumObjection(ctx context.Context, target Target) (string, error) {
	client, err := kubernetes.NewForConfig(target.Config)
	if err != nil {
		return "", err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	if len(nodes.Items) == 0 {
		return "no node has joined the cluster", nil
	}
	agents, err := client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: "k8s-app=cilium"})
	if err != nil {
		return "", err
	}
	if len(agents.Items) == 0 && target.Shared {
		return nodesObjection(nodes.Items), nil // another network
	}
	if len(agents.Items) == 0 {
		return "its agents' DaemonSet is not there", nil
	}
	if set := agents.Items[0]; set.Status.ObservedGeneration < set.Generation ||
		int(set.Status.DesiredNumberScheduled) < len(nodes.Items) ||
		set.Status.UpdatedNumberScheduled < set.Status.DesiredNumberScheduled ||
		set.Status.NumberReady < set.Status.DesiredNumberScheduled {
		return fmt.Sprintf("%d of %d agents are ready",
			min(set.Status.NumberReady, set.Status.UpdatedNumberScheduled), len(nodes.Items)), nil
	}
	operators, err := client.AppsV1().Deployments(agents.Items[0].Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: "name=cilium-operator"})
	if err != nil {
		return "", err
	}
	if len(operators.Items) == 0 {
		return "its operator's Deployment is not there", nil
	}
	if !deploymentReady(&operators.Items[0]) {
		return "its operator is not ready", nil
	}
	lister, err := dynamic.NewForConfig(target.Config)
	if err != nil {
		return "", err
	}
	known, err := lister.Resource(ciliumNodes).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return "its operator has not registered Cilium's kinds yet", nil
	}
	if err != nil {
		return "", err
	}
	for _, node := range nodes.Items {
		found := false
		for _, item := range known.Items {
			found = found || item.GetName() == node.Name
		}
		if !found {
			return fmt.Sprintf("node %s has no CiliumNode yet", node.Name), nil
		}
	}
	return nodesObjection(nodes.Items), nil
}

// nodesObjection names a node that accepts no Pods because it has no network.
func nodesObjection(nodes []corev1.Node) string {
	for _, node := range nodes {
		for _, taint := range node.Spec.Taints {
			if taint.Key == notReadyTaint ||
				taint.Key == corev1.TaintNodeNotReady ||
				taint.Key == corev1.TaintNodeNetworkUnavailable {
				return fmt.Sprintf("node %s still has the taint %s", node.Name, taint.Key)
			}
		}
		ready := false
		for _, condition := range node.Status.Conditions {
			ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		}
		if !ready {
			return fmt.Sprintf("node %s is not ready", node.Name)
		}
	}
	return ""
}

func deploymentReady(d *appsv1.Deployment) bool {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration >= d.Generation &&
		d.Status.UpdatedReplicas >= wanted &&
		d.Status.ReadyReplicas >= wanted
}

func (c *cilium) State(ctx context.Context, target Target) (State, error) {
	state := State{Name: c.Name()}
	if source, err := c.charts(ctx, c.Name()); err == nil {
		state.Pinned = number(source.Version)
	}
	client, err := kubernetes.NewForConfig(target.Config)
	if err != nil {
		return state, err
	}
	agents, err := client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: "k8s-app=cilium"})
	if err != nil {
		return state, fmt.Errorf("looking for Cilium: %w", err)
	}
	if len(agents.Items) == 0 {
		state.Detail = "not installed"
		if target.Shared {
			state.Detail = "the cluster has another network"
		}
		return state, nil
	}
	state.Installed = imageVersion(agents.Items[0].Spec.Template.Spec)
	objection, err := ciliumObjection(ctx, target)
	if err != nil {
		return state, fmt.Errorf("looking at Cilium: %w", err)
	}
	state.Usable, state.Detail = objection == "", objection
	if state.Usable {
		state.Detail = fmt.Sprintf("%d agents ready", agents.Items[0].Status.NumberReady)
	}
	return state, nil
}

// imageVersion is the tag of a Pod's first container, as a number.
func imageVersion(spec corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	reference, _, _ := strings.Cut(spec.Containers[0].Image, "@")
	last := reference[strings.LastIndex(reference, "/")+1:]
	_, tag, _ := strings.Cut(last, ":")
	return number(tag)
}

func number(version string) string { return strings.TrimPrefix(version, "v") }

func (c *cilium) Uninstall(_ context.Context, target Target) error {
	if target.Shared {
		return nil // Install changed nothing
	}
	release, err := newHelm(target, c.Name(), ciliumNamespace)
	if err != nil {
		return err
	}
	return release.uninstall()
}
