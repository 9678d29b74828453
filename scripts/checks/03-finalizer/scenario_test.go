// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/freezer"
)

// refusals let the requests fail that matter: nothing else happens that would give another chance to an operator
// which drops an error. Each is refused three times, since the same change may have called it twice.
func refusals(v visit) {
	refuse := func(all ...faults.Fault) {
		for at := 1; at <= 3; at++ {
			all = append(all,
				faults.Fault{Kind: faults.ServerError, Class: faults.Read, Service: faults.API, At: at},
				faults.Fault{Kind: faults.Conflict, Class: faults.Write, Service: faults.API, At: at})
		}
		v.arm(all...)
	}
	refuse()
	o := v.make("yuzu", []string{"yuzu"}, "cream")
	v.has("the ingredients of yuzu are taken, also if the API server refuses what the operator asks for at first", scenarioPatience, o,
		"flavour yuzu", "topping cream")
	refuse()
	v.change(o, `{"spec":{"topping":["nuts"]}}`)
	const swapped = "when yuzu gets nuts instead of cream, cream goes back and nuts are taken, also if the API server refuses what the " +
		"operator asks for at first"
	v.has(swapped, scenarioPatience, o, "flavour yuzu", "topping nuts")
	v.settled(scenarioPatience, swapped, o, metav1.ConditionTrue)
	refuse(faults.Fault{Kind: faults.Unavailable, Class: faults.Write, Service: freezer.Service, At: 1})
	v.delete(o)
	const returned = "when yuzu is deleted, its ingredients go back, toppings first, and it is gone, also if the API server and the freezer " +
		"refuse what the operator asks for at first"
	v.leaves(returned, scenarioPatience, o)
	v.toppingsFirst(returned, o)
	v.disarm()
}

// scenario is the life of an icecream, and the short one of another: it is made, changed, and deleted; somebody else
// changes their mind at once. Whatever goes wrong, everything is back in the end, and was never anywhere else.
func scenario(v visit) {
	long := v.make("quince", []string{"quince"}, "cream", "nuts")
	v.has("the ingredients of quince are taken", scenarioPatience, long, "flavour quince", "topping cream", "topping nuts")
	v.change(long, `{"spec":{"topping":["cherry"]}}`)
	v.has("when quince gets the topping cherry instead of cream and nuts, those go back and cherry is taken", scenarioPatience, long,
		"flavour quince", "topping cherry")
	short := v.make("rhubarb", []string{"rhubarb"})
	v.deleteAtOnce(short)
	v.delete(long)
	v.leaves("when quince and rhubarb are deleted, their ingredients go back, and they are gone", scenarioPatience, long, short)
	v.Settle(v.ctx, v.t)
	for _, o := range []order{long, short} {
		v.closed("nothing is taken for an icecream that is gone", o)
		v.takenAfter("the finalizer is on an icecream before the freezer is asked for anything", o)
		v.toppingsFirst("toppings go back before flavours", o)
	}
}
