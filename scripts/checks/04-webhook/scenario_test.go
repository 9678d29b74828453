// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lva.io/operators/scripts/checks/admission"
)

// scenarioPatience is how long an operator may be silent in the scenario: it may just have been killed, or been told to
// come back later.
const scenarioPatience = 10 * time.Second

// scenario is the shop with its menu: who orders while the operator is away tries again, and what is not on the menu never
// gets in, on no day.
func scenario(v visit) {
	cream := []string{"cream"}
	v.insist("an icecream of which nothing is said", order(wet, "gelato-1", nil, nil))
	v.insist("an icecream of vanilla", order(wet, "gelato-2", []string{"vanilla"}, cream))
	v.insist("an icecream of vanilla and chocolate", order(wet, "gelato-3", []string{"vanilla", "chocolate"}, cream))
	v.resist("an icecream of matcha", order(wet, "gelato-4", []string{"matcha"}, cream))
	v.become("of three icecreams of vanilla the first has a wafer, and vanilla is sold out",
		gelato{"gelato-1", "vanilla with wafer, toppingsCount 1, soldOut true"},
		gelato{"gelato-2", "vanilla with cream, toppingsCount 1, soldOut true"},
		gelato{"gelato-3", "vanilla, chocolate with cream, toppingsCount 1, soldOut true"})
	v.resist("a change from vanilla to matcha", changeFlavour(wet, "gelato-2", []string{"matcha"}))
	v.insist("a change from vanilla to strawberry", changeFlavour(wet, "gelato-2", []string{"strawberry"}))
	v.insist("two more toppings", change(wet, "gelato-3", `{"spec":{"topping":["cream","nuts","cherry"]}}`))
	v.want("an icecream can be deleted at any time", admission.Accepted, "deleting an icecream", v.ask(remove(wet, "gelato-1")))
	v.become("of two icecreams, of different flavours, nothing is sold out",
		gelato{"gelato-2", "strawberry with cream, toppingsCount 1, soldOut false"},
		gelato{"gelato-3", "vanilla, chocolate with cream, nuts, cherry, toppingsCount 3, soldOut false"})
}

// insist sends a request until a webhook answers, and fails unless it is accepted then.
func (v visit) insist(what string, request admission.Request) {
	v.t.Helper()
	v.want(what+" is accepted as soon as the operator is there", admission.Accepted, what, v.askFor(returnPatience, request))
}

// resist sends a request until a webhook answers, and fails unless it is denied then, and never accepted.
func (v visit) resist(what string, request admission.Request) {
	v.t.Helper()
	v.want(what+" is never accepted", admission.DeniedByWebhook, what, v.askFor(returnPatience, request))
}

// gelato is an icecream as it should be.
type gelato struct{ name, state string }

// become waits patiently until exactly these icecreams are there.
func (v visit) become(expected string, want ...gelato) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, expected, scenarioPatience, v.shop.Changed, func() (string, bool) {
		var there []gelato
		for _, i := range v.shop.All() {
			there = append(there, gelato{i.Name, fmt.Sprintf("%s with %s, toppingsCount %d, soldOut %t",
				strings.Join(i.Flavour, ", "), strings.Join(i.Topping, ", "), i.ToppingsCount, i.SoldOut)})
		}
		slices.SortFunc(there, func(a, b gelato) int { return strings.Compare(a.name, b.name) })
		var seen []string
		for _, g := range there {
			seen = append(seen, g.name+" ("+g.state+")")
		}
		return "there are " + list(seen), slices.Equal(there, want)
	})
}
