// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// Newer reports whether an object is a later version than another one, or made after it: API servers order the versions
// of all objects of a kind (k8s.io/apimachinery/pkg/util/resourceversion). A watch that has told of what is newer than
// an edit has told of the edit.
func Newer(object, than metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order > 0
}

// Unseen is what a check observes before the watch has told of what it did.
const Unseen = "the watch has not told of it"

// ServiceEdit is a hand edit of a Service, and the words that describe it. nodePort is one that is free.
type ServiceEdit struct {
	What   string
	Change func(service *corev1.ServiceSpec, nodePort int32)
}

// ServiceEdits are edits of all that an owner says of a Service with one port.
var ServiceEdits = []ServiceEdit{
	{"the selector was changed to app=nobody", func(s *corev1.ServiceSpec, _ int32) { s.Selector = map[string]string{"app": "nobody"} }},
	{"the targetPort was changed to 1", func(s *corev1.ServiceSpec, _ int32) { s.Ports[0].TargetPort = intstr.FromInt32(1) }},
	{"the node port was changed to another one", func(s *corev1.ServiceSpec, nodePort int32) { s.Ports[0].NodePort = nodePort }},
	{"the type was changed to ClusterIP", func(s *corev1.ServiceSpec, _ int32) {
		s.Type, s.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
	}},
}

// IgnoreGone is nil for what is not there any more.
func IgnoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
