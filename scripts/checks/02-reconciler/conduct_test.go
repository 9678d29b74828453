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

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/grading/audit"
)

func restart() types.Feature {
	return features.New("right after a restart").
		Assess("what changed while it was away is corrected", check.Assess(assess(func(v visit) {
			for _, name := range []string{"pear-1", "pear-2", "pear-3"} {
				v.Make(name, "pear")
			}
			v.Remain("the three icecreams of pear stay", "pear-1", "pear-2", "pear-3")
			v.OK(v.T, "stopping the operator", v.Operator.Stop(v.Ctx))
			v.Make("pear-4", "pear")
			v.Make("pear-5", "pear")
			v.OK(v.T, "deleting an icecream", v.Shop.Delete(v.Ctx, "pear-2"))
			v.OK(v.T, "changing toppings", v.Shop.Patch(v.Ctx, "pear-1", `{"spec":{"topping":["cream","cherry"]}}`))
			v.OK(v.T, "changing toppings", v.Shop.Patch(v.Ctx, "pear-3", `{"spec":{"topping":["cream","cherry"]}}`))
			v.OK(v.T, "starting the operator", v.Operator.Start(v.Ctx))
			// Other checks report which of the four is deleted.
			v.RemainCount("pear-2 was deleted and two were made while the operator was stopped; of the four, one is deleted", 3)
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			// Later checks need the operator, whatever the result of this one is.
			return c.Operator.Start(ctx)
		})).Feature()
}

func settles() types.Feature {
	return features.New("at rest once right").
		Assess("when something changes that does not matter", check.Assess(assess(func(v visit) {
			for _, name := range []string{"nut-1", "nut-2", "nut-3"} {
				v.Make(name, "flavour-of-"+name)
			}
			v.Remain("three icecreams of different flavours stay", "nut-1", "nut-2", "nut-3")
			v.Idle(v.Ctx, v.T)
			began, logged := v.Audit.Now(), v.Logged(v.Ctx, v.T)
			for _, name := range []string{"nut-1", "nut-2", "nut-3"} {
				v.OK(v.T, "labelling an icecream", v.Shop.Patch(v.Ctx, name, `{"metadata":{"labels":{"table":"4"}}}`))
			}
			// A change that matters comes last: when the operator has dealt with it, it has seen the others.
			v.OK(v.T, "adding a topping", v.Shop.Patch(v.Ctx, "nut-3", `{"spec":{"topping":["cream","nuts"]}}`))
			v.ToppingsCount("nut-3", 2)
			v.Settle(v.Ctx, v.T)
			writes := v.Audit.Since(began, v.OperatorRequests().And(audit.Writes, func(e audit.Event) bool {
				return e.Name != "nut-3"
			}))
			if len(writes) > 0 {
				v.Fail(v.T, "the operator writes nothing for nut-1 and nut-2, of which only a label changed",
					fmt.Sprintf("it sent %d writes that change nothing", len(writes)), audit.Lines(writes)...)
			}
			v.NoErrors(v.Ctx, v.T, logged, "nut-1", "nut-2")
		}))).
		Assess("when all change, and nothing goes wrong", check.Assess(assess(func(v visit) {
			began, logged, all := v.Audit.Now(), v.Logged(v.Ctx, v.T), []string{"nut-1", "nut-2", "nut-3"}
			for _, name := range all {
				v.OK(v.T, "changing toppings", v.Shop.Patch(v.Ctx, name, `{"spec":{"topping":["fudge","nuts","wafer"]}}`))
				v.ToppingsCount(name, 3)
			}
			v.Settle(v.Ctx, v.T)
			v.ErrorsHaveCauses(v.Ctx, v.T, logged, began, all...)
		}))).
		Assess("when one is gone", check.Assess(assess(func(v visit) {
			logged := v.Logged(v.Ctx, v.T)
			v.OK(v.T, "deleting an icecream", v.Shop.Delete(v.Ctx, "nut-2"))
			v.Remain("the other two stay", "nut-1", "nut-3")
			v.AtRest(v.Ctx, v.T)
			v.NoErrors(v.Ctx, v.T, logged, "nut-1", "nut-2", "nut-3")
		}))).
		Assess("when it deletes some itself", check.Assess(assess(func(v visit) { v.NoErrorsForDeletions("coconut") }))).
		Feature()
}

func statusSubresource() types.Feature {
	return features.New("the status is written through its subresource").
		Assess("in the whole run", check.Assess(assess(func(v visit) {
			resource := icecream.Resource.GroupResource()
			writes := v.Audit.Since(0, v.OperatorRequests().And(
				audit.On(resource.Group, resource.Resource),
				func(e audit.Event) bool {
					return e.Verb == "update" || e.Verb == "patch"
				}))
			var wrong, forbidden []audit.Event
			viaSubresource := false
			for _, e := range writes {
				switch {
				case e.Subresource == "status":
					viaSubresource = true
				case e.Subresource == "" && losesStatus(e):
					wrong = append(wrong, e)
				case e.Subresource == "" && audit.Denied(e):
					forbidden = append(forbidden, e) // including the content of the request, which was not read
				}
			}
			const expected = "the operator writes the status through icecreams/status only"
			switch {
			case len(wrong) > 0:
				v.Fail(v.T, expected, fmt.Sprintf(
					"%d writes of icecreams carried a changed status, which the API server ignores there", len(wrong)),
					audit.Lines(wrong)...)
			case !viaSubresource && len(forbidden) > 0:
				v.Fail(v.T, expected,
					fmt.Sprintf("it never wrote icecreams/status, and asked %d times to update or patch icecreams, which it may not: "+
						"a marker for that would not help, since the API server ignores the status there", len(forbidden)),
					audit.Lines(forbidden)...)
			case !viaSubresource && len(writes) > 0:
				v.Fail(v.T, expected, "it never wrote icecreams/status", audit.Lines(writes)...)
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
