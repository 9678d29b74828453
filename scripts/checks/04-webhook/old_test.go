// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/order"
)

// withdraw removes the webhooks until restore is called.
func (v visit) withdraw(withdrawn *admission.Webhooks) {
	v.t.Helper()
	webhooks, err := v.admission.Webhooks(v.ctx, icecream.Resource.GroupResource())
	v.OK(v.t, "reading what is registered", err)
	*withdrawn = webhooks
	v.OK(v.t, "taking the webhooks away", v.admission.Withdraw(v.ctx, webhooks))
}

// restore restores the removed webhooks. Existing webhooks stay.
func restore(withdrawn *admission.Webhooks) types.StepFunc {
	return check.Teardown(func(ctx context.Context, _ *check.Check) error {
		return clientsOf(ctx).admission.Register(ctx, *withdrawn)
	})
}

// oldObjects checks icecreams that are older than the rule: they are created while no webhook is registered.
func oldObjects() types.Feature {
	var withdrawn admission.Webhooks
	return features.New("old icecreams are not held up").
		Assess("their flavour is judged only when it changes", check.Assess(assess(func(v visit) {
			v.withdraw(&withdrawn)
			v.createIcecream("old-matcha", "matcha")
			v.makeDying("old-dying", "mud")
			v.store(old)
			v.storeDying(oldDying)
			v.OK(v.t, "putting the webhooks back", v.admission.Register(v.ctx, withdrawn))
			v.try(oldChanges, "old", admission.DeniedByWebhook)
		}))).
		Assess("their status can be written", check.Assess(assess(func(v visit) {
			const what = "the status of an old icecream of matcha"
			v.want(what+" can be written", admission.Accepted, what,
				v.ask(change(dry, "old-matcha", `{"status":{"soldOut":false,"toppingsCount":1}}`, "status")))
		}))).
		Assess("what they lack is not filled in when something else changes", check.Assess(assess(func(v visit) {
			for _, kept := range old {
				for what, patch := range map[string]string{
					"a label on":     `{"metadata":{"labels":{"table":"4"}}}`,
					"a finalizer on": `{"metadata":{"finalizers":["example.com/keep"]}}`,
				} {
					expected := what + " an icecream from before the webhooks leaves its spec as it is"
					asked := fmt.Sprintf("%s %s, an icecream %s", what, kept.Name, kept.Spec.Words())
					answer := v.ask(change(dry, kept.Name, patch))
					v.want(expected, admission.Accepted, asked, answer)
					if is, was := answer.Object.Object["spec"], any(kept.Spec.Object()); !reflect.DeepEqual(is, was) {
						v.fail(expected, fmt.Sprintf("%s: its spec becomes %s", asked, written(is)))
					}
				}
			}
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
				"deleting an old icecream of matcha", v.ask(remove(persisted, "old-matcha")))
			v.want("the finalizer of an old icecream that is being deleted can be removed", admission.Accepted,
				"removing the finalizer of an old icecream of mud",
				v.ask(change(persisted, "old-dying", `{"metadata":{"finalizers":null}}`)))
		}))).
		Assess("whatever they are, and to whatever they change", check.Assess(assess(func(v visit) {
			expected, wrong := v.verdict(admission.DeniedByWebhook)
			v.hold(property{count: order.Changes, draw: changing(old), expected: expected, wrong: wrong})
			v.hold(property{
				what:     "dying",
				count:    order.Changes,
				draw:     changingDying(oldDying),
				expected: spared,
				wrong:    notSpared,
			})
			v.release(oldDying)
		}))).
		Teardown(restore(&withdrawn)).Feature()
}

// old holds icecreams that the webhooks would have denied or changed. Each flavour occurs at most three times.
var old = []order.Order{
	{Name: "old-1", Spec: order.Spec{Flavour: []string{"mud", "matcha"}, Topping: []string{"cream"}}},
	{Name: "old-2", Spec: order.Spec{Flavour: []string{"vanilla", "pistachio"}}},
	{Name: "old-3", Spec: order.Spec{
		Flavour: []string{"hazelnut", "chocolate", "vanilla", "strawberry"},
		Topping: []string{},
	}},
}

// oldDying holds further such icecreams, which a finalizer keeps from being deleted.
var oldDying = []order.Order{
	{Name: "old-dying-1", Finalizers: []string{"example.com/keep"}, Spec: order.Spec{Flavour: []string{"basil", "lemon"}}},
	{Name: "old-dying-2", Finalizers: []string{"example.com/keep"}, Spec: order.Spec{
		Flavour: []string{"chocolate", "basil"}, Topping: []string{},
	}},
}

// storeDying stores icecreams and deletes them. Their finalizers keep them.
func (v visit) storeDying(orders []order.Order) {
	v.t.Helper()
	v.store(orders)
	for _, order := range orders {
		v.OK(v.t, "deleting an icecream", v.shop.Delete(v.ctx, order.Name))
	}
}

// release removes the finalizers of icecreams that were stored and deleted. Otherwise the cleanup waits for another
// client to do it.
func (v visit) release(orders []order.Order) {
	v.t.Helper()
	for _, order := range orders {
		what := "the finalizer of " + order.Name + ", which is being deleted"
		v.want(what+", can be removed", admission.Accepted, "removing "+what,
			v.ask(change(persisted, order.Name, `{"metadata":{"finalizers":null}}`)))
	}
}

// spared returns the rest of a sentence about an icecream that is being deleted. Whether its other flavours are
// validated is left open: some webhooks exempt such icecreams altogether.
func spared(r request, _ order.Answer) string {
	if !order.SameFlavours(r.old.Spec, r.Spec) {
		return ""
	}
	return "is accepted, and gets no defaults"
}

func notSpared(r request, want order.Answer, got admission.Answer) string {
	switch {
	case got.Verdict != admission.Accepted:
		return got.String()
	case r.method != dying:
		return ""
	}
	if is, sent := got.Object.Object["spec"], any(want.Spec.Object()); !reflect.DeepEqual(is, sent) {
		return "it becomes " + written(is)
	}
	return ""
}

// makeDying creates an icecream without a topping that is being deleted, and that a finalizer without a controller
// blocks.
func (v visit) makeDying(name, flavour string) {
	v.t.Helper()
	object := icecream.New(name, []string{flavour}, nil)
	object.SetFinalizers([]string{"example.com/keep"})
	for _, request := range []admission.Request{create(persisted, object), remove(persisted, name)} {
		answer := v.ask(request)
		v.want("without webhooks an icecream of "+flavour+" can be created and deleted", admission.Accepted, "that", answer)
	}
}
