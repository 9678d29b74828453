// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/submission"
)

const (
	// startTimeout is how long it may take until a Pod runs, and until its operator has sent its first request.
	startTimeout = time.Minute
	// requestTimeout is the time limit for a single request of the grader.
	requestTimeout = 20 * time.Second
	// poll is the interval of checks for the log of a Pod that has just started, and of the ReplicaSets of a Pod that is
	// to end.
	poll = 100 * time.Millisecond
)

// operator is the operator in the cluster.
type operator struct {
	*Deployment
	stage   *podStage
	gateway stage.Gateway
	client  kubernetes.Interface
	server  *apiServer  // nil: not an aggregated API server
	old     []types.UID // Pods that are no longer the operator
	flags   []string    // extra flags that its Deployment has now
}

func (o *operator) pods() corev1client.PodInterface { return o.client.CoreV1().Pods(o.Namespace) }

func (o *operator) list() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: apilabels.SelectorFromSet(o.Selector).String()}
}

// scale sets the number of the operator's Pods.
func (o *operator) scale(ctx context.Context, replicas int) error {
	_, err := o.client.AppsV1().Deployments(o.Namespace).Patch(ctx, o.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{}, "scale")
	if err != nil {
		return fmt.Errorf("scaling the operator's Deployment to %d: %w", replicas, err)
	}
	return nil
}

// awaitScaled waits until all ReplicaSets of the Deployment have observed that they must have no Pods. A ReplicaSet
// that has not would replace a deleted Pod. For a moment there would be another operator, which might acquire the Lease
// and keep it.
func (o *operator) awaitScaled(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		sets, err := o.client.AppsV1().ReplicaSets(o.Namespace).List(ctx, o.list())
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

// Start starts the operator, and returns when its Pod runs.
func (o *operator) Start(log io.Writer) (stage.Instance, error) { return o.startWith(log, nil) }

// adjustable is an operator whose program has listed its flags.
type adjustable struct {
	*operator
	known []string
}

// HasFlag reports whether the program's help lists a flag of this name.
func (a adjustable) HasFlag(flag string) bool { return slices.Contains(a.known, flag) }

// StartWith is Start with more flags: arguments of the container, after those that the Deployment has.
func (a adjustable) StartWith(log io.Writer, flags ...string) (stage.Instance, error) {
	return a.startWith(log, flags)
}

var (
	_ stage.Adjustable = adjustable{}
	_ stage.Server     = adjustable{}
)

// scaleUp scales the Deployment to one Pod, with more flags.
func (o *operator) scaleUp(ctx context.Context, flags []string) error {
	if slices.Equal(flags, o.flags) {
		return o.scale(ctx, 1)
	}
	container, err := submission.OperatorOf(&o.manager.Spec.Template.Spec)
	if err != nil {
		return err
	}
	// In one step, because no Pod with the old flags must start.
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"replicas": 1,
		"template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": container.Name, "args": slices.Concat(container.Args, flags)},
		}}},
	}})
	if err != nil {
		return err
	}
	if _, err := o.client.AppsV1().Deployments(o.Namespace).Patch(ctx, o.Name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("adding the flags %s to the operator's Deployment: %w", strings.Join(flags, " "), err)
	}
	o.flags = flags
	return nil
}

func (o *operator) startWith(log io.Writer, flags []string) (stage.Instance, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout,
		fmt.Errorf("its Pod did not run within %s", startTimeout))
	defer cancel()
	o.gateway.Admit()
	if err := o.scaleUp(ctx, flags); err != nil {
		return nil, err
	}
	running, err := o.await(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting the operator's Pod: %w", err)
	}
	living, end := context.WithCancel(context.Background())
	p := &pod{
		operator: o,
		uid:      running.UID,
		name:     running.Name,
		node:     running.Spec.NodeName,
		done:     make(chan struct{}),
		end:      end,
	}
	p.container = o.status(running).ContainerID
	go p.watch(living)
	go p.follow(living, log)
	return p, nil
}

// await waits until a new Pod of the operator runs.
func (o *operator) await(ctx context.Context) (running *corev1.Pod, err error) {
	status := "no Pod was created"
	err = o.watchPods(ctx, o.list(), func(_ watch.EventType, found *corev1.Pod) (ready bool) {
		if found.DeletionTimestamp != nil || slices.Contains(o.old, found.UID) {
			return false
		}
		ready, status = o.inspect(found)
		running = found
		return ready
	})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %s", err, status)
	}
	return running, err
}

// watchPods watches Pods until done returns true for one.
func (o *operator) watchPods(
	ctx context.Context, which metav1.ListOptions, done func(watch.EventType, *corev1.Pod) bool,
) error {
	return await.Change(ctx, o.pods(), which, forPods(done))
}

// forPods returns a function that calls done with the Pod of an event, and returns an error for any other object.
func forPods(done func(watch.EventType, *corev1.Pod) bool) func(watch.Event) (bool, error) {
	return func(change watch.Event) (bool, error) {
		found, ok := change.Object.(*corev1.Pod)
		if !ok {
			return false, apierrors.FromObject(change.Object)
		}
		return done(change.Type, found), nil
	}
}

