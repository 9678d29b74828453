// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/scripts/grading/faults"
)

// behindFor is how long a restarted operator sees only the old state: long enough to act on it, even on a busy machine.
const behindFor = 2 * time.Second

// oldList restarts an operator while the API server that it uses is behind the others, as one of three may be
// (kubernetes issue 59848). The operator's cache begins with a spec from before the last change, for which everything
// was once done. An operator that returns the ingredients that this spec does not want must detect later that they are
// missing, and be able to take them again.
func oldList(v visit) {
	other, o := v.createIcecream("sapote", []string{"sapote"}), v.createIcecream("salak", []string{"salak"})
	v.has("the ingredients of sapote are taken", scenarioPatience, other, "flavour sapote")
	v.has("the ingredients of salak are taken", scenarioPatience, o, "flavour salak")
	v.Settle(v.ctx, v.t)
	before, err := v.Client.List(v.ctx, metav1.ListOptions{})
	v.OK(v.t, "listing the icecreams", err)
	v.change(o, `{"spec":{"topping":["cream"]}}`)
	v.has("when salak gets cream, it is taken", scenarioPatience, o, "flavour salak", "topping cream")
	v.settled(scenarioPatience, "when salak has its cream", o, metav1.ConditionTrue)
	v.Settle(v.ctx, v.t)

	v.Arm(v.ctx, v.t, faults.Schedule{Faults: []faults.Fault{{
		Kind: faults.Behind, Class: faults.Read, Service: faults.API,
		Version: before.GetResourceVersion(), For: metav1.Duration{Duration: behindFor},
	}}})
	v.OK(v.t, "killing the operator", v.Operator.Kill(v.ctx))
	v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
	// Events arrive in order: when the operator knows this change, it knows the current state of salak.
	v.change(other, `{"spec":{"topping":["nuts"]}}`)
	v.has("when sapote gets nuts, they are taken", scenarioPatience, other, "flavour sapote", "topping nuts")
	v.Settle(v.ctx, v.t)
	const expected = "salak, which was not changed since, still has flavour salak and topping cream out of the freezer, " +
		"and Settled is True, although the operator was started again and at first saw it without cream"
	v.until(expected, patience, func() (string, bool) {
		now, _ := v.find(o)
		status := metav1.ConditionUnknown
		if c := meta.FindStatusCondition(now.conditions, settled); c != nil {
			status = c.Status
		}
		return fmt.Sprintf("%s, and the status of Settled is %s", v.describe(o), status),
			status == metav1.ConditionTrue && slices.Equal(v.account(o).Out(), []string{"flavour salak", "topping cream"})
	})
}
