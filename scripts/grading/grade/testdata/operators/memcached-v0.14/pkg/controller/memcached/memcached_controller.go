// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package memcached

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	cachev1alpha1 "example.com/memcached-operator/pkg/apis/cache/v1alpha1"
)

// Add creates a new Memcached Controller and adds it to the Manager
func Add(mgr manager.Manager) error {
	c, err := controller.New("memcached-controller", mgr, controller.Options{
		Reconciler: &ReconcileMemcached{client: mgr.GetClient(), scheme: mgr.GetScheme()},
	})
	if err != nil {
		return err
	}
	if err := c.Watch(&source.Kind{Type: &cachev1alpha1.Memcached{}}, &handler.EnqueueRequestForObject{}); err != nil {
		return err
	}
	return c.Watch(&source.Kind{Type: &corev1.Pod{}}, &handler.EnqueueRequestForOwner{
		IsController: true,
		OwnerType:    &cachev1alpha1.Memcached{},
	})
}

// ReconcileMemcached reconciles a Memcached object
type ReconcileMemcached struct {
	client client.Client
	scheme *runtime.Scheme
}

// Reconcile keeps a Pod for each Memcached
func (r *ReconcileMemcached) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	instance := &cachev1alpha1.Memcached{}
	err := r.client.Get(ctx, request.NamespacedName, instance)
	if errors.IsNotFound(err) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: instance.Name + "-pod", Namespace: instance.Namespace},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "memcached", Image: "memcached:1.4.36-alpine", Command: []string{"memcached", "-m=64", "-o", "modern", "-v"},
		}}},
	}
	if err := controllerutil.SetControllerReference(instance, pod, r.scheme); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.client.Create(ctx, pod); err != nil && !errors.IsAlreadyExists(err) {
		return reconcile.Result{}, err
	}
	instance.Status.Nodes = []string{pod.Name}
	return reconcile.Result{}, r.client.Status().Update(ctx, instance)
}
