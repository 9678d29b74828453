// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/order"
)

// policyFile is the file in which the student writes the policy.
const policyFile = "config/policy/policy.yaml"

// policy sends the same inputs to a ValidatingAdmissionPolicy as to the webhooks, while the webhooks are removed.
func policy() types.Feature {
	var withdrawn admission.Webhooks
	var installed *admission.Policy
	return features.New("a policy says the same").
		Assess("it is accepted", check.Assess(judged(func(v visit) {
			read := v.readPolicy()
			v.withdraw(&withdrawn)
			v.createIcecream("policy-vanilla", "vanilla")
			v.createIcecream("policy-matcha", "matcha")
			v.makeDying("policy-dying", "mud")
			v.store(old)
			v.storeDying(oldDying)
			v.measure("admission by nobody")
			installed = read
			answer, refused, err := v.admission.Install(v.ctx, installed)
			v.OK(v.t, "installing "+policyFile, err)
			if refused != "" {
				v.Fail(v.t, "the API server accepts "+policyFile, fmt.Sprintf("%s: %s", refused, answer), v.judge)
			}
		}))).
		Assess("of new icecreams", check.Assess(judged(func(v visit) {
			for i, answer := range v.try(creates, "policy", admission.DeniedByPolicy) {
				if missing := lacks(answer.Message, sold...); len(creates[i].refused) > 0 && len(missing) > 0 {
					v.fail("the policy's message says what there is: "+list(sold),
						fmt.Sprintf("%s: it does not name %s: %s", creates[i], list(missing), answer.Message))
				}
			}
		}))).
		Assess("of changes and deletions", check.Assess(judged(func(v visit) {
			v.try(changes, "policy", admission.DeniedByPolicy)
			v.try(oldChanges, "policy", admission.DeniedByPolicy)
			v.want("an old icecream of matcha can be deleted", admission.Accepted,
				"deleting an old icecream of matcha", v.ask(remove(dry, "policy-matcha")))
			v.want("the finalizer of an old icecream that is being deleted can be removed", admission.Accepted,
				"removing the finalizer of an old icecream of mud",
				v.ask(change(persisted, "policy-dying", `{"metadata":{"finalizers":null}}`)))
		}))).
		Assess("of any order", check.Assess(judged(func(v visit) {
			v.hold(property{what: "on", count: order.OnMenus, draw: onMenu, expected: complete(accepted), wrong: notAccepted})
			expected, wrong := v.verdict(admission.DeniedByPolicy)
			v.hold(property{
				what: "off", count: order.OffMenus, draw: offMenu(4), expected: complete(expected),
				wrong: func(r request, want order.Answer, got admission.Answer) string {
					if wrong := wrong(r, want, got); wrong != "" || !want.Denied() {
						return wrong
					}
					if missing := lacks(got.Message, sold...); len(missing) > 0 {
						return fmt.Sprintf("it does not name %s: %s", list(missing), got.Message)
					}
					return ""
				},
			})
		}))).
		Assess("of any change", check.Assess(judged(func(v visit) {
			expected, wrong := v.verdict(admission.DeniedByPolicy)
			v.hold(property{
				what:     "changes",
				count:    order.Changes,
				draw:     changing(old),
				expected: complete(expected),
				wrong:    wrong,
			})
			v.hold(property{
				what: "dying", count: order.Changes, draw: changingDying(oldDying), expected: complete(spared), wrong: notAccepted,
			})
			v.release(oldDying)
		}))).
		Assess("soon", check.Assess(judged(func(v visit) {
			v.measure("admission by the policy")
		}))).
		Teardown(check.Teardown(func(ctx context.Context, _ *check.Check) error {
			if installed == nil {
				return nil
			}
			return clientsOf(ctx).admission.Remove(ctx, installed)
		})).
		Teardown(restore(&withdrawn)).Feature()
}

// judged is assess while the webhooks are removed.
func judged(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return assess(func(v visit) {
		v.judge = "the webhooks are taken away in this check: who judges is " + policyFile
		step(v)
	})
}

// readPolicy reads the student's policy.
func (v visit) readPolicy() *admission.Policy {
	v.t.Helper()
	expected := policyFile + " holds a ValidatingAdmissionPolicy and its ValidatingAdmissionPolicyBinding"
	content, err := v.Submission.File(v.ctx, policyFile)
	if errors.Is(err, fs.ErrNotExist) {
		v.fail(expected, "there is no such file")
	}
	v.OK(v.t, "reading "+policyFile, err)
	read, err := admission.ReadPolicy(content)
	if err != nil {
		v.fail(expected, fmt.Sprintf("it is no YAML: %v", err))
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		if !read.Has(kind) {
			v.fail(expected, "it holds no "+kind)
		}
	}
	if beyond := read.Beyond(icecream.Resource.Group); len(beyond) > 0 {
		v.fail(fmt.Sprintf("%s holds a policy for the API group %s, its binding, and nothing else",
			policyFile, icecream.Resource.Group),
			"it holds "+list(beyond))
	}
	return read
}

// complete returns the expectation for requests with a flavour. Without the webhooks a missing flavour is not filled
// in, and the schema refuses the request.
func complete(expected func(request, order.Answer) string) func(request, order.Answer) string {
	return func(r request, want order.Answer) string {
		if len(r.Spec.Flavour) == 0 {
			return ""
		}
		return expected(r, want)
	}
}
