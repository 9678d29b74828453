// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"lva.io/operators/clusters/node/podnet"
)

// Pod is a Pod on this node.
type Pod struct {
	Name    types.NamespacedName
	UID     types.UID
	Address netip.Addr
	// Namespace is the Pod's network namespace. If it is nil, Drained can't know whether the Pod's programs have accepted
	// the connections that were routed to them.
	Namespace *os.File
}

// Drained waits until no new connection can reach a Pod that is being deleted. It is called before the Pod's programs
// get the signal to end. Kubernetes itself ends the programs and updates the endpoints at the same time, and
// connections are lost when the programs end first. That is why people write "sleep 5" into a preStop hook. Drained
// waits for three conditions:
//
//   - no rule routes connections to the Pod,
//   - connections that rules routed there before are established, and
//   - the Pod's programs have accepted them, because the kernel resets the connections that are in its queue when a
//     program stops listening.
//
// For a Pod that is not being deleted, of which one container is restarted, Drained returns at once. It returns an
// error if rules still route connections to the Pod when the context ends. The caller should end the Pod nevertheless.
func (p *Proxy) Drained(ctx context.Context, pod Pod) error {
	// The kubelet knows of the deletion by its own watch, which may be ahead of ours, so we ask the API server itself.
	object, err := p.options.Client.CoreV1().Pods(pod.Name.Namespace).Get(ctx, pod.Name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("checking whether the Pod %s is being deleted: %w", pod.Name, err)
	case object.UID == pod.UID && object.DeletionTimestamp == nil && !finished(object):
		return nil
	}
	if err := p.drained(ctx, pod); err != nil {
		return fmt.Errorf("draining the Pod %s: %w", pod.Name, err)
	}
	return nil
}

// finished reports whether a Pod has ended for good, even without a deletion: it completed, was evicted, or exceeded
// its deadline.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func (p *Proxy) drained(ctx context.Context, pod Pod) error {
	for {
		p.mutex.Lock()
		ready, changed := p.readyPods[pod.UID], p.changed
		p.mutex.Unlock()
		if !ready {
			return settled(ctx, pod)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("connections are still routed to %s: %w", pod.Address, context.Cause(ctx))
		}
	}
}

// managed is the manager of slices that follow Pods: a deleted Pod is soon removed from them. Slices that another
// controller or a user writes guarantee nothing.
const managed = "endpointslice-controller.k8s.io"

// readyPods returns the Pods that are ready, as Services see it. It leaves out a Pod that is about to end, although
// that Pod may be the last one and still get connections. No other Pod takes over from such a Pod, so there is nothing
// to wait for.
func readyPods(all []*discoveryv1.EndpointSlice) map[types.UID]bool {
	pods := map[types.UID]bool{}
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelManagedBy] != managed {
			continue
		}
		for _, e := range slice.Endpoints {
			// Pods are identified by UID and not by address, because all Pods in the node's network have the same address.
			if e.TargetRef != nil && ptr.Deref(e.Conditions.Ready, true) && !ptr.Deref(e.Conditions.Terminating, false) {
				pods[e.TargetRef.UID] = true
			}
		}
	}
	return pods
}

const (
	// settling is how long a Pod may take to accept the connections that were routed to it. A Pod that takes longer has
	// already stopped listening.
	settling = time.Second
	// pollInterval is how often the kernel's state is read.
	pollInterval = 2 * time.Millisecond
)

// settled waits until all connections that were routed to a Pod are accepted. On an idle machine, that is already the
// case. On an overloaded one, a packet may wait for a processor at any point of its path.
func settled(ctx context.Context, pod Pod) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	awaitPackets()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for _, pending := range []func(Pod) (bool, error){connecting, queued} {
		for {
			waits, err := pending(pod)
			if err != nil {
				return err
			}
			if !waits {
				break
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// awaitPackets waits until each packet that met the earlier rules has passed through them. While the kernel processes a
// packet, it keeps the objects that it reads, even if they have been replaced (RCU). A program can wait for the end of
// that, too (membarrier(2)), for some milliseconds. If the kernel doesn't allow it, the next steps see all packets but
// the very last one.
func awaitPackets() {
	const global = 1 // MEMBARRIER_CMD_GLOBAL
	_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0)
}

// beginning has the kernel's states of a connection of which only the first packets were seen (TCP_CONNTRACK_SYN_SENT,
// TCP_CONNTRACK_SYN_RECV).
var beginning = []uint8{1, 2}

// connecting reports whether the kernel has routed a connection to the Pod that is not established yet.
func connecting(pod Pod) (bool, error) {
	known, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil {
		return false, fmt.Errorf("listing the kernel's connections: %w", err)
	}
	return slices.ContainsFunc(known, func(flow *netlink.ConntrackFlow) bool {
		tcp, ok := flow.ProtoInfo.(*netlink.ProtoInfoTCP)
		answers, _ := netip.AddrFromSlice(flow.Reverse.SrcIP)
		return ok && slices.Contains(beginning, tcp.State) && answers.Unmap() == pod.Address
	}), nil
}

// listening is the state of a socket that waits for connections (TCP_LISTEN).
const listening = 10

// queued reports whether a program of the Pod has connections that it has not accepted.
func queued(pod Pod) (waits bool, err error) {
	if pod.Namespace == nil {
		return false, nil
	}
	err = podnet.Inside(pod.Namespace, func() error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			sockets, err := netlink.SocketDiagTCP(family)
			if err != nil {
				return fmt.Errorf("listing the Pod's sockets: %w", err)
			}
			for _, socket := range sockets {
				waits = waits || socket.State == listening && socket.RQueue > 0
			}
		}
		return nil
	})
	return waits, err
}
