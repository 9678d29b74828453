// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Webhooks are the registered webhook configurations.
type Webhooks struct {
	Mutating   []admissionv1.MutatingWebhookConfiguration
	Validating []admissionv1.ValidatingWebhookConfiguration
}

// Webhooks returns the configurations that match a resource, regardless of who created them.
func (c *Client) Webhooks(ctx context.Context, resource schema.GroupResource) (Webhooks, error) {
	registry := c.typed.AdmissionregistrationV1()
	mutating, err := registry.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return Webhooks{}, fmt.Errorf("listing the mutating webhooks: %w", err)
	}
	validating, err := registry.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return Webhooks{}, fmt.Errorf("listing the validating webhooks: %w", err)
	}
	var found Webhooks
	for _, configuration := range mutating.Items {
		if slices.ContainsFunc(configuration.Webhooks, func(w admissionv1.MutatingWebhook) bool {
			return asks(w.Rules, resource)
		}) {
			found.Mutating = append(found.Mutating, configuration)
		}
	}
	for _, configuration := range validating.Items {
		if slices.ContainsFunc(configuration.Webhooks, func(w admissionv1.ValidatingWebhook) bool {
			return asks(w.Rules, resource)
		}) {
			found.Validating = append(found.Validating, configuration)
		}
	}
	return found, nil
}

func asks(rules []admissionv1.RuleWithOperations, resource schema.GroupResource) bool {
	return slices.ContainsFunc(rules, func(rule admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(rule.APIGroups,
			func(group string) bool { return group == "*" || group == resource.Group }) &&
			slices.ContainsFunc(rule.Resources, func(name string) bool {
				return name == "*" || name == "*/*" || name == resource.Resource
			})
	})
}

// registered has the common fields of both kinds of webhooks.
type registered struct {
	kind, name  string
	client      admissionv1.WebhookClientConfig
	rules       []admissionv1.RuleWithOperations
	failure     *admissionv1.FailurePolicyType
	sideEffects *admissionv1.SideEffectClass
}

// all returns all webhooks of the configurations, including those that do not match the resource.
func (w Webhooks) all() (all []registered) {
	for _, configuration := range w.Mutating {
		for _, one := range configuration.Webhooks {
			all = append(all, registered{"mutating", one.Name, one.ClientConfig, one.Rules, one.FailurePolicy, one.SideEffects})
		}
	}
	for _, configuration := range w.Validating {
		for _, one := range configuration.Webhooks {
			all = append(all,
				registered{"validating", one.Name, one.ClientConfig, one.Rules, one.FailurePolicy, one.SideEffects})
		}
	}
	return all
}

// Asks reports whether one of the webhooks is called for an operation on a resource.
func (w Webhooks) Asks(resource schema.GroupResource, operation admissionv1.OperationType) bool {
	about := func(rule admissionv1.RuleWithOperations) bool {
		return asks([]admissionv1.RuleWithOperations{rule}, resource) &&
			(slices.Contains(rule.Operations, operation) || slices.Contains(rule.Operations, admissionv1.OperationAll))
	}
	return slices.ContainsFunc(w.all(), func(one registered) bool { return slices.ContainsFunc(one.rules, about) })
}

// SideEffects returns the side effects that the webhooks declare, by name. A webhook must declare them.
func (w Webhooks) SideEffects() map[string]admissionv1.SideEffectClass {
	effects := map[string]admissionv1.SideEffectClass{}
	for _, one := range w.all() {
		effects[one.name] = *one.sideEffects
	}
	return effects
}

// Wide returns the names of the webhooks that use * for groups or resources, and so are called for more than the kinds
// that they name. While no server answers, no object of these kinds can be created.
func (w Webhooks) Wide() (names []string) {
	wide := func(rule admissionv1.RuleWithOperations) bool {
		return slices.Contains(rule.APIGroups, "*") ||
			slices.Contains(rule.Resources, "*") || slices.Contains(rule.Resources, "*/*")
	}
	for _, one := range w.all() {
		if slices.ContainsFunc(one.rules, wide) {
			names = append(names, one.name)
		}
	}
	return names
}

// Withdraw removes webhooks, and returns when the API server no longer calls any of them.
func (c *Client) Withdraw(ctx context.Context, webhooks Webhooks) error {
	registry := c.typed.AdmissionregistrationV1()
	for _, configuration := range webhooks.Mutating {
		err := registry.MutatingWebhookConfigurations().Delete(ctx, configuration.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("taking the mutating webhooks away: %w", err)
		}
	}
	for _, configuration := range webhooks.Validating {
		err := registry.ValidatingWebhookConfigurations().Delete(ctx, configuration.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("taking the validating webhooks away: %w", err)
		}
	}
	return c.awaitWebhooks(ctx)
}

// Register restores webhooks, and returns when the API server calls them again. Webhooks that still exist are
// unchanged.
func (c *Client) Register(ctx context.Context, webhooks Webhooks) error {
	registry := c.typed.AdmissionregistrationV1()
	for _, configuration := range webhooks.Mutating {
		configuration.ObjectMeta = withoutServerFields(configuration.ObjectMeta)
		_, err := registry.MutatingWebhookConfigurations().Create(ctx, &configuration, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("putting the mutating webhooks back: %w", err)
		}
	}
	for _, configuration := range webhooks.Validating {
		configuration.ObjectMeta = withoutServerFields(configuration.ObjectMeta)
		_, err := registry.ValidatingWebhookConfigurations().Create(ctx, &configuration, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("putting the validating webhooks back: %w", err)
		}
	}
	return c.awaitWebhooks(ctx)
}

// withoutServerFields returns the metadata without the fields that the API server sets.
func withoutServerFields(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: meta.Name, Labels: meta.Labels, Annotations: meta.Annotations}
}

// Lines describes the webhooks, one line each: the webhook's name, the requests for which it is called, and its
// address. answer is the API server's latest answer, which reveals a webhook without a server at its path.
func (w Webhooks) Lines(answer string) (lines []string) {
	for _, one := range w.all() {
		lines = append(lines, one.line(answer))
	}
	return lines
}

func (r registered) line(answer string) string {
	var asked []string
	for _, rule := range r.rules {
		var operations []string
		for _, operation := range rule.Operations {
			operations = append(operations, string(operation))
		}
		asked = append(asked, fmt.Sprintf("%s of %s in %s", strings.Join(operations, ", "),
			strings.Join(rule.Resources, ", "), strings.Join(rule.APIGroups, ", ")))
	}
	text := fmt.Sprintf("registered: the %s webhook %s, asked at %s about %s; failurePolicy %s",
		r.kind, r.name, path(r.client), strings.Join(asked, "; "), *r.failure)
	// client-go reports a 404 without a Kubernetes body in these words.
	if strings.Contains(answer, fmt.Sprintf("%q", r.name)) &&
		strings.Contains(answer, "could not find the requested resource") {
		text += "; the answer is 404 Not Found: the operator serves nothing at this path"
	}
	return text
}

// path returns the path at which a webhook is called.
func path(client admissionv1.WebhookClientConfig) string {
	switch {
	case client.URL != nil:
		return *client.URL
	case client.Service != nil && client.Service.Path != nil:
		return *client.Service.Path
	}
	return "/"
}
