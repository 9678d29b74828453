// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// ClientOf is a client of one kind of child.
type ClientOf[Child any] interface {
	Get(context.Context, string, metav1.GetOptions) (Child, error)
	Update(context.Context, Child, metav1.UpdateOptions) (Child, error)
}

// Edit changes a child as `kubectl edit` would, and returns what it then is.
func Edit[Child any](ctx context.Context, client ClientOf[Child], name string, change func(Child)) (edited Child, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(now)
		edited, err = client.Update(ctx, now, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
		return err
	})
	return edited, err
}

// IgnoreGone is nil for what is not there any more.
func IgnoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
