// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package icecream_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	e2e "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/order"
)

// accepted checks everything that is allowed. It begins with the examples, which remain for the changes that follow.
func accepted() e2e.Feature {
	return features.New("what is allowed is accepted").
		Assess("without topping", check.Assess(accepts("an icecream without topping is accepted", plain))).
		Assess("with three toppings", check.Assess(accepts("an icecream with three toppings is accepted", threeToppings))).
		Assess("whatever it is", check.Assess(assess(func(v visit) {
			// The task ties no rule to a status. Another check reports whether a status can be written.
			status := []byte(`{"status":{"soldOut":true,"toppingsCount":3}}`)
			_, _ = v.icecreams.Patch(v.ctx, threeToppings.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
			acceptsAll(v)
		}))).Feature()
}

func toppingsMax() e2e.Feature {
	return features.New("at most three toppings").
		Assess("four are rejected", check.Assess(rejects(toppingsMaxRule,
			"an icecream with four toppings is rejected, and the message says that there are at most three",
			order.Spec{Flavour: []string{"vanilla"}, Topping: []string{"cream", "cherry", "nuts", "syrup"}}))).
		Assess("however many there are", check.Assess(rejectsAll(toppingsMaxRule))).Feature()
}

func toppingsUnique() e2e.Feature {
	return features.New("no topping twice").
		Assess("twice the same is rejected", check.Assess(rejects(toppingsUniqueRule,
			"an icecream with cream twice is rejected, and the message says that it is a duplicate",
			order.Spec{Flavour: []string{"vanilla"}, Topping: []string{"cream", "cream"}}))).
		Assess("wherever they stand", check.Assess(rejectsAll(toppingsUniqueRule))).Feature()
}

func flavoursUnique() e2e.Feature {
	return features.New("no flavour twice").
		Assess("twice the same is rejected", check.Assess(rejects(flavoursUniqueRule,
			"an icecream with vanilla twice is rejected, and the message says that it is a duplicate",
			order.Spec{Flavour: []string{"vanilla", "vanilla"}}))).
		Assess("wherever they stand", check.Assess(rejectsAll(flavoursUniqueRule))).Feature()
}

func flavourRequired() e2e.Feature {
	cream := []string{"cream"}
	return features.New("at least one flavour").
		Assess("an empty list is rejected", check.Assess(rejects(flavourRequiredRule,
			"an icecream with an empty list of flavours is rejected, and the message says that one is needed",
			order.Spec{Flavour: []string{}, Topping: cream}))).
		Assess("no list at all is rejected", check.Assess(rejects(flavourRequiredRule,
			"an icecream without spec.flavour is rejected, and the message says that it is required",
			order.Spec{Topping: cream}))).
		Assess("null is rejected", check.Assess(assess(func(v visit) {
			wrong := order.Order{Name: "wrong", Spec: order.Spec{Topping: cream}}.Object()
			wrong.Object["spec"].(map[string]any)["flavour"] = nil
			v.rejects(flavourRequiredRule,
				"an icecream whose spec.flavour is null is rejected, and the message says that it is required", wrong)
		}))).
		Assess("no spec at all is rejected", check.Assess(rejects(flavourRequiredRule,
			"an icecream without spec is rejected, and the message says that it is required", order.Spec{Absent: true}))).
		Assess("whatever else it has", check.Assess(rejectsAll(flavourRequiredRule))).Feature()
}

func accepts(expected string, icecream order.Order) func(context.Context, *testing.T, *check.Check) {
	return assess(func(v visit) {
		if _, err := v.icecreams.Create(v.ctx, icecream.Object(), metav1.CreateOptions{}); err != nil {
			v.Fail(v.t, expected, "it is rejected", err.Error())
		}
	})
}

func rejects(l ruleCheck, expected string, spec order.Spec) func(context.Context, *testing.T, *check.Check) {
	return assess(func(v visit) {
		wrong := order.Order{Name: "wrong", Spec: spec}
		v.rejects(l, expected, wrong.Object(), wrong.Script("")...)
	})
}

// rejects fails the check unless the API server refuses the icecream because of the rule. script creates the icecream.
func (v visit) rejects(l ruleCheck, expected string, wrong *unstructured.Unstructured, script ...string) {
	v.t.Helper()
	_, err := v.icecreams.Create(v.ctx, wrong, metav1.CreateOptions{})
	if observed := l.judge(err); observed != "" {
		v.Fail(v.t, expected, observed, script...)
	}
}

func statusSubresource() e2e.Feature {
	const expected = "the status is a subresource: it is written through /status only, " +
		"and keeps soldOut, toppingsCount and conditions"
	return features.New("status is a subresource").
		Assess("a write of the object leaves the status alone", check.Assess(assess(func(v visit) {
			object := icecream.New("sundae", []string{"vanilla"}, []string{"cream"})
			object.Object["status"] = map[string]any{"soldOut": true, "toppingsCount": int64(7)}
			created, err := v.icecreams.Create(v.ctx, object, metav1.CreateOptions{})
			v.OK(v.t, "creating an icecream", err)
			if status, exists := created.Object["status"]; exists && !empty(status) {
				v.Fail(v.t, expected, fmt.Sprintf("creating the object wrote the status, too: %v", status))
			}
		}))).
		Assess("a write of the status keeps its fields", check.Assess(assess(func(v visit) {
			object, err := v.icecreams.Get(v.ctx, "sundae", metav1.GetOptions{})
			v.OK(v.t, "reading the icecream", err)
			generation := object.GetGeneration()
			status := map[string]any{
				"soldOut": true, "toppingsCount": int64(1),
				"conditions": []any{condition("Ready", "True"), condition("Settled", "False")},
			}
			object.Object["status"] = status
			object.Object["spec"] = map[string]any{"flavour": []any{"chocolate"}}
			updated, err := v.icecreams.UpdateStatus(v.ctx, object, metav1.UpdateOptions{})
			if err != nil {
				v.Fail(v.t, expected, "writing /status is refused", err.Error())
			}
			if !reflect.DeepEqual(updated.Object["status"], status) {
				v.Fail(v.t, expected, fmt.Sprintf("of the written status, this was kept: %v", updated.Object["status"]),
					fmt.Sprintf("written: %v", status))
			}
			if updated.GetGeneration() != generation {
				v.Fail(v.t, expected, "writing the status changed metadata.generation")
			}
		}))).
		Assess("a status has one condition of each type", check.Assess(assess(func(v visit) {
			const expected = "a status with two conditions of the type Ready is rejected: " +
				"conditions are a map, whose key is the type"
			object, err := v.icecreams.Get(v.ctx, "sundae", metav1.GetOptions{})
			v.OK(v.t, "reading the icecream", err)
			twice := []any{condition("Ready", "True"), condition("Ready", "False")}
			object.Object["status"] = map[string]any{"conditions": twice}
			switch _, err := v.icecreams.UpdateStatus(v.ctx, object, metav1.UpdateOptions{}); {
			case err == nil:
				v.Fail(v.t, expected, "two conditions of the type Ready are accepted, one with the status True and one with False",
					"of two writers, the API server would not know which entry each means")
			case !apierrors.IsInvalid(err):
				v.Fail(v.t, expected, "writing /status is refused for another reason", err.Error())
			}
		}))).
		Assess("a count is a whole number", check.Assess(assess(func(v visit) {
			half := []byte(`{"status":{"toppingsCount":1.5}}`)
			_, err := v.icecreams.Patch(v.ctx, "sundae", types.MergePatchType, half,
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
			const expected = "a status with a toppingsCount of 1.5 is rejected: it is a whole number"
			switch {
			case err == nil:
				v.Fail(v.t, expected, "it is accepted")
			case !apierrors.IsInvalid(err):
				v.Fail(v.t, expected, "writing /status is refused for another reason", err.Error())
			}
		}))).
		Assess("whatever the status is", check.Assess(assess(keepsAll))).
		Assess("whatever the two conditions are", check.Assess(assess(rejectsDuplicateTypes))).Feature()
}

// condition returns a condition for an object's status.
func condition(kind, status string) map[string]any {
	return map[string]any{
		"type":               kind,
		"status":             status,
		"reason":             "Scooped",
		"message":            "",
		"lastTransitionTime": "2026-01-01T00:00:00Z",
	}
}

// empty reports whether a status has no content. Defaults may have made it an object.
func empty(status any) bool {
	fields, ok := status.(map[string]any)
	if !ok {
		return status == nil
	}
	for _, value := range fields {
		if value != nil && !reflect.ValueOf(value).IsZero() {
			return false
		}
	}
	return true
}
