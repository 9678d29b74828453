// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package existing

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// The Lease that names the run that works on a cluster. It is deleted when no run does.
const (
	leaseName      = "operator-labs"
	leaseNamespace = metav1.NamespaceDefault
)

// leaseDuration is how long a Lease is valid without a renewal, leaseRenewal is the time between two renewals, and
// leasePoll the time between two looks at the Lease of another holder.
var (
	leaseDuration = 30 * time.Second
	leaseRenewal  = 5 * time.Second
	leasePoll     = 500 * time.Millisecond
)

// Hold is the exclusive right to work on a cluster.
type Hold struct {
	leases coordinationv1client.LeaseInterface
	cancel context.CancelFunc
	lost   chan struct{}
	done   sync.WaitGroup
	lease  *coordinationv1.Lease
}

// Hold waits for its turn to work on the cluster, as long as the context allows. who is the name shown to others that
// wait meanwhile. waits is called with the reason of each wait, which names the current holder. A holder that was
// killed keeps the cluster for another half minute.
func (c *Cluster) Hold(ctx context.Context, who string, waits func(reason string)) (*Hold, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	h := &Hold{leases: client.CoordinationV1().Leases(leaseNamespace), lost: make(chan struct{})}
	if err := h.take(ctx, who, waits); err != nil {
		return nil, err
	}
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	h.done.Go(func() { h.renew(renewing) })
	return h, nil
}

// take takes the Lease when it is free. Only our clock decides whether it is renewed, because the holder's clock may
// differ.
func (h *Hold) take(ctx context.Context, who string, waits func(string)) error {
	var seen string
	var since time.Time
	reason := ""
	err := wait.PollUntilContextCancel(ctx, leasePoll, true, func(ctx context.Context) (bool, error) {
		held, err := h.try(ctx, who, seen, since)
		if err != nil || h.lease != nil {
			return true, err
		}
		if held.ResourceVersion != seen {
			seen, since = held.ResourceVersion, time.Now()
		}
		if now := describe(held); now != reason {
			reason = now
			waits(reason)
		}
		return false, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
	case reason != "":
		return fmt.Errorf("%s: %w", reason, context.Cause(ctx))
	default:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("taking the Lease %s/%s: %w", leaseNamespace, leaseName, err)
}

func describe(lease *coordinationv1.Lease) string {
	text := "another user works on this cluster"
	if holder := lease.Spec.HolderIdentity; holder != nil {
		text = *holder + " works on this cluster"
	}
	if at := lease.Spec.AcquireTime; at != nil {
		text += ", since " + at.Local().Format(time.TimeOnly)
	}
	return text
}

// try takes the Lease if it is free, or its holder has not renewed it for its duration. Otherwise it returns the one
// that is held.
func (h *Hold) try(ctx context.Context, who, seen string, since time.Time) (*coordinationv1.Lease, error) {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &who,
			LeaseDurationSeconds: new(int32(max(1, leaseDuration/time.Second))),
			AcquireTime:          &now,
			RenewTime:            &now,
		},
	}
	made, err := h.leases.Create(ctx, lease, metav1.CreateOptions{})
	if err == nil {
		h.lease = made
		return nil, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	held, err := h.leases.Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &coordinationv1.Lease{}, nil // it was released at this moment
	}
	if err != nil {
		return nil, err
	}
	if held.ResourceVersion != seen || time.Since(since) < leaseDuration {
		return held, nil
	}
	lease.ResourceVersion = held.ResourceVersion
	made, err = h.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return held, nil // it has just been renewed, released or taken
	}
	if err != nil {
		return nil, err
	}
	h.lease = made
	return nil, nil
}

// renew keeps the Lease until the context ends, or it is lost.
func (h *Hold) renew(ctx context.Context) {
	tick := time.NewTicker(leaseRenewal)
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		next := h.lease.DeepCopy()
		next.Spec.RenewTime = new(metav1.NowMicro())
		attempt, cancel := context.WithTimeout(ctx, leaseDuration/2)
		made, err := h.leases.Update(attempt, next, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			made, err = h.ownLease(attempt, err)
		}
		cancel()
		switch {
		case err == nil:
			h.lease, renewed = made, time.Now()
		case ctx.Err() != nil:
			return
		case apierrors.IsConflict(err), apierrors.IsNotFound(err), time.Since(renewed) > leaseDuration:
			close(h.lost)
			return
		}
	}
}

// ownLease returns the current Lease if we wrote it: a renewal may succeed although its response is lost. Otherwise it
// returns the error that was given.
func (h *Hold) ownLease(ctx context.Context, otherwise error) (*coordinationv1.Lease, error) {
	now, err := h.leases.Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	ours := h.lease
	if now.UID != ours.UID || !now.Spec.AcquireTime.Equal(ours.Spec.AcquireTime) ||
		!reflect.DeepEqual(now.Spec.HolderIdentity, ours.Spec.HolderIdentity) {
		return nil, otherwise
	}
	return now, nil
}

// Lost is closed when another run has taken the cluster, although the Lease was not released, because it could not be
// renewed in time.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// ErrLost reports that the right to work on the cluster was lost.
var ErrLost = errors.New("the Lease could not be renewed in time, and another run may be on the cluster: " +
	"see whether the cluster answers, and try again")

// Release lets the next run work, and deletes the Lease.
func (h *Hold) Release(ctx context.Context) error {
	h.cancel()
	h.done.Wait()
	err := h.delete(ctx)
	if apierrors.IsConflict(err) {
		ours, problem := h.ownLease(ctx, err)
		if err = problem; err == nil {
			h.lease = ours
			err = h.delete(ctx)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("releasing the Lease %s/%s: %w", leaseNamespace, leaseName, err)
	}
	return nil
}

// delete deletes the Lease if it is unchanged. A Lease that was lost belongs to another run.
func (h *Hold) delete(ctx context.Context) error {
	as := metav1.Preconditions{UID: &h.lease.UID, ResourceVersion: &h.lease.ResourceVersion}
	return h.leases.Delete(ctx, leaseName, metav1.DeleteOptions{Preconditions: &as})
}
