// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
	"lva.io/operators/scripts/submission"
)

// Pods is a kind cluster in which the operator runs as a Pod.
type Pods struct {
	// Cluster is its name.
	Cluster string
	// Store makes the image of the operator.
	Store *images.Store
	// Gateway is the IP address of this machine at which Pods reach it.
	Gateway string
}

const (
	// deployTimeout is for image, manifests and all.
	deployTimeout = 3 * time.Minute
	// podStartTimeout is how long it may take until a Pod runs, and until its operator has sent its first request.
	podStartTimeout = time.Minute
	// podRequestTimeout is for a single request of ours.
	podRequestTimeout = 20 * time.Second
	// podPoll is how often one looks for the log of a Pod that has just begun to run, and at the ReplicaSets of one that is to end.
	podPoll = 100 * time.Millisecond
)

// reaches makes sure that the nodes reach this machine: otherwise the operator would be called silent.
func (p *Pods) reaches(ctx context.Context, host string) error {
	target, err := url.Parse(host)
	if err != nil {
		return err
	}
	nodes, err := p.workers(ctx)
	if err != nil {
		return err
	}
	address, port, err := net.SplitHostPort(target.Host)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := docker.Exec(ctx, node, nil, io.Discard, "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+address+"/"+port); err != nil {
			return fmt.Errorf("the node %s does not reach this machine at %s, where the proxy before the API server listens: is there a firewall? "+
				"Let in what comes from docker's network %q, or let the operator run on this machine, with --local: %w",
				node, target.Host, docker.Network, err)
		}
	}
	return nil
}

// workers are the nodes on which Pods are run.
func (p *Pods) workers(ctx context.Context) ([]string, error) {
	nodes, err := docker.Containers(ctx, p.Cluster)
	if err != nil {
		return nil, err
	}
	workers := slices.DeleteFunc(slices.Clone(nodes), func(n docker.Node) bool { return n.ControlPlane })
	if len(workers) == 0 {
		workers = nodes
	}
	var names []string
	for _, node := range workers {
		names = append(names, node.Name)
	}
	if len(names) == 0 {
		return nil, docker.ErrNoCluster
	}
	return names, nil
}

// Load makes an image of a program and brings it to the nodes that do not have it.
func (p *Pods) Load(ctx context.Context, reference, program string) error {
	built, err := p.Store.FromProgram(ctx, reference, program)
	if err != nil {
		return fmt.Errorf("making the operator's image: %w", err)
	}
	nodes, err := p.workers(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		group.Go(func() error {
			have, err := docker.ImageIDs(ctx, node)
			if err != nil || have[docker.Canonical(reference)] == built.ID {
				return err
			}
			return docker.Import(ctx, node, func(w io.Writer) error { return p.Store.Archive(ctx, w, built) })
		})
	}
	return group.Wait()
}

// deployment is the operator in the cluster, by its own manifests.
type deployment struct {
	*submission.Deployment
	run    *run
	client kubernetes.Interface
	old    []types.UID // Pods that are no more the operator
	// register registers the operator's webhooks.
	register func(context.Context) error
}

// deploy brings the operator into the cluster, where it does not run yet.
func (r *run) deploy(ctx context.Context, manifests *submission.Manifests) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deployTimeout, fmt.Errorf("it was not deployed within %s", deployTimeout))
	defer cancel()
	rendered, err := r.workshop.Render(ctx, r.Kubectl, manifests)
	if err != nil {
		return err
	}
	reference := "operator-labs/graded:" + r.Lab.Name
	if err := r.cluster.Pods.Load(ctx, reference, r.workshop.Program()); err != nil {
		return err
	}
	target, err := url.Parse(r.access.Host)
	if err != nil {
		return err
	}
	register, err := rendered.Install(ctx, r.installer(), submission.Deployed{
		Image: reference, Host: target.Hostname(), Port: target.Port(), CA: r.access.CA, Exchange: r.access.Exchange, Made: r.access.Made, Groups: r.access.Groups, Environment: r.environment,
	})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(r.cluster.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	r.user = rendered.User
	r.deployment = &deployment{Deployment: rendered, run: r, client: client, register: register}
	return nil
}

func (d *deployment) pods() corev1client.PodInterface { return d.client.CoreV1().Pods(d.Namespace) }

