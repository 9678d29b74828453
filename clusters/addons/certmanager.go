// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/images"
)

const (
	certManagerNamespace = "cert-manager"
	// certManagerPatience limits the time from the chart to a certificate. With a registry, most of it is spent pulling
	// images.
	certManagerPatience = 5 * time.Minute
	// proofPrefix begins the name of the Issuer, Certificate and Secret that prove that cert-manager works, and of the
	// probe that its webhook refuses. Each proof has a name of its own, because cert-manager backs off for up to a minute
	// when a Certificate of the same name is deleted and created again.
	proofPrefix = "operator-labs-proof-"
	// releaseName and releaseNamespace are the annotations by which Helm knows the release that owns an object.
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

var (
	issuerKind      = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "issuers"}
	certificateKind = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	secretKind      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// CertManager issues certificates. It is usable once its webhook has admitted a Certificate and the Certificate was
// issued. An installation that belongs to someone else is used as it is.
func CertManager(store *images.Store) Addon {
	return &certManager{charts: store.Chart, patience: certManagerPatience}
}

type certManager struct {
	charts   chartSource
	patience time.Duration
}

func (*certManager) Name() string { return "cert-manager" }

func (c *certManager) Install(ctx context.Context, target Target, report func(string)) error {
	release, err := newHelm(target, c.Name(), certManagerNamespace)
	if err != nil {
		return err
	}
	foreign, err := c.foreign(ctx, release)
	if err != nil {
		return err
	}
	if foreign != nil {
		report(fmt.Sprintf("cert-manager %s is in namespace %s and not ours: leaving it as it is",
			imageVersion(foreign.Spec.Template.Spec), foreign.Namespace))
		return c.wait(ctx, target, foreign.Namespace, report)
	}
	source, err := c.charts(ctx, c.Name())
	if err != nil {
		return err
	}
	chart, err := loadChart(source)
	if err != nil {
		return err
	}
	values, err := readValues(c.Name())
	if err != nil {
		return err
	}
	if err := clearLeftovers(ctx, release, chart, values, report); err != nil {
		return err
	}
	if err := release.ensure(ctx, chart, values, report); err != nil {
		return err
	}
	if !target.Pods {
		report("its CRDs exist, but no Pods can run here, so nothing is issued")
		return nil
	}
	return c.wait(ctx, target, certManagerNamespace, report)
}

// foreign finds a cert-manager that is not this release, because two of them in a cluster would conflict. On a cluster
// that we created, one that was installed without Helm under the same names is adopted instead.
func (c *certManager) foreign(ctx context.Context, release *helm) (*appsv1.Deployment, error) {
	controllers, err := release.client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cert-manager,app.kubernetes.io/component=controller"})
	if err != nil {
		return nil, fmt.Errorf("looking for cert-manager: %w", err)
	}
	for i := range controllers.Items {
		d := &controllers.Items[i]
		switch {
		case release.owns(d):
		case !release.target.Shared && d.Namespace == certManagerNamespace && d.Annotations[releaseName] == "":
		default:
			return d, nil
		}
	}
	return nil, nil
}

// wait waits until a certificate is issued.
func (c *certManager) wait(ctx context.Context, target Target, namespace string, report func(string)) error {
	if err := waitReady(ctx, target, namespace, c.patience, "cert-manager", report,
		func(ctx context.Context) (string, error) {
			return certManagerObjection(ctx, target, namespace)
		}); err != nil {
		return err
	}
	return c.testIssuance(ctx, target, namespace, report)
}

// certManagerObjection reports what is missing until cert-manager's webhook admits objects. Available Deployments are
// not enough, because the webhook may not have its certificate yet, or the API server may not have its CA.
func certManagerObjection(ctx context.Context, target Target, namespace string) (string, error) {
	client, err := kubernetes.NewForConfig(target.Config)
	if err != nil {
		return "", err
	}
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component in (controller, webhook, cainjector)",
	})
	if err != nil {
		return "", err
	}
	if len(deployments.Items) < 3 {
		return "not all of controller, webhook and cainjector have a Deployment", nil
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; !deploymentReady(d) {
			return fmt.Sprintf("%s is not ready", d.Name), nil
		}
	}
	return webhookObjection(ctx, target, namespace)
}

