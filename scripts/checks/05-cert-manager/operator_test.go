// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certmanager

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/podutils"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/deployed"
	"lva.io/operators/scripts/checks/reach"
	"lva.io/operators/scripts/services/freezer"
)

var (
	certificates = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	requests     = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests"}
	icecreams    = schema.GroupVersionResource{Group: "demo.lva.io", Version: "v1", Resource: "icecreams"}
	// registrations are the kinds by which webhooks are registered.
	registrations = []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
)

const (
	// startLimit is how long a Pod may take to become ready: the kubelet retries a missing Secret with growing delays.
	startLimit = 40 * time.Second
	// issueLimit is how long cert-manager may take. It needs half a second.
	issueLimit = 20 * time.Second
	// serveLimit is how long a ready Pod may take to serve its certificate, which needs some milliseconds. askLimit is the
	// time limit of one connection.
	serveLimit = 10 * time.Second
	askLimit   = 5 * time.Second
)

// operator is the submission in the cluster.
type operator struct {
	*deployed.Cluster
	objects    []*unstructured.Unstructured
	deployment *appsv1.Deployment
	// secret is the name of the Secret that the Deployment mounts for the webhook server. Empty: it mounts none.
	secret string
	// waited is the observed state of the waiting Pod.
	waited struct{ phase, container, event string }
	// misplaced is the reason why a Certificate whose Issuer is in another namespace was not issued, and refused is an
	// error of the API server.
	refused string
}

type operatorKey struct{}

func operatorOf(ctx context.Context) *operator { return ctx.Value(operatorKey{}).(*operator) }

// open reads the submission and installs the freezer in the cluster.
func open(ctx context.Context, suite *check.Suite) (context.Context, error) {
	o := &operator{}
	var err error
	if o.Cluster, err = deployed.Open(suite); err != nil {
		return nil, err
	}
	if o.objects, err = deployed.Manifests(suite); err != nil {
		return nil, err
	}
	shop, err := deployed.Read(freezer.Manifests)
	if err != nil {
		return nil, err
	}
	if err := o.Apply(ctx, shop...); err != nil {
		return nil, err
	}
	found := deployed.Of(o.objects, "Deployment")
	if len(found) != 1 {
		return nil, fmt.Errorf("config/default brings %d Deployments", len(found))
	}
	if o.deployment, err = deployed.Deployment(found[0]); err != nil {
		return nil, err
	}
	deployed.QuickReadiness(o.deployment)
	if found[0].Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(o.deployment); err != nil {
		return nil, err
	}
	delete(found[0].Object, "status")
	for _, volume := range o.deployment.Spec.Template.Spec.Volumes {
		if volume.Secret != nil {
			o.secret = volume.Secret.SecretName
		}
	}
	return context.WithValue(ctx, operatorKey{}, o), nil
}

// apply applies objects of the submission. The check fails if the API server refuses one.
func (o *operator) apply(ctx context.Context, t *testing.T, c *check.Check, objects ...*unstructured.Unstructured) {
	t.Helper()
	err := o.Apply(ctx, objects...)
	if refused, ok := errors.AsType[*deployed.RefusedError](err); ok {
		c.Fail(t, "the API server accepts what config/default brings",
			refused.Error(), "none of it was changed by the grader")
	}
	c.OK(t, "applying config/default", err)
}

// fails ends a check. Its evidence is the state and the logs of the Pod.
func (o *operator) fails(ctx context.Context, t *testing.T, c *check.Check, expected, observed string) {
	t.Helper()
	c.Fail(t, expected, observed, o.Evidence(ctx, o.deployment)...)
}

// ready waits until a Pod of the operator is ready.
func (o *operator) ready(ctx context.Context) (pod *corev1.Pod, err error) {
	return pod, await.Within(ctx, startLimit, deployed.Poll, "the operator's Pod to be ready",
		func(ctx context.Context) (string, error) {
			pods, err := o.Pods(ctx, o.deployment)
			if err != nil || len(pods) == 0 {
				return "there is none", err
			}
			if pod = &pods[0]; podutils.IsPodReady(pod) {
				return "", nil
			}
			return deployed.Describe(pod), nil
		})
}

// scale sets the number of the operator's Pods.
func (o *operator) scale(ctx context.Context, replicas int) error {
	_, err := o.Client.AppsV1().Deployments(o.deployment.Namespace).Patch(ctx, o.deployment.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{}, "scale")
	return err
}

// leaf returns the certificate in the Secret that the Deployment mounts, and the Secret.
func (o *operator) leaf(ctx context.Context) (*x509.Certificate, *corev1.Secret, error) {
	secret, err := o.Client.CoreV1().Secrets(o.deployment.Namespace).Get(ctx, o.secret, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return nil, secret, fmt.Errorf("the Secret %s has no certificate in %s", o.secret, corev1.TLSCertKey)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	return certificate, secret, err
}

// served returns the certificate that the operator's Pod serves.
func (o *operator) served(ctx context.Context, pod *corev1.Pod) (*x509.Certificate, error) {
	tunnel, err := reach.Pod(ctx, o.Config, pod.Namespace, pod.Name, 9443)
	if err != nil {
		return nil, err
	}
	defer tunnel.Close()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate is inspected, whoever signed it
	connection, err := dialer.DialContext(ctx, "tcp", tunnel.Address)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// serves waits until the operator's Pod serves a certificate. The Pod may be ready before its webhook server listens.
func (o *operator) serves(ctx context.Context, pod *corev1.Pod) (certificate *x509.Certificate, err error) {
	const what = "the operator's Pod to show its certificate"
	return certificate, await.Within(ctx, serveLimit, deployed.Poll, what, func(ctx context.Context) (string, error) {
		asking, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		if certificate, err = o.served(asking, pod); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
}

// order returns an icecream with labels.
func order(name string, labels map[string]string, flavour ...any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.lva.io/v1", "kind": "Icecream", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"flavour": flavour, "topping": []any{"cream"}},
	}}
	object.SetLabels(labels)
	return object
}

// try creates an icecream as a dry run.
func (o *operator) try(ctx context.Context, object *unstructured.Unstructured) error {
	_, err := o.Dynamic.Resource(icecreams).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