func (d *deployment) list() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: apilabels.SelectorFromSet(d.Selector).String()}
}

// scale says how many Pods there are to be.
func (d *deployment) scale(ctx context.Context, replicas int) error {
	_, err := d.client.AppsV1().Deployments(d.Namespace).Patch(ctx, d.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{}, "scale")
	if err != nil {
		return fmt.Errorf("scaling the operator's Deployment to %d: %w", replicas, err)
	}
	return nil
}

// awaitScaled waits until all ReplicaSets of the Deployment know that they are to have no Pods. One that does not yet replaces a Pod
// that is deleted: there would be another operator for a moment, which takes the Lease with it.
func (d *deployment) awaitScaled(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, podPoll, true, func(ctx context.Context) (bool, error) {
		sets, err := d.client.AppsV1().ReplicaSets(d.Namespace).List(ctx, d.list())
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(sets.Items, func(set appsv1.ReplicaSet) bool {
			return *set.Spec.Replicas > 0 || set.Status.ObservedGeneration < set.Generation
		}), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the operator's Deployment has no Pods: %w", err)
	}
	return nil
}

// start starts the operator, and returns when its Pod runs.
func (d *deployment) start(log io.Writer) (instance, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), podStartTimeout, fmt.Errorf("its Pod did not run within %s", podStartTimeout))
	defer cancel()
	d.run.injector.Admit()
	if err := d.scale(ctx, 1); err != nil {
		return nil, err
	}
	running, err := d.await(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting the operator's Pod: %w", err)
	}
	living, end := context.WithCancel(context.Background())
	p := &pod{deployment: d, uid: running.UID, name: running.Name, node: running.Spec.NodeName, done: make(chan struct{}), end: end}
	p.container = d.status(running).ContainerID
	go p.watch(living)
	go p.follow(living, log)
	return p, nil
}

// await waits until a new Pod of the operator runs.
func (d *deployment) await(ctx context.Context) (*corev1.Pod, error) {
	changes, err := d.pods().Watch(ctx, d.list())
	if err != nil {
		return nil, err
	}
	defer changes.Stop()
	said := "none was made"
	for {
		select {
		case change, ok := <-changes.ResultChan():
			if !ok {
				return nil, errors.New("the watch of Pods ended")
			}
			found, ok := change.Object.(*corev1.Pod)
			if !ok || found.DeletionTimestamp != nil || slices.Contains(d.old, found.UID) {
				continue
			}
			var ready bool
			if ready, said = d.look(found); ready {
				return found, nil
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %s", context.Cause(ctx), said)
		}
	}
}

// status is that of the container which is the operator.
func (d *deployment) status(of *corev1.Pod) corev1.ContainerStatus {
	for _, status := range of.Status.ContainerStatuses {
		if status.Name == d.Container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// look says whether the operator has begun to run in a Pod, or what keeps it.
func (d *deployment) look(at *corev1.Pod) (begun bool, said string) {
	state := d.status(at).State
	switch {
	case state.Running != nil, state.Terminated != nil:
		return true, ""
	case state.Waiting != nil && state.Waiting.Reason != "":
		return false, strings.TrimSuffix(state.Waiting.Reason+": "+state.Waiting.Message, ": ")
	}
	for _, condition := range at.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return false, condition.Message
		}
	}
	return false, "it is " + string(at.Status.Phase)
}

// awaitReady waits until Services lead to the operator.
func (d *deployment) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, podStartTimeout, errNotReady)
	defer cancel()
	changes, err := d.pods().Watch(ctx, d.list())
	if err != nil {
		return fmt.Errorf("watching the operator's Pod: %w", err)
	}
	defer changes.Stop()
	for {
		select {
		case change, ok := <-changes.ResultChan():
			if !ok {
				return nil
			}
			if found, ok := change.Object.(*corev1.Pod); ok && found.DeletionTimestamp == nil && d.status(found).Ready {
				return nil
			}
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errNotReady) {
				return nil // that is for the checks to find
			}
			return context.Cause(ctx)
		}
	}
}

var errNotReady = errors.New("the operator's Pod is not ready")

// pod is the operator from a start to its end.
type pod struct {
	*deployment
	uid                   types.UID
	name, node, container string

	once sync.Once
	done chan struct{}
	err  error
	end  context.CancelFunc
}

