// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"context"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Resource is one kind that the server serves, with everything that is needed to serve it.
type Resource struct {
	Kind, ListKind   string
	Plural, Singular string
	ShortNames       []string
	// Object and List are empty ones; the OpenAPI documents are made from their Go types.
	Object, List runtime.Object
	Columns      []metav1.TableColumnDefinition
	// Cells are one row of the Table, as many as there are columns.
	Cells  func(object runtime.Object) []any
	Reader Reader
	// Writer is nil if the resource can only be read.
	Writer Writer
}

// Reader is what can be asked of every resource. Its errors are those of apimachinery's package errors.
type Reader interface {
	Get(ctx context.Context, namespace, name string) (runtime.Object, error)
	// List returns the objects of a namespace, or with "" of all.
	List(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error)
	// Watch returns the events until the context ends, or the options' timeout is over. The iterator runs in the
	// goroutine of the handler, which recovers from panics. A watch.Interface needs a goroutine of its own behind its
	// channel, and a panic in that one would end the server.
	Watch(ctx context.Context, namespace string, options metav1.ListOptions) (iter.Seq[watch.Event], error)
}

// Writer is what can be asked of a resource that is stored here. With dryRun everything happens but the storing.
type Writer interface {
	Create(ctx context.Context, object runtime.Object, dryRun bool) (runtime.Object, error)
	// Update replaces the object by what change makes of its current state. It calls change again if another write was
	// faster.
	Update(
		ctx context.Context, namespace, name string,
		change func(current runtime.Object) (runtime.Object, error), dryRun bool,
	) (runtime.Object, error)
	// Delete returns the object, and whether it is gone: one with finalizers stays until the last is removed.
	Delete(
		ctx context.Context, namespace, name string, options metav1.DeleteOptions, dryRun bool,
	) (object runtime.Object, gone bool, err error)
}

// verbs are what discovery says that can be done with the resource. kubectl believes it, and so does the controller
// that empties a namespace.
func (r Resource) verbs() metav1.Verbs {
	if r.Writer == nil {
		return metav1.Verbs{"get", "list", "watch"}
	}
	return metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}
