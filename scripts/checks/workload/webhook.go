// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/existing"
)

// DownName is the name of a webhook that does not answer. The API server's error has it.
const DownName = "inspector.team.example.com"

const (
	// downTimeout is how long the API server may take to ask a new webhook, of which a watch tells it.
	downTimeout = 20 * time.Second
	downPoll    = 10 * time.Millisecond
)

// WebhookDown lets the API server ask a webhook that is down whenever a Service is created in a namespace: that is an
// error (500), and no refusal. It returns when the API server does so. isUp, which is never nil, ends it.
func (o *Owners) WebhookDown(ctx context.Context, namespace string) (isUp func(), err error) {
	all := o.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made, err := all.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namespace + "-down-", Labels: map[string]string{existing.Label: "true"}},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:         DownName,
			ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}, // no one listens there
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			TimeoutSeconds:    new(int32(1)),
			SideEffects:       new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return func() {}, fmt.Errorf("registering a webhook that is down: %w", err)
	}
	isUp = func() { _ = all.Delete(context.WithoutCancel(ctx), made.Name, metav1.DeleteOptions{}) }
	probe := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: namespace},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	ctx, cancel := context.WithTimeoutCause(ctx, downTimeout, fmt.Errorf("it does not after %s", downTimeout))
	defer cancel()
	err = await.Until(ctx, downPoll, "the API server to ask a webhook that is down", func(ctx context.Context) (string, error) {
		_, err := o.Client.CoreV1().Services(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil:
			return "it accepts Services", nil
		case apierrors.IsInternalError(err):
			return "", nil
		}
		return "", fmt.Errorf("asking whether Services are accepted: %w", err)
	})
	if err != nil {
		isUp()
	}
	return isUp, err
}
