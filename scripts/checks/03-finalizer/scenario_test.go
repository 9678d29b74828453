// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/freezer"
)

// refusals makes the requests that matter fail, one kind after the other. Nothing else happens that would give an
// operator that drops an error another chance.
func refusals(v visit) {
	const also = ", also if the operator's first requests are refused"
	var o order
	v.RefusedAtFirst(v.ctx, v.t, faults.Conflict, faults.Write, func() {
		o = v.createIcecream("yuzu", []string{"yuzu"}, "cream")
	})
	v.has("the ingredients of yuzu are taken"+also, scenarioPatience, o, "flavour yuzu", "topping cream")
	v.RefusedAtFirst(v.ctx, v.t, faults.ServerError, faults.Read, func() {
		v.change(o, `{"spec":{"topping":["cream","nuts"]}}`)
	})
	v.has("when yuzu gets nuts as well, they are taken"+also, scenarioPatience, o,
		"flavour yuzu", "topping cream", "topping nuts")
	v.RefusedAtFirst(v.ctx, v.t, faults.Conflict, faults.Write, func() { v.change(o, `{"spec":{"topping":["nuts"]}}`) })
	v.has("when yuzu gets no cream any more, it is returned"+also, scenarioPatience, o, "flavour yuzu", "topping nuts")
	v.settled(scenarioPatience, "when yuzu has no cream any more"+also, o, metav1.ConditionTrue)
	v.arm(faults.Fault{Kind: faults.Unavailable, Class: faults.Write, Service: freezer.Service, At: 1})
	v.delete(o)
	const returned = "when yuzu is deleted, its ingredients are returned, toppings first, and it is gone" + also
	v.awaitDeleted(returned, scenarioPatience, o)
	v.toppingsFirst(returned, o)
	// The rules of lab 02 apply, too.
	for _, name := range []string{"salak-1", "salak-2", "salak-3"} {
		v.has("the flavour salak is taken for "+name, scenarioPatience,
			v.createIcecream(name, []string{"salak"}), "flavour salak")
	}
	for _, refused := range []struct {
		kind  faults.Kind
		class faults.Class
		name  string
	}{{faults.ServerError, faults.Read, "salak-4"}, {faults.Conflict, faults.Write, "salak-5"}} {
		var late order
		v.RefusedAtFirst(v.ctx, v.t, refused.kind, refused.class, func() {
			late = v.createIcecream(refused.name, []string{"salak"})
		})
		v.awaitDeleted("of four icecreams of salak "+refused.name+" is deleted"+also, scenarioPatience, late)
	}
}

// scenario is the life of one icecream, and the short life of another. The first is created, changed, and deleted. The
// second is deleted at once. Whatever fails, all ingredients are back in the freezer at the end, and have never been
// anywhere else.
func scenario(v visit) {
	long := v.createIcecream("quince", []string{"quince"}, "cream", "nuts")
	v.has("the ingredients of quince are taken", scenarioPatience, long, "flavour quince", "topping cream", "topping nuts")
	v.change(long, `{"spec":{"topping":["cherry"]}}`)
	v.has("when quince gets the topping cherry instead of cream and nuts, those are returned and cherry is taken",
		scenarioPatience, long, "flavour quince", "topping cherry")
	short := v.createIcecream("rhubarb", []string{"rhubarb"})
	v.deleteAtOnce(short)
	v.delete(long)
	v.awaitDeleted("when quince and rhubarb are deleted, their ingredients are returned, and they are gone",
		scenarioPatience, long, short)
	v.Settle(v.ctx, v.t)
	for _, o := range []order{long, short} {
		v.nothingOut("nothing is taken for an icecream that is gone", o)
		v.takenAfter("the finalizer is on an icecream before the freezer is asked for anything", o)
		v.toppingsFirst("toppings are returned before flavours", o)
	}
}
