// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// The operator works with WebApps of v1beta1, the version in which they are stored: the API server reads and writes
// that version without a conversion, so the operator does not need its own webhook. There is one exception: an operator
// is often upgraded before its CRD (Helm does not upgrade CRDs at all). Until the cluster serves v1beta1, the operator
// reads and writes v1alpha1, and converts in its own process.

var webAppKind = schema.GroupKind{Group: appsv1beta1.SchemeGroupVersion.Group, Kind: "WebApp"}

// newWebApp returns an empty WebApp of the version to read and write: v1beta1 where the cluster serves it.
func newWebApp(mapper meta.RESTMapper) (client.Object, error) {
	// Without a version, the mapper answers with the one that the API server prefers: v1beta1 before v1alpha1.
	mapping, err := mapper.RESTMapping(webAppKind)
	if meta.IsNoMatchError(err) { // No version is known, as to a fake client in a test.
		return &appsv1alpha1.WebApp{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the version of WebApps that the cluster prefers: %w", err)
	}
	if mapping.GroupVersionKind.Version == appsv1alpha1.SchemeGroupVersion.Version {
		return &appsv1alpha1.WebApp{}, nil
	}
	return &appsv1beta1.WebApp{}, nil
}

// read reads a WebApp. It returns the WebApp as v1beta1, and as the object that the cluster serves: the owner of the
// children, since the garbage collector reads the owner in the version that an owner reference names.
func (r *WebAppReconciler) read(ctx context.Context, key client.ObjectKey) (*appsv1beta1.WebApp, client.Object, error) {
	served, err := newWebApp(r.RESTMapper())
	if err != nil {
		return nil, nil, err
	}
	if err := r.Get(ctx, key, served); err != nil {
		return nil, nil, err
	}
	if old, ok := served.(*appsv1alpha1.WebApp); ok {
		app := &appsv1beta1.WebApp{}
		return app, served, old.ConvertTo(app)
	}
	return served.(*appsv1beta1.WebApp), served, nil
}

// updateStatus writes the status of a WebApp, in the version in which it was read.
func (r *WebAppReconciler) updateStatus(ctx context.Context, app *appsv1beta1.WebApp, served client.Object) error {
	if old, ok := served.(*appsv1alpha1.WebApp); ok {
		if err := old.ConvertFrom(app); err != nil {
			return err
		}
		return r.Status().Update(ctx, old)
	}
	return r.Status().Update(ctx, app)
}
