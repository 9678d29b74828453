// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package await

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Lister lists and watches objects of one kind. Every client of client-go is one for its kind.
type Lister[List runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (List, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Change lists the objects that the options select, and then watches them, until done returns true for one. done gets
// the listed objects as added ones. Client-go's RetryWatcher restarts a watch that ends. An error of the list, of done,
// or of the API server ends the wait. Client-go's own UntilWithSync is not used because it would wait forever if the
// list is forbidden.
//
// When the context has ended, the error is its cause.
func Change[List runtime.Object](
	ctx context.Context, objects Lister[List], options metav1.ListOptions, done func(watch.Event) (bool, error),
) error {
	list, err := objects.List(ctx, options)
	if err != nil {
		return err
	}
	finished := false
	err = meta.EachListItem(list, func(object runtime.Object) (err error) {
		if !finished {
			finished, err = done(watch.Event{Type: watch.Added, Object: object})
		}
		return err
	})
	if finished || err != nil {
		return err
	}
	listed, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("reading the version of a list: %w", err)
	}
	return ChangeSince(ctx, listed.GetResourceVersion(), objects, options, done)
}

// ChangeSince is like Change, but does not list: the caller already knows the state at a resource version.
func ChangeSince[List runtime.Object](
	ctx context.Context, version string, objects Lister[List], options metav1.ListOptions,
	done func(watch.Event) (bool, error),
) error {
	changes := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, next metav1.ListOptions) (watch.Interface, error) {
			next.LabelSelector, next.FieldSelector = options.LabelSelector, options.FieldSelector
			return objects.Watch(ctx, next)
		},
	}
	_, err := watchtools.Until(ctx, version, changes, done)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
