// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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

// Newer reports whether an object is a later version than another one, or made after it: API servers order the versions of all objects of a
// kind (k8s.io/apimachinery/pkg/util/resourceversion). A watch that has told of what is newer than an edit has told of the edit.
func Newer(object, than metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order > 0
}

// IgnoreGone is nil for what is not there any more.
func IgnoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
