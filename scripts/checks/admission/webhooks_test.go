// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package admission

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWebhookLines(t *testing.T) {
	t.Parallel()
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{"demo.lva.io"}, Resources: []string{"icecreams"}},
	}}
	webhooks := Webhooks{
		Mutating: []admissionv1.MutatingWebhookConfiguration{{Webhooks: []admissionv1.MutatingWebhook{{
			Name: "default.shop", Rules: rules, FailurePolicy: new(admissionv1.Fail),
			ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://shop/default")},
		}}}},
		Validating: []admissionv1.ValidatingWebhookConfiguration{{Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validate.shop", Rules: rules, FailurePolicy: new(admissionv1.Ignore),
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Path: new("/validate-ice")}},
		}}}},
	}
	mutating := "registered: the mutating webhook default.shop, " +
		"asked at https://shop/default about CREATE, UPDATE of icecreams in demo.lva.io; failurePolicy Fail"
	validating := "registered: the validating webhook validate.shop, " +
		"asked at /validate-ice about CREATE, UPDATE of icecreams in demo.lva.io; failurePolicy Ignore"
	if got := webhooks.Lines("it was accepted"); !slices.Equal(got, []string{mutating, validating}) {
		t.Errorf("Lines() = %q", got)
	}
	const answer = `it was not answered by a webhook: Internal error occurred: failed calling webhook "validate.shop": ` +
		"failed to call webhook: the server could not find the requested resource"
	want := []string{mutating, validating + "; the answer is 404 Not Found: the operator serves nothing at this path"}
	if got := webhooks.Lines(answer); !slices.Equal(got, want) {
		t.Errorf("Lines() = %q", got)
	}
	webhooks.Validating[0].Webhooks[0].ClientConfig.Service.Path = nil
	if got := path(webhooks.Validating[0].Webhooks[0].ClientConfig); got != "/" {
		t.Errorf("path() without a path = %q", got)
	}
}

func TestWebhookOfOtherKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		group, resource string
		wide            bool
	}{
		{"demo.lva.io", "icecreams", false},
		{"demo.lva.io", "icecreams/*", false},
		{"*", "icecreams", true},
		{"demo.lva.io", "*", true},
		{"demo.lva.io", "*/*", true},
	} {
		rules := []admissionv1.RuleWithOperations{
			{Rule: admissionv1.Rule{APIGroups: []string{test.group}, Resources: []string{test.resource}}},
		}
		webhooks := Webhooks{
			Mutating: []admissionv1.MutatingWebhookConfiguration{{
				Webhooks: []admissionv1.MutatingWebhook{{Name: "default.shop", Rules: rules}},
			}},
			Validating: []admissionv1.ValidatingWebhookConfiguration{{
				Webhooks: []admissionv1.ValidatingWebhook{{Name: "validate.shop", Rules: rules}},
			}},
		}
		var want []string
		if test.wide {
			want = []string{"default.shop", "validate.shop"}
		}
		if got := webhooks.Wide(); !slices.Equal(got, want) {
			t.Errorf("%s in %s: got %q, want %q", test.resource, test.group, got, want)
		}
	}
}

func TestWebhooksOfOperation(t *testing.T) {
	t.Parallel()
	rule := func(resource string, operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{"demo.lva.io"}, Resources: []string{resource}},
		}}
	}
	icecreams := schema.GroupResource{Group: "demo.lva.io", Resource: "icecreams"}
	mutating := func(rules []admissionv1.RuleWithOperations) Webhooks {
		return Webhooks{Mutating: []admissionv1.MutatingWebhookConfiguration{
			{Webhooks: []admissionv1.MutatingWebhook{{Rules: rules}}},
		}}
	}
	validating := func(rules []admissionv1.RuleWithOperations) Webhooks {
		return Webhooks{Validating: []admissionv1.ValidatingWebhookConfiguration{
			{Webhooks: []admissionv1.ValidatingWebhook{{Rules: rules}}},
		}}
	}
	for i, test := range []struct {
		webhooks Webhooks
		want     bool
	}{
		{Webhooks{}, false},
		{mutating(rule("icecreams", admissionv1.Create, admissionv1.Update)), true},
		{mutating(rule("icecreams", admissionv1.Create)), false},
		{mutating(append(rule("icecreams", admissionv1.Create), rule("cones", admissionv1.Update)...)), false},
		{validating(rule("icecreams", admissionv1.OperationAll)), true},
		{validating(rule("icecreams", admissionv1.Create, admissionv1.Delete)), false},
	} {
		if got := test.webhooks.Asks(icecreams, admissionv1.Update); got != test.want {
			t.Errorf("%d: Asks() about updates = %t", i, got)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]Verdict{
		`admission webhook "validate.shop" denied the request: no matcha`:                                                 DeniedByWebhook,
		`admission webhook "validate.shop" denied the request: panic: runtime error: index out of range [1] [recovered]`:  Unanswered,
		`Internal error occurred: failed calling webhook "validate.shop": failed to call webhook: EOF`:                    Unanswered,
		`icecreams.demo.lva.io "x" is forbidden: ValidatingAdmissionPolicy 'shop' with binding 'shop' denied request: no`: DeniedByPolicy,
		`Icecream.demo.lva.io "x" is invalid: spec.flavour: Required value`:                                               Refused,
		`admission webhook "validate.shop" denied the request: panic: is what our menu does to people`:                    DeniedByWebhook,
	} {
		if got := verdict(message); got != want {
			t.Errorf("verdict() of %s\n  = %q, want %q", message, got, want)
		}
	}
}
