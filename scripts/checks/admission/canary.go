// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/existing"
)

// A registered webhook takes effect a moment later, when the API server's own watch has reported it. A policy, which
// the API server compiles, takes up to a second. The API server learns of changes in the order in which they were made.
// So after a change we register one more object, a canary, that refuses a request which only we send. When the canary
// refuses it, the change has taken effect as well.
const (
	canaryLabel    = "operator-labs-canary"
	canaryInterval = 5 * time.Millisecond
	canaryPatience = 20 * time.Second
)

// awaitWebhooks returns when all changes of webhook configurations have taken effect. The API server orders the changes
// of each of the two kinds separately, so there are two canaries.
func (c *Client) awaitWebhooks(ctx context.Context) error {
	return errors.Join(c.awaitMutating(ctx), c.awaitValidating(ctx))
}

func (c *Client) awaitMutating(ctx context.Context) error {
	name := c.nextCanary()
	canaries := c.typed.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := canaries.Create(ctx, &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: ours(name),
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: hook(name), Rules: canaryRules(), ObjectSelector: canarySelector(name), ClientConfig: unreachable(),
			SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("registering a canary: %w", err)
	}
	return errors.Join(c.awaitCanary(ctx, name), canaries.Delete(ctx, name, metav1.DeleteOptions{}))
}

func (c *Client) awaitValidating(ctx context.Context) error {
	name := c.nextCanary()
	canaries := c.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := canaries.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: ours(name),
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: hook(name), Rules: canaryRules(), ObjectSelector: canarySelector(name), ClientConfig: unreachable(),
			SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("registering a canary: %w", err)
	}
	return errors.Join(c.awaitCanary(ctx, name), canaries.Delete(ctx, name, metav1.DeleteOptions{}))
}

// AwaitPolicies returns when every change of policies and of their bindings has taken effect.
func (c *Client) AwaitPolicies(ctx context.Context) error {
	name := c.nextCanary()
	registry := c.typed.AdmissionregistrationV1()
	_, err := registry.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: ours(name),
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ObjectSelector: canarySelector(name),
				ResourceRules:  []admissionv1.NamedRuleWithOperations{{RuleWithOperations: canaryRules()[0]}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "this is the canary"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("installing a canary: %w", err)
	}
	_, err = registry.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: ours(name),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	if err == nil {
		err = c.awaitCanary(ctx, name)
	}
	return errors.Join(err,
		registry.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}),
		registry.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}))
}

// nextCanary returns an unused name for a canary. It sorts before others, because the API server calls mutating
// webhooks in the order of their configurations' names.
func (c *Client) nextCanary() string {
	c.canary++
	return fmt.Sprintf("0-canary-%d", c.canary)
}

// ours returns metadata with the label that marks a canary as ours. If we can no longer remove the canary, this label
// allows others to remove it.
func ours(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{existing.Label: "true"}}
}

func hook(name string) string { return name + ".operator-labs.lva.io" }

func canaryRules() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
}

func canarySelector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{canaryLabel: name}}
}

// unreachable returns an address without a server, which refuses connections.
func unreachable() admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}
}

// awaitCanary sends the canary's request until it is refused by the canary, or by another webhook that matches all
// requests. In both cases the change has taken effect.
func (c *Client) awaitCanary(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, canaryPatience,
		fmt.Errorf("the API server did not act on a change of webhooks or policies within %s", canaryPatience))
	defer cancel()
	again := time.NewTicker(canaryInterval)
	defer again.Stop()
	request := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{canaryLabel: name}}}
	for {
		_, err := c.typed.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, request,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), name) {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
