// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"bytes"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

func finalizerAdded() types.Feature {
	return feature("a new icecream gets the finalizer", "soon after it was made", func(v visit) {
		o := v.createIcecream("apricot", []string{"apricot"}, "cream")
		v.awaitFinalizer("apricot gets the finalizer "+finalizer, patience, o)
	})
}

// awaitFinalizer waits until an icecream has the operator's finalizer.
func (v visit) awaitFinalizer(expected string, patience time.Duration, o order) {
	v.t.Helper()
	v.until(expected, patience, func() (string, bool) {
		now, exists := v.find(o)
		if !exists {
			return o.name + " is gone", false
		}
		observed := finalizersOf(now.finalizers)
		if !now.hasFinalizer() && v.finalizerInStatus(o) {
			observed += "; the operator wrote the finalizer to icecreams/status, where the API server ignores all metadata"
		}
		return observed, now.hasFinalizer()
	})
}

// finalizerInStatus reports whether the operator wrote its finalizer together with the status of an icecream.
func (v visit) finalizerInStatus(o order) bool {
	v.t.Helper()
	resource := icecream.Resource.GroupResource()
	return len(v.Audit.Since(0, v.OperatorRequests().And(
		audit.On(resource.Group, resource.Resource),
		func(e audit.Event) bool {
			return e.Name == o.name && e.Subresource == "status" && bytes.Contains(e.Request, []byte(`"`+finalizer+`"`)) &&
				!bytes.Contains(e.Response, []byte(`"`+finalizer+`"`))
		}))) > 0
}

func ingredientsTaken() types.Feature {
	return feature("ingredients are taken", "each once, under the icecream's UID", func(v visit) {
		const expected = "for blackberry the flavours blackberry and cherry and the toppings cherry and nuts " +
			"are taken out of the freezer, each once, by the owner metadata.uid"
		// A topping with the name of a flavour is another ingredient.
		o := v.createIcecream("blackberry", []string{"blackberry", "cherry"}, "cherry", "nuts")
		all := []string{"flavour blackberry", "flavour cherry", "topping cherry", "topping nuts"}
		v.has(expected, patience, o, all...)
		// Changes that do not matter have no effect.
		v.change(o, `{"metadata":{"labels":{"table":"4"}}}`)
		v.Settle(v.ctx, v.t)
		v.has(expected+", and no more when a label changes", patience, o, all...)
	})
}

func finalizerFirst() types.Feature {
	return feature("first the finalizer, then the freezer", "also when the operator is killed in between", func(v visit) {
		const expected = "the finalizer is on the icecream before the freezer is asked for anything"
		v.arm(
			faults.Fault{Kind: faults.Conflict, Class: faults.Write, Service: faults.API, At: 1},
			faults.Fault{Kind: faults.KillAfter, Class: faults.Write, Service: faults.API, At: 2},
		)
		o := v.createIcecream("currant", []string{"currant"}, "cream")
		v.has("currant gets the finalizer and its ingredients, "+
			"although the operator's first write meets a conflict, and after the second it is killed",
			scenarioPatience, o, "flavour currant", "topping cream")
		v.takenAfter(expected, o)
	})
}
