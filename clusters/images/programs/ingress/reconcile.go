// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// ControllerName is the controller in the spec of our IngressClasses.
	ControllerName = "lva.io/ingress"
	// classAnnotation named an Ingress's class before the field ingressClassName did. cert-manager may still write it.
	classAnnotation = "kubernetes.io/ingress.class"
)

// Reconciler builds a table of all Ingresses of our class, each time one of the objects that they refer to changes.
type Reconciler struct {
	client.Client
	// Service is the Service in front of this program.
	Service types.NamespacedName

	table atomic.Pointer[Table]
}

// SetupWithManager maps every change to the same request, because there is one table for all Ingresses.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	table := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "table"}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("ingress").
		Watches(&networkingv1.Ingress{}, table).
		Watches(&networkingv1.IngressClass{}, table).
		Watches(&corev1.Service{}, table).
		Watches(&corev1.Secret{}, table).
		Complete(r)
}

// Table returns the newest table. It is empty before the first one is built.
func (r *Reconciler) Table() *Table {
	if table := r.table.Load(); table != nil {
		return table
	}
	return newTable()
}

// Ready reports whether a table was built.
func (r *Reconciler) Ready(*http.Request) error {
	if r.table.Load() == nil {
		return errors.New("no Ingress has been read yet")
	}
	return nil
}

// Reconcile builds the table from objects in the cache, and then writes the Ingresses' status.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	ingresses, err := r.ours(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	table := newTable()
	for i := range ingresses {
		if err := errors.Join(r.addRoutes(ctx, table, &ingresses[i]),
			r.addCertificates(ctx, table, &ingresses[i])); err != nil {
			return ctrl.Result{}, err
		}
	}
	table.sort()
	r.table.Store(table)
	return ctrl.Result{}, r.writeStatus(ctx, ingresses)
}

// ours returns the Ingresses of our class, oldest first.
func (r *Reconciler) ours(ctx context.Context) ([]networkingv1.Ingress, error) {
	var classes networkingv1.IngressClassList
	var all networkingv1.IngressList
	if err := errors.Join(r.List(ctx, &classes), r.List(ctx, &all)); err != nil {
		return nil, fmt.Errorf("listing Ingresses: %w", err)
	}
	ingresses := slices.DeleteFunc(all.Items, func(ingress networkingv1.Ingress) bool {
		return !slices.ContainsFunc(classes.Items, func(class networkingv1.IngressClass) bool {
			return class.Spec.Controller == ControllerName && class.Name == classOf(&ingress)
		})
	})
	slices.SortFunc(ingresses, func(a, b networkingv1.Ingress) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return ingresses, nil
}

func classOf(ingress *networkingv1.Ingress) string {
	if name := ingress.Spec.IngressClassName; name != nil {
		return *name
	}
	return ingress.Annotations[classAnnotation]
}

func (r *Reconciler) addRoutes(ctx context.Context, table *Table, ingress *networkingv1.Ingress) error {
	if named := ingress.Spec.DefaultBackend; named != nil {
		to, err := r.backend(ctx, ingress.Namespace, named)
		if err != nil {
			return err
		}
		table.add("", "/", nil, to)
	}
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			to, err := r.backend(ctx, ingress.Namespace, &path.Backend)
			if err != nil {
				return err
			}
			table.add(strings.ToLower(rule.Host), path.Path, path.PathType, to)
		}
	}
	return nil
}

// backend returns the address of a Service. A missing Service is not an error of the controller: the client gets a page
// that names what is missing.
func (r *Reconciler) backend(
	ctx context.Context, namespace string, named *networkingv1.IngressBackend,
) (backend, error) {
	if named.Service == nil {
		return backend{missing: "the Ingress names a resource that is no Service, which this controller does not know"}, nil
	}
	var service corev1.Service
	err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: named.Service.Name}, &service)
	if apierrors.IsNotFound(err) {
		return backend{missing: fmt.Sprintf("the Ingress names the Service %s, and the namespace %s has none of that name",
			named.Service.Name, namespace)}, nil
	}
	if err != nil {
		return backend{}, fmt.Errorf("reading the Service %s: %w", named.Service.Name, err)
	}
	for _, port := range service.Spec.Ports {
		if port.Port == named.Service.Port.Number || port.Name == named.Service.Port.Name && port.Name != "" {
			return backend{url: &url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", addressOf(&service), port.Port)}}, nil
		}
	}
	return backend{
		missing: fmt.Sprintf("the Service %s in the namespace %s has no port that the Ingress names",
			service.Name, namespace),
	}, nil
}

// addressOf returns a Service's own address. A Service without one is reached by its name, which resolves to its Pods.
func addressOf(service *corev1.Service) string {
	if ip := service.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
		return ip
	}
	return service.Name + "." + service.Namespace + ".svc.cluster.local."
}

// addCertificates reads the Secrets of an Ingress. Without the Secret, or with a broken one, HTTPS has no certificate
// for these hosts until the Secret changes. The rest of the table does not wait for it.
func (r *Reconciler) addCertificates(ctx context.Context, table *Table, ingress *networkingv1.Ingress) error {
	for _, block := range ingress.Spec.TLS {
		var secret corev1.Secret
		err := r.Get(ctx, types.NamespacedName{Namespace: ingress.Namespace, Name: block.SecretName}, &secret)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the Secret %s: %w", block.SecretName, err)
		}
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "a Secret holds no certificate",
				"namespace", secret.Namespace, "secret", secret.Name)
			continue
		}
		hosts := block.Hosts
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for _, host := range hosts {
			if name := strings.ToLower(host); table.certificates[name] == nil {
				table.certificates[name] = &pair
			}
		}
	}
	return nil
}

// writeStatus writes the address at which the Ingresses are served, which is that of the Service in front of this
// program.
func (r *Reconciler) writeStatus(ctx context.Context, ingresses []networkingv1.Ingress) error {
	var service corev1.Service
	if err := r.Get(ctx, r.Service, &service); err != nil {
		return client.IgnoreNotFound(err)
	}
	status := networkingv1.IngressLoadBalancerStatus{
		Ingress: []networkingv1.IngressLoadBalancerIngress{{IP: service.Spec.ClusterIP}},
	}
	var failed []error
	for i := range ingresses {
		ingress := &ingresses[i]
		if equality.Semantic.DeepEqual(ingress.Status.LoadBalancer, status) {
			continue
		}
		before := ingress.DeepCopy()
		ingress.Status.LoadBalancer = status
		failed = append(failed, client.IgnoreNotFound(r.Status().Patch(ctx, ingress, client.MergeFrom(before))))
	}
	return errors.Join(failed...)
}