// status returns the status of the operator's container.
func (o *operator) status(p *corev1.Pod) corev1.ContainerStatus {
	for _, status := range p.Status.ContainerStatuses {
		if status.Name == o.Container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// inspect reports whether the operator has started in a Pod, and otherwise the reason.
func (o *operator) inspect(p *corev1.Pod) (started bool, status string) {
	state := o.status(p).State
	switch {
	case state.Running != nil, state.Terminated != nil:
		return true, ""
	case state.Waiting != nil && state.Waiting.Reason != "":
		return false, strings.TrimSuffix(state.Waiting.Reason+": "+state.Waiting.Message, ": ")
	}
	for _, condition := range p.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return false, condition.Message
		}
	}
	return false, "its phase is " + string(p.Status.Phase)
}

// AwaitListening waits until Services route to the operator, and the API server to an aggregated API server.
func (o *operator) AwaitListening(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, startTimeout, errNotReady)
	defer cancel()
	err := o.ready(waiting)
	switch {
	case errors.Is(err, errNotReady):
		return nil // the checks detect that
	case err != nil && waiting.Err() == nil:
		return fmt.Errorf("watching the operator's Pod: %w", err)
	case err != nil:
		return err
	case o.server == nil:
		return o.awaitConverting(ctx)
	}
	return install.AwaitAvailable(ctx, o.server.client, o.server.registers, availableTimeout)
}

var errNotReady = errors.New("the operator's Pod is not ready")

// pod is the operator from a start to its end.
type pod struct {
	*operator
	uid                   types.UID
	name, node, container string

	once sync.Once
	done chan struct{}
	err  error
	end  context.CancelFunc
}

// Done returns a channel that is closed when the operator has ended. Err then returns how it ended.
func (p *pod) Done() <-chan struct{} { return p.done }

// Err returns nil for an exit code of zero.
func (p *pod) Err() error { return p.err }

func (p *pod) finish(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

// watch detects when the operator ends by itself. It ignores errors: either the run is being stopped, or the next
// request fails as well.
func (p *pod) watch(ctx context.Context) {
	_ = p.watchPods(ctx, p.selector(), func(_ watch.EventType, now *corev1.Pod) bool {
		status := p.status(now)
		for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
			if state.Terminated != nil && now.DeletionTimestamp == nil {
				p.finish(exited(state.Terminated))
				return true
			}
		}
		return false
	})
}

// selector selects only this Pod.
func (p *pod) selector() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + p.name}
}

func exited(state *corev1.ContainerStateTerminated) error {
	text := fmt.Sprintf("exit status %d", state.ExitCode)
	if state.Reason != "" && state.Reason != "Error" && state.Reason != "Completed" {
		text += " (" + state.Reason + ")"
	}
	if state.ExitCode == 0 {
		return nil
	}
	return errors.New(text)
}

// follow copies the operator's output.
func (p *pod) follow(ctx context.Context, log io.Writer) {
	// A container that does not exist yet has no log.
	_ = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		stream, err := p.pods().GetLogs(p.name, &corev1.PodLogOptions{Container: p.Container, Follow: true}).Stream(ctx)
		if err != nil {
			return false, nil
		}
		defer stream.Close()
		_, _ = io.Copy(log, stream) // it ends with the container
		return true, nil
	})
}

// Stop asks the operator to end, as scaling down its Deployment does.
func (p *pod) Stop(grace time.Duration) error {
	defer p.end()
	ctx, cancel := context.WithTimeout(context.Background(), grace+requestTimeout/2)
	defer cancel()
	p.old = append(p.old, p.uid)
	if err := p.scaleDown(ctx); err != nil {
		return p.Kill()
	}
	p.finish(nil)
	return nil
}

// scaleDown scales the Deployment to 0, and waits until the Pod is gone.
func (p *pod) scaleDown(ctx context.Context) error {
	now, err := p.pods().Get(ctx, p.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return p.scale(ctx, 0)
	}
	if err != nil {
		return err
	}
	if err := p.scale(ctx, 0); err != nil {
		return err
	}
	return await.ChangeSince(ctx, now.ResourceVersion, p.pods(), p.selector(),
		forPods(func(change watch.EventType, _ *corev1.Pod) bool {
			return change == watch.Deleted
		}))
}

// Kill ends the operator at once. The kubelet would first ask it to end, and nothing that the operator does because of
// that may have an effect. Therefore the proxies refuse its requests, and its process is killed in the node.
func (p *pod) Kill() error {
	defer p.end()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	p.gateway.Refuse()
	p.old = append(p.old, p.uid)
	scaled := p.scale(ctx, 0)
	if scaled == nil {
		scaled = p.awaitScaled(ctx)
	}
	deleted := p.pods().Delete(ctx, p.name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.uid},
	})
	_, id, _ := strings.Cut(p.container, "://")
	killed := p.stage.nodes.Kill(ctx, p.node, id)
	if apierrors.IsNotFound(deleted) {
		deleted = nil
	}
	err := errors.Join(scaled, deleted, killed, p.stage.nodes.AwaitGone(ctx, p.node, string(p.uid)))
	p.finish(err)
	return err
}
