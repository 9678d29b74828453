// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/readyz"
)

// pollInterval is short because a whole grading run takes seconds, and the server is on this machine.
const pollInterval = 15 * time.Millisecond

// waitAPIReady waits until the API server reports that it is ready. It does not wait for hooks whose work was done
// before.
func (c *Cluster) waitAPIReady(ctx context.Context, done ...string) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	return c.poll(ctx, "the API server to be ready", func(ctx context.Context) (bool, error) {
		return readyz.Ask(ctx, client.Discovery().RESTClient(), done...) == nil, nil
	})
}

// waitControllers waits until the controllers work: the ServiceAccount default exists, and the garbage collector, which
// starts last, collects.
func (c *Cluster) waitControllers(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := c.poll(ctx, "the ServiceAccount default", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return found(err)
	}); err != nil {
		return err
	}
	return c.waitGarbageCollected(ctx, client)
}

// waitGarbageCollected creates an object whose owner does not exist and waits until the garbage collector removes it.
func (c *Cluster) waitGarbageCollected(ctx context.Context, client kubernetes.Interface) error {
	configMaps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	orphan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "operator-labs-orphan-",
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "never-existed", UID: types.UID("00000000-0000-0000-0000-000000000000")},
		},
	}}
	orphan, err := configMaps.Create(ctx, orphan, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating an orphan for the garbage collector: %w", err)
	}
	return c.poll(ctx, "the garbage collector to remove an orphan", func(ctx context.Context) (bool, error) {
		_, err := configMaps.Get(ctx, orphan.Name, metav1.GetOptions{})
		exists, err := found(err)
		return !exists && err == nil, err
	})
}

// found separates NotFound, which callers retry, from other errors, which end the wait.
func found(err error) (bool, error) {
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// poll repeats ask until it returns true or an error, or until the context ends. It also fails when a program of the
// cluster has ended.
func (c *Cluster) poll(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		yes, err := ask(ctx)
		if yes || err != nil {
			return yes, err
		}
		if name, dead := c.died(); dead {
			return false, fmt.Errorf("%s has ended%s", name, c.logTail(name))
		}
		return false, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for %s: %w%s", what, context.Cause(ctx), c.logTail("kube-apiserver"))
	}
	return fmt.Errorf("waiting for %s: %w", what, err)
}

// logTail returns the last lines of a program's log, for an error message.
func (c *Cluster) logTail(component string) string {
	const lines = 5
	content, err := os.ReadFile(c.log(component))
	if errors.Is(err, os.ErrNotExist) || len(content) == 0 {
		return ""
	}
	all := strings.Split(string(bytes.TrimSpace(content)), "\n")
	return "; the last lines of its log:\n  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
