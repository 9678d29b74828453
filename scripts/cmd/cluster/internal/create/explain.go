// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package create

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/addons"
)

// explainTime is the time limit for finding out why a step took too long.
const explainTime = 15 * time.Second

// explained adds an explanation from the namespace to an error, unless a person ended the step, or the error has one
// already.
func explained(ctx context.Context, err error, target addons.Target, namespace string) error {
	var late *addons.TimeoutError
	if errors.Is(context.Cause(ctx), context.Canceled) || errors.As(err, &late) {
		return err
	}
	if text := strings.TrimSpace(explain(ctx, target, namespace)); text != "" {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return err
}

// explain runs after a time limit, so it ignores the end of ctx.
func explain(ctx context.Context, target addons.Target, namespace string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	return workloads(ctx, target, namespace) + addons.Explain(ctx, target, namespace)
}

// workloads describes the Deployments and DaemonSets of a namespace that have fewer Pods than they should, or are
// scaled to 0. A list of Pods would not show these problems.
func workloads(ctx context.Context, target addons.Target, namespace string) string {
	client, err := kubernetes.NewForConfig(target.Config)
	if err != nil {
		return ""
	}
	var out strings.Builder
	if list, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, one := range list.Items {
			switch {
			case one.Spec.Replicas != nil && *one.Spec.Replicas == 0:
				fmt.Fprintf(&out, "  Deployment %s is scaled to 0: "+
					"`kubectl --namespace %s scale deployment %s --replicas 1` undoes that\n", one.Name, namespace, one.Name)
			case one.Status.ReadyReplicas < one.Status.Replicas:
				fmt.Fprintf(&out, "  Deployment %s: %d of %d Pods are ready\n",
					one.Name, one.Status.ReadyReplicas, one.Status.Replicas)
			}
		}
	}
	if list, err := client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, one := range list.Items {
			if status := one.Status; status.NumberReady < status.DesiredNumberScheduled {
				fmt.Fprintf(&out, "  DaemonSet %s: %d of %d Pods are ready\n",
					one.Name, status.NumberReady, status.DesiredNumberScheduled)
			}
		}
	}
	return out.String()
}