// Done is closed when it has ended, and Err says then how.
func (p *pod) Done() <-chan struct{} { return p.done }

// Err is nil for an exit code of zero.
func (p *pod) Err() error { return p.err }

func (p *pod) ended(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

// watch finds out when the operator ends by itself.
func (p *pod) watch(ctx context.Context) {
	for ctx.Err() == nil {
		changes, err := p.pods().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + p.name})
		if err != nil {
			return // we are being stopped, or will learn of it by the next request
		}
		for change := range changes.ResultChan() {
			now, ok := change.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			status := p.status(now)
			for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
				if state.Terminated != nil && now.DeletionTimestamp == nil {
					p.ended(exited(state.Terminated))
				}
			}
		}
	}
}

func exited(how *corev1.ContainerStateTerminated) error {
	text := fmt.Sprintf("exit status %d", how.ExitCode)
	if how.Reason != "" && how.Reason != "Error" && how.Reason != "Completed" {
		text += " (" + how.Reason + ")"
	}
	if how.ExitCode == 0 {
		return nil
	}
	return errors.New(text)
}

// follow copies the operator's output.
func (p *pod) follow(ctx context.Context, log io.Writer) {
	tick := time.NewTicker(podPoll)
	defer tick.Stop()
	for {
		stream, err := p.pods().GetLogs(p.name, &corev1.PodLogOptions{Container: p.Container, Follow: true}).Stream(ctx)
		if err == nil {
			_, _ = io.Copy(log, stream) // it ends with the container
			stream.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Stop asks the operator to end, as a scaled Deployment does.
func (p *pod) Stop(grace time.Duration) error {
	defer p.end()
	ctx, cancel := context.WithTimeout(context.Background(), podRequestTimeout+grace)
	defer cancel()
	p.old = append(p.old, p.uid)
	changes, err := p.pods().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + p.name})
	if err != nil || p.scale(ctx, 0) != nil {
		return p.Kill()
	}
	defer changes.Stop()
	giveUp := time.After(grace + podRequestTimeout/2)
	for {
		select {
		case change, ok := <-changes.ResultChan():
			if !ok || change.Type == "DELETED" {
				p.ended(nil)
				return nil
			}
		case <-giveUp:
			return p.Kill()
		}
	}
}

// Kill ends the operator at once. The kubelet would first ask it to end: what the operator still does because of that must not
// be done any more, so the proxies refuse it, and its process is killed in the node.
func (p *pod) Kill() error {
	defer p.end()
	ctx, cancel := context.WithTimeout(context.Background(), podRequestTimeout)
	defer cancel()
	p.run.injector.Refuse()
	p.old = append(p.old, p.uid)
	scaled := p.scale(ctx, 0)
	if scaled == nil {
		scaled = p.awaitScaled(ctx)
	}
	deleted := p.pods().Delete(ctx, p.name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.uid},
	})
	_, id, _ := strings.Cut(p.container, "://")
	killed := docker.Exec(ctx, p.node, nil, io.Discard, "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal", "SIGKILL", id)
	if apierrors.IsNotFound(deleted) {
		deleted = nil
	}
	if killed != nil && endedBefore.MatchString(killed.Error()) {
		killed = nil
	}
	err := errors.Join(scaled, deleted, killed, p.awaitGone(ctx))
	p.ended(err)
	return err
}

// gone is a script that waits until no sandbox with a Pod's uid is ready in its node.
const gone = `while [ -n "$(crictl pods --quiet --state ready --label "io.kubernetes.pod.uid=$0")" ]; do sleep 0.05; done`

// awaitGone waits until the kubelet has ended the Pod. One that has not heard of the deletion yet starts a killed container again:
// there would be another operator for a moment, which may take the Lease with it.
func (p *pod) awaitGone(ctx context.Context) error {
	err := docker.Exec(ctx, p.node, nil, io.Discard, "timeout", fmt.Sprintf("%.0f", podRequestTimeout.Seconds()), "bash", "-c", gone, string(p.uid))
	if err != nil {
		return fmt.Errorf("waiting until the kubelet has ended the operator's Pod: %w", err)
	}
	return nil
}

// endedBefore is what containerd says of a container that can't be killed, since it has ended.
var endedBefore = regexp.MustCompile(`not found|already finished`)
