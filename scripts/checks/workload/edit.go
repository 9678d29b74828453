// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/retry"
)

// ClientOf is a client of one kind of child.
type ClientOf[Child any] interface {
	Get(context.Context, string, metav1.GetOptions) (Child, error)
	Update(context.Context, Child, metav1.UpdateOptions) (Child, error)
}

// Edit changes a child as `kubectl edit` would, and returns the new object.
func Edit[Child any](ctx context.Context, client ClientOf[Child], name string,
	change func(Child),
) (edited Child, err error) {
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

// Newer reports whether an object is a later version than another one, or was created after it. API servers order the
// versions of all objects of a kind (k8s.io/apimachinery/pkg/util/resourceversion). When a watch has reported an object
// that is newer than an edit, it has also reported the edit.
func Newer(object, than metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order > 0
}

// Unseen is the observation of a check before the watch has reported the check's own change.
const Unseen = "the watch has not told of it"

// UntilSeen is how long an operator takes to receive a change. A check pauses for it between two changes, so that the
// operator receives both of them.
const UntilSeen = 50 * time.Millisecond

// ServiceEdit is a manual edit of a Service, and the words that describe it. nodePort is a free port.
type ServiceEdit struct {
	What   string
	Change func(service *corev1.ServiceSpec, nodePort int32)
}

// ServiceEdits edit every field that an owner sets in a Service with one port.
var ServiceEdits = []ServiceEdit{
	{
		"the selector was changed to app=nobody",
		func(s *corev1.ServiceSpec, _ int32) { s.Selector = map[string]string{"app": "nobody"} },
	},
	{
		"the targetPort was changed to 1",
		func(s *corev1.ServiceSpec, _ int32) { s.Ports[0].TargetPort = intstr.FromInt32(1) },
	},
	{"the number of the port was raised by one", func(s *corev1.ServiceSpec, _ int32) { s.Ports[0].Port++ }},
	{
		"the node port was changed to another one",
		func(s *corev1.ServiceSpec, nodePort int32) { s.Ports[0].NodePort = nodePort },
	},
	{"the type was changed to ClusterIP", func(s *corev1.ServiceSpec, _ int32) {
		s.Type, s.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
	}},
	{
		"the label app=nobody was added to the selector",
		func(s *corev1.ServiceSpec, _ int32) { s.Selector["app"] = "nobody" },
	},
}

// Unrestored describes what is left of a manual edit of a Service that had this spec. Empty: nothing. edited is the
// Service after the edit. WrongService looks at the other fields.
func Unrestored(now, edited *corev1.Service, before *corev1.ServiceSpec) string {
	switch {
	case !reflect.DeepEqual(now.Spec.Selector, before.Selector):
		return fmt.Sprintf("the Service %s has the selector %s", now.Name, labels.Set(now.Spec.Selector))
	case now.Spec.Ports[0].Port != before.Ports[0].Port:
		return fmt.Sprintf("the Service %s has the port %d, and it had %d",
			now.Name, now.Spec.Ports[0].Port, before.Ports[0].Port)
	case !Newer(now, edited):
		return Unseen
	}
	return ""
}

// IgnoreGone returns nil for the error of an object that no longer exists.
func IgnoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
