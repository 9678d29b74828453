// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reconciler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
)

func restart() types.Feature {
	return features.New("right after a restart").
		Assess("what changed while it was away is mended", check.Assess(assess(func(v visit) {
			for _, name := range []string{"pear-1", "pear-2", "pear-3"} {
				v.make(name, "pear")
			}
			v.remain("the three icecreams of pear stay", "pear-1", "pear-2", "pear-3")
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
			v.make("pear-4", "pear")
			v.make("pear-5", "pear")
			v.OK(v.t, "deleting an icecream", v.shop.Delete(v.ctx, "pear-2"))
			v.OK(v.t, "changing toppings", v.shop.Patch(v.ctx, "pear-1", `{"spec":{"topping":["cream","cherry"]}}`))
			v.OK(v.t, "changing toppings", v.shop.Patch(v.ctx, "pear-3", `{"spec":{"topping":["cream","cherry"]}}`))
			v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
			// Which of the four goes is for other checks to say.
			v.remainCount("pear-2 was deleted and two were made while the operator was stopped; of the four, one goes", 3)
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			// The checks after this one need it, whatever came of this one.
			return c.Operator.Start(ctx)
		})).Feature()
}

func settles() types.Feature {
	return features.New("no write once right").
		Assess("when something changes that does not matter", check.Assess(assess(func(v visit) {
			for _, name := range []string{"nut-1", "nut-2", "nut-3"} {
				v.make(name, "flavour-of-"+name)
			}
			if !v.remain("three icecreams of different flavours stay", "nut-1", "nut-2", "nut-3") {
				v.Fail(v.t, "the operator becomes silent when all is right", "it sends requests without end")
			}
			began := v.Audit.Now()
			for _, name := range []string{"nut-1", "nut-2", "nut-3"} {
				v.OK(v.t, "labelling an icecream", v.shop.Patch(v.ctx, name, `{"metadata":{"labels":{"table":"4"}}}`))
			}
			// A change that does matter comes last: when it is done, the operator has seen the others.
			v.OK(v.t, "adding a topping", v.shop.Patch(v.ctx, "nut-3", `{"spec":{"topping":["cream","nuts"]}}`))
			v.toppingsCount("nut-3", 2)
			v.Settle(v.ctx, v.t)
			writes := v.Audit.Since(began, v.OperatorRequests().And(audit.Writes, func(e audit.Event) bool { return e.Name != "nut-3" }))
			if len(writes) > 0 {
				v.Fail(v.t, "the operator writes nothing for nut-1 and nut-2, of which only a label changed",
					fmt.Sprintf("it sent %d writes that change nothing", len(writes)), lines(writes)...)
			}
		}))).Feature()
}

func statusSubresource() types.Feature {
	return features.New("the status is written through its subresource").
		Assess("in the whole run", check.Assess(assess(func(v visit) {
			resource := icecream.Resource.GroupResource()
			writes := v.Audit.Since(0, v.OperatorRequests().And(audit.Writes, audit.On(resource.Group, resource.Resource)))
			var wrong []audit.Event
			viaSubresource := false
			for _, e := range writes {
				viaSubresource = viaSubresource || e.Subresource == "status"
				if e.Subresource == "" && losesStatus(e) {
					wrong = append(wrong, e)
				}
			}
			const expected = "the operator writes the status through icecreams/status only"
			if len(wrong) > 0 {
				v.Fail(v.t, expected, fmt.Sprintf(
					"%d writes of icecreams carried a changed status, which the API server ignores there", len(wrong)), lines(wrong)...)
			}
			if !viaSubresource {
				v.Fail(v.t, expected, "it never wrote icecreams/status")
			}
		}))).Feature()
}

// losesStatus reports whether a write of the main resource carried a status other than the one that is stored: the API
// server silently keeps the old one.
func losesStatus(e audit.Event) bool {
	var sent, stored struct {
		Status map[string]any `json:"status"`
	}
	if e.Code >= 300 || json.Unmarshal(e.Response, &stored) != nil {
		return false
	}
	if bytes.HasPrefix(bytes.TrimSpace(e.Request), []byte("[")) {
		return bytes.Contains(e.Request, []byte(`"/status`)) // a JSON patch
	}
	if json.Unmarshal(e.Request, &sent) != nil {
		return false
	}
	for field, value := range sent.Status {
		if value != nil && !reflect.ValueOf(value).IsZero() && !reflect.DeepEqual(value, stored.Status[field]) {
			return true
		}
	}
	return false
}

func leastPrivilege() types.Feature {
	return features.New("the role is enough").
		Assess("in the whole run", check.Assess(assess(func(v visit) {
			denied := v.Audit.Since(0, v.ByOperator().And(audit.Denied))
			if len(denied) == 0 {
				return
			}
			var missing []string
			for _, right := range audit.ForbiddenRights(denied) {
				missing = append(missing, fmt.Sprintf("missing (%d times): %s", right.Count, right.Marker()))
			}
			v.Fail(v.t, "the role that your +kubebuilder:rbac markers generate allows all that the operator asks for",
				fmt.Sprintf("the API server refused %d of its requests (403 Forbidden)", len(denied)), missing...)
		}))).Feature()
}

func lines(events []audit.Event) []string {
	const most = 8
	var all []string
	for _, e := range events[:min(most, len(events))] {
		all = append(all, e.String())
	}
	return all
}