// webhookObjection reports what is missing until cert-manager's webhook admits objects.
func webhookObjection(ctx context.Context, target Target, namespace string) (string, error) {
	objects, err := dynamic.NewForConfig(target.Config)
	if err != nil {
		return "", err
	}
	// Only the webhook refuses a certificate that is valid for less than an hour. A dry run calls the webhook and stores
	// nothing.
	probe := certificate(namespace, proofPrefix+"probe")
	if err := unstructured.SetNestedField(probe.Object, "10m", "spec", "duration"); err != nil {
		return "", err
	}
	_, err = objects.Resource(certificateKind).Namespace(namespace).Create(ctx, probe,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return "its webhook does not validate yet", nil
	case strings.Contains(err.Error(), "denied the request"):
		return "", nil
	case apierrors.IsInternalError(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return "its webhook does not answer yet: " + oneLine(err.Error()), nil
	case apierrors.IsNotFound(err):
		return "the API server does not serve its kinds yet", nil
	}
	return "", err
}

// testIssuance requests a certificate, waits until it is issued, and removes it.
func (c *certManager) testIssuance(
	ctx context.Context, target Target, namespace string, report func(string),
) (err error) {
	objects, err := dynamic.NewForConfig(target.Config)
	if err != nil {
		return err
	}
	// This also removes the objects of a killed attempt.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainPatience)
		defer cancel()
		err = errors.Join(err, removeProofs(ctx, objects, namespace))
	}()
	name := proofPrefix + strings.ToLower(rand.Text()[:8])
	for resource, object := range map[schema.GroupVersionResource]*unstructured.Unstructured{
		issuerKind: issuer(namespace, name), certificateKind: certificate(namespace, name),
	} {
		if _, err := objects.Resource(resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("requesting a certificate from cert-manager: %w", err)
		}
	}
	return waitReady(ctx, target, namespace, c.patience, "a certificate of cert-manager's", report,
		func(ctx context.Context) (string, error) {
			issued, err := objects.Resource(certificateKind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return certificateObjection(issued), nil
		})
}

// removeProofs removes everything that proofs left in a namespace.
func removeProofs(ctx context.Context, objects dynamic.Interface, namespace string) error {
	var problems []error
	for _, resource := range []schema.GroupVersionResource{certificateKind, issuerKind, secretKind} {
		list, err := objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for i := range list.Items {
			if name := list.Items[i].GetName(); strings.HasPrefix(name, proofPrefix) {
				err := objects.Resource(resource).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					problems = append(problems, err)
				}
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("removing the test certificate of cert-manager: %w", err)
	}
	return nil
}

// issuer returns an Issuer for self-signed certificates.
func issuer(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Issuer",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     map[string]any{"selfSigned": map[string]any{}},
	}}
}

// certificate returns a Certificate that proves that cert-manager works.
func certificate(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{
			"secretName": name, "dnsNames": []any{"proof.operator-labs.test"},
			"privateKey": map[string]any{"algorithm": "ECDSA"},
			"issuerRef":  map[string]any{"kind": "Issuer", "name": name},
		},
	}}
}

func certificateObjection(issued *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(issued.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == "Ready" {
			if c["status"] == "True" {
				return ""
			}
			return fmt.Sprintf("the certificate is not issued: %v", c["message"])
		}
	}
	return "cert-manager has not processed the certificate yet"
}

func (c *certManager) State(ctx context.Context, target Target) (State, error) {
	state := State{Name: c.Name()}
	if source, err := c.charts(ctx, c.Name()); err == nil {
		state.Pinned = number(source.Version)
	}
	client, err := kubernetes.NewForConfig(target.Config)
	if err != nil {
		return state, err
	}
	controllers, err := client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cert-manager,app.kubernetes.io/component=controller"})
	if err != nil {
		return state, fmt.Errorf("looking for cert-manager: %w", err)
	}
	if len(controllers.Items) == 0 {
		state.Detail = "not installed"
		return state, nil
	}
	controller := &controllers.Items[0]
	state.Installed = imageVersion(controller.Spec.Template.Spec)
	if !target.Pods {
		state.Detail = "no Pods can run here"
		return state, nil
	}
	objection, err := certManagerObjection(ctx, target, controller.Namespace)
	if err != nil {
		return state, fmt.Errorf("looking at cert-manager: %w", err)
	}
	state.Usable, state.Detail = objection == "", objection
	if state.Usable {
		state.Detail = "its webhook admits"
	}
	return state, nil
}

// Uninstall keeps cert-manager's CustomResourceDefinitions, and with them all users' objects. On a shared cluster it
// leaves another owner's installation alone. It removes the namespace only if Install created it.
func (c *certManager) Uninstall(ctx context.Context, target Target) error {
	release, err := newHelm(target, c.Name(), certManagerNamespace)
	if err != nil {
		return err
	}
	if last, err := release.last(); err != nil || last == nil {
		return err
	} else if target.Shared && last.Labels[createdBy] == "" {
		return nil // the user's own
	}
	if err := release.uninstall(); err != nil {
		return err
	}
	return removeNamespace(ctx, release.client, release.namespace)
}
