// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// election holds the flags for leader election among several instances of one program. Defaults are cert-manager's.
type election struct {
	enabled                  bool
	namespace                string
	lease, renewal, interval time.Duration
}

func (e *election) addFlags(f *flags) {
	f.BoolVar(&e.enabled, "leader-elect", true, "work only while it is the leader")
	f.StringVar(&e.namespace, "leader-election-namespace", "kube-system", "namespace of the Lease")
	f.DurationVar(&e.lease, "leader-election-lease-duration", 60*time.Second,
		"how long a leader that does not answer stays leader")
	f.DurationVar(&e.renewal, "leader-election-renew-deadline", 40*time.Second, "how long a leader tries to stay leader")
	f.DurationVar(&e.interval, "leader-election-retry-period", 15*time.Second, "how often it tries")
}

// lead calls work once it is the leader, and returns when work does or another leads.
func (e *election) lead(ctx context.Context, config *rest.Config, name string, watchdog *leaderelection.HealthzAdaptor,
	work func(context.Context) error,
) error {
	if !e.enabled {
		return work(ctx)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	identity, err := os.Hostname()
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, e.namespace, name,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return err
	}
	// The caller gets the leader's own error, not the loss of the lease that follows.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: name, LeaseDuration: e.lease, RenewDeadline: e.renewal, RetryPeriod: e.interval,
		ReleaseOnCancel: true, WatchDog: watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				result <- work(ctx)
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	select {
	case err := <-result:
		return err
	default:
		return errors.New("another instance is the leader now")
	}
}
