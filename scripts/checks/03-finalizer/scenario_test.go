// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/freezer"
)

// refusals let the requests fail that matter: nothing else happens that would give another chance to an operator which drops an error.
// More than one of each is refused, since the same change may have called it twice; but not many, since some come back after seconds.
func refusals(v visit) {
	refuse := func(reads, writes int, others ...faults.Fault) {
		all := others
		for n := range reads {
			all = append(all, faults.Fault{Kind: faults.ServerError, Class: faults.Read, Service: faults.API, At: n + 1})
		}
		for n := range writes {
			all = append(all, faults.Fault{Kind: faults.Conflict, Class: faults.Write, Service: faults.API, At: n + 1})
		}
		v.arm(all...)
	}
	const also = ", also if the operator's first requests are refused"
	refuse(0, 2)
	o := v.make("yuzu", []string{"yuzu"}, "cream")
	v.has("the ingredients of yuzu are taken"+also, scenarioPatience, o, "flavour yuzu", "topping cream")
	refuse(3, 0)
	v.change(o, `{"spec":{"topping":["nuts"]}}`)
	v.has("when yuzu gets nuts instead of cream, cream goes back and nuts are taken"+also, scenarioPatience, o, "flavour yuzu", "topping nuts")
	refuse(0, 3) // not at once with reads: an error of a read would have it called again, and write again
	v.change(o, `{"spec":{"topping":["fudge"]}}`)
	v.has("when yuzu gets fudge instead of nuts, nuts go back and fudge is taken"+also, scenarioPatience, o, "flavour yuzu", "topping fudge")
	v.settled(scenarioPatience, "when yuzu has fudge instead of nuts"+also, o, metav1.ConditionTrue)
	refuse(0, 0, faults.Fault{Kind: faults.Unavailable, Class: faults.Write, Service: freezer.Service, At: 1})
	v.delete(o)
	const returned = "when yuzu is deleted, its ingredients go back, toppings first, and it is gone" + also
	v.leaves(returned, scenarioPatience, o)
	v.toppingsFirst(returned, o)
	// The rules of lab 02 hold, too.
	for _, name := range []string{"salak-1", "salak-2", "salak-3"} {
		v.has("the flavour salak is taken for "+name, scenarioPatience, v.make(name, []string{"salak"}), "flavour salak")
	}
	refuse(2, 3)
	v.leaves("of four icecreams of salak salak-4 goes"+also, scenarioPatience, v.make("salak-4", []string{"salak"}))
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
