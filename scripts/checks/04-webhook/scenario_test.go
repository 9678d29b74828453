// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"slices"
	"strings"
	"time"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/compare"
	"lva.io/operators/scripts/checks/icecream"
)

// scenarioPatience is how long an operator may be silent in the scenario: a fault may just have killed it, or asked it
// to retry later.
const scenarioPatience = 10 * time.Second

// scenario is the shop with its menu. Clients that send an order while the operator is down retry, and an order that is
// not on the menu is never accepted.
func scenario(v visit) {
	cream := []string{"cream"}
	v.sendUntilAccepted("an icecream of which nothing is said", createRequest(persisted, "gelato-1", nil, nil))
	v.sendUntilAccepted("an icecream of vanilla", createRequest(persisted, "gelato-2", []string{"vanilla"}, cream))
	v.sendUntilAccepted("an icecream of vanilla and chocolate",
		createRequest(persisted, "gelato-3", []string{"vanilla", "chocolate"}, cream))
	v.resist("an icecream of matcha", createRequest(persisted, "gelato-4", []string{"matcha"}, cream))
	v.await("of three icecreams of vanilla the first has a wafer, and vanilla is sold out",
		gelato{"gelato-1", "vanilla", "wafer", true},
		gelato{"gelato-2", "vanilla", "cream", true},
		gelato{"gelato-3", "vanilla, chocolate", "cream", true})
	v.resist("a change from vanilla to matcha", changeFlavour(persisted, "gelato-2", []string{"matcha"}))
	v.sendUntilAccepted("a change from vanilla to strawberry",
		changeFlavour(persisted, "gelato-2", []string{"strawberry"}))
	v.sendUntilAccepted("two more toppings",
		change(persisted, "gelato-3", `{"spec":{"topping":["cream","nuts","cherry"]}}`))
	v.want("an icecream can be deleted at any time",
		admission.Accepted, "deleting an icecream", v.ask(remove(persisted, "gelato-1")))
	v.await("of two icecreams, of different flavours, nothing is sold out",
		gelato{"gelato-2", "strawberry", "cream", false},
		gelato{"gelato-3", "vanilla, chocolate", "cream, nuts, cherry", false})
}

// sendUntilAccepted sends a request until a webhook answers, and fails unless the request is accepted then.
func (v visit) sendUntilAccepted(what string, request admission.Request) {
	v.t.Helper()
	v.want(what+" is accepted as soon as the operator is there",
		admission.Accepted, what, v.askFor(returnPatience, request))
}

// resist sends a request until a webhook answers, and fails unless the request is denied then, and never accepted.
func (v visit) resist(what string, request admission.Request) {
	v.t.Helper()
	v.want(what+" is never accepted", admission.DeniedByWebhook, what, v.askFor(returnPatience, request))
}

// gelato is the expected state of an icecream, including its toppingsCount.
type gelato struct {
	name, flavour, topping string
	soldOut                bool
}

// compare compares an icecream with the expected state.
func (g gelato) compare(i icecream.Icecream) compare.Fields {
	flavour, topping := strings.Join(i.Flavour, ", "), strings.Join(i.Topping, ", ")
	return compare.Fields{
		compare.Is("spec.flavour of "+i.Name, g.flavour, &flavour),
		compare.Is("spec.topping of "+i.Name, g.topping, &topping),
		i.CountIs(int64(strings.Count(g.topping, ",") + 1)), i.SoldOutIs(g.soldOut),
	}
}

// await waits patiently until exactly these icecreams exist.
func (v visit) await(expected string, want ...gelato) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, expected, scenarioPatience, v.shop.Changed, func() (string, bool) {
		existing := v.shop.All()
		slices.SortFunc(existing, func(a, b icecream.Icecream) int { return strings.Compare(a.Name, b.Name) })
		var names []string
		for _, i := range existing {
			names = append(names, i.Name)
		}
		if !slices.EqualFunc(existing, want, func(i icecream.Icecream, g gelato) bool { return i.Name == g.name }) {
			return "there are " + list(names), false
		}
		for n, g := range want {
			if fields := g.compare(existing[n]); !fields.Same() {
				return fields.Observed(), false
			}
		}
		return "", !v.shop.Behind()
	})
}
