// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package icecream_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
)

// sample is the lecture's.
func sample() types.Feature {
	return features.New("the sample of the lecture").
		Assess("is accepted and reads back as it was written", check.Assess(assess(func(v visit) {
			const expected = "the lecture's sample (flavour matcha, vanilla; topping cream, coconutflakes, watermelon) reads back as written"
			written := icecream.New("icecream-sample", []string{"matcha", "vanilla"}, []string{"cream", "coconutflakes", "watermelon"})
			if _, err := v.icecreams.Create(v.ctx, written, metav1.CreateOptions{FieldValidation: "Ignore"}); err != nil {
				v.Fail(v.t, expected, "it is rejected", err.Error())
			}
			read, err := v.icecreams.Get(v.ctx, written.GetName(), metav1.GetOptions{})
			v.OK(v.t, "reading the icecream back", err)
			if !reflect.DeepEqual(read.Object["spec"], written.Object["spec"]) {
				v.Fail(v.t, expected, fmt.Sprintf("spec is %v", read.Object["spec"]),
					"fields that the schema does not know are pruned when an object is stored")
			}
		}))).Feature()
}

// refused is an icecream that the API server must reject, and how its message names the rule.
type refused struct {
	what   string
	object *unstructured.Unstructured
	field  string
	rule   *regexp.Regexp
}

func toppingsMax() types.Feature {
	four := icecream.New("tower", []string{"vanilla"}, []string{"cream", "cherry", "nuts", "syrup"})
	return features.New("at most three toppings").
		Assess("three are accepted", check.Assess(accepts("three toppings", []string{"vanilla"}, []string{"cream", "cherry", "nuts"}))).
		Assess("four are rejected", check.Assess(rejects(refused{
			"an icecream with four toppings is rejected, and the message says that there are at most three",
			four, "spec.topping", regexp.MustCompile(`(?i)\b(3|three)\b`),
		}))).Feature()
}

func toppingsUnique() types.Feature {
	return features.New("no topping twice").
		Assess("twice the same is rejected", check.Assess(rejects(refused{
			"an icecream with cream twice is rejected, and the message says that it is a duplicate",
			icecream.New("double", []string{"vanilla"}, []string{"cream", "cream"}), "spec.topping",
			regexp.MustCompile(`(?i)duplicate|unique|twice|more than once`),
		}))).Feature()
}

func flavourRequired() types.Feature {
	rule := regexp.MustCompile(`(?i)required|at least (1|one)|should have at least 1|must have at least|missing|empty`)
	without := icecream.New("water", nil, []string{"cream"})
	unstructured.RemoveNestedField(without.Object, "spec", "flavour")
	return features.New("at least one flavour").
		Assess("an empty list is rejected", check.Assess(rejects(refused{
			"an icecream with an empty list of flavours is rejected, and the message says that one is needed",
			icecream.New("air", []string{}, []string{"cream"}), "spec.flavour", rule,
		}))).
		Assess("no list at all is rejected", check.Assess(rejects(refused{
			"an icecream without spec.flavour is rejected, and the message says that it is required",
			without, "spec.flavour", rule,
		}))).Feature()
}

func accepts(what string, flavour, topping []string) func(context.Context, *testing.T, *check.Check) {
	return assess(func(v visit) {
		if _, err := v.icecreams.Create(v.ctx, icecream.New("fine", flavour, topping), metav1.CreateOptions{}); err != nil {
			v.Fail(v.t, "an icecream with "+what+" is accepted", "it is rejected", err.Error())
		}
	})
}

func rejects(r refused) func(context.Context, *testing.T, *check.Check) {
	return assess(func(v visit) {
		_, err := v.icecreams.Create(v.ctx, r.object, metav1.CreateOptions{})
		if err == nil {
			v.Fail(v.t, r.what, "it is accepted", fmt.Sprintf("the API server stored %v", r.object.Object["spec"]))
		}
		if !apierrors.IsInvalid(err) {
			v.Fail(v.t, r.what, "the request failed for another reason", err.Error())
		}
		var status apierrors.APIStatus
		errors.As(err, &status)
		for _, cause := range status.Status().Details.Causes {
			if strings.HasPrefix(cause.Field, r.field) || strings.Contains(cause.Message, r.field) {
				if r.rule.MatchString(cause.Message) {
					return
				}
			}
		}
		v.Fail(v.t, r.what, "it is rejected, but the message does not name the rule and the field "+r.field, err.Error())
	})
}

func statusSubresource() types.Feature {
	const expected = "the status is a subresource: it is written through /status only, and keeps soldOut, toppingsCount and conditions"
	return features.New("status is a subresource").
		Assess("a write of the object leaves the status alone", check.Assess(assess(func(v visit) {
			object := icecream.New("sundae", []string{"vanilla"}, []string{"cream"})
			object.Object["status"] = map[string]any{"soldOut": true, "toppingsCount": int64(7)}
			created, err := v.icecreams.Create(v.ctx, object, metav1.CreateOptions{})
			v.OK(v.t, "creating an icecream", err)
			if status, there := created.Object["status"]; there && !empty(status) {
				v.Fail(v.t, expected, fmt.Sprintf("creating the object wrote the status, too: %v", status))
			}
		}))).
		Assess("a write of the status keeps its fields", check.Assess(assess(func(v visit) {
			object, err := v.icecreams.Get(v.ctx, "sundae", metav1.GetOptions{})
			v.OK(v.t, "reading the icecream", err)
			generation := object.GetGeneration()
			condition := map[string]any{
				"type": "Ready", "status": "True", "reason": "Scooped", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
			}
			status := map[string]any{"soldOut": true, "toppingsCount": int64(1), "conditions": []any{condition}}
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
		}))).Feature()
}

// empty reports whether a status says nothing: defaults may have made it an object.
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
