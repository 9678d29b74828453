// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
)

// withdraw takes the webhooks away until restore is called.
func (v visit) withdraw(withdrawn *admission.Webhooks) {
	v.t.Helper()
	webhooks, err := v.admission.Webhooks(v.ctx, icecream.Resource.GroupResource())
	v.OK(v.t, "reading what is registered", err)
	*withdrawn = webhooks
	v.OK(v.t, "taking the webhooks away", v.admission.Withdraw(v.ctx, webhooks))
}

// restore puts back what was withdrawn. Webhooks that are there already stay.
func restore(withdrawn *admission.Webhooks) types.StepFunc {
	return check.Teardown(func(ctx context.Context, _ *check.Check) error {
		return clientsOf(ctx).admission.Register(ctx, *withdrawn)
	})
}

// oldObjects is about icecreams that are older than the rule: made while no webhook was registered.
func oldObjects() types.Feature {
	var withdrawn admission.Webhooks
	return features.New("old icecreams are not held up").
		Assess("their flavour is judged only when it changes", check.Assess(assess(func(v visit) {
			v.withdraw(&withdrawn)
			v.make("old-matcha", "matcha")
			v.makeDying("old-dying", "mud")
			v.OK(v.t, "putting the webhooks back", v.admission.Register(v.ctx, withdrawn))
			v.try(oldChanges, "old", admission.DeniedByWebhook)
		}))).
		Assess("their status can be written", check.Assess(assess(func(v visit) {
			const what = "the status of an old icecream of matcha"
			v.want(what+" can be written", admission.Accepted, what,
				v.ask(change(dry, "old-matcha", `{"status":{"soldOut":false,"toppingsCount":1}}`, "status")))
		}))).
		Assess("those that are being deleted are left alone", check.Assess(assess(func(v visit) {
			const what = "a label on an icecream that is being deleted and has no topping"
			const expected = "an icecream that is being deleted gets no topping any more"
			answer := v.ask(change(dry, "old-dying", `{"metadata":{"labels":{"table":"4"}}}`))
			v.want(expected, admission.Accepted, what, answer)
			if topping := toppingOf(answer.Object); len(topping) > 0 {
				v.fail(expected, fmt.Sprintf("%s: it has the toppings [%s]", what, strings.Join(topping, ", ")))
			}
		}))).
		Assess("and they can go", check.Assess(assess(func(v visit) {
			v.want("an old icecream of matcha can be deleted", admission.Accepted,
				"deleting an old icecream of matcha", v.ask(remove(wet, "old-matcha")))
			v.want("the finalizer of an old icecream that is being deleted can be removed", admission.Accepted,
				"removing the finalizer of an old icecream of mud", v.ask(change(wet, "old-dying", `{"metadata":{"finalizers":null}}`)))
		}))).
		Teardown(restore(&withdrawn)).Feature()
}

// makeDying makes an icecream without a topping that is being deleted, and that a finalizer, which is nobody's, keeps.
func (v visit) makeDying(name, flavour string) {
	v.t.Helper()
	object := icecream.New(name, []string{flavour}, nil)
	object.SetFinalizers([]string{"example.com/keep"})
	for _, request := range []admission.Request{create(wet, object), remove(wet, name)} {
		answer := v.ask(request)
		v.want("without webhooks an icecream of "+flavour+" can be created and deleted", admission.Accepted, "that", answer)
	}
}
