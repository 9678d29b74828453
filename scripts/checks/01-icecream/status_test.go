// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package icecream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/checks/draw"
)

// observation is a status that an operator might write. A nil field is one that the operator has not observed yet.
type observation struct {
	soldOut       *bool
	toppingsCount *int64
	conditions    []map[string]any
}

// conditionTypes are types of conditions. Some differ only in a part, or in case.
var conditionTypes = []string{
	"Ready", "ready", "Read", "ReadyToEat", "Settled", "Melted",
	"demo.lva.io/Ready", "example.com/Ready", "A", "a-b_c.d",
}

// drawObservation draws a status that has one condition of each type, or one type twice. In the latter case the other
// fields of the two conditions may be equal or different.
func drawObservation(random *rand.Rand, number int, twice bool) observation {
	var o observation
	if number%4 != 1 {
		o.soldOut = new(random.IntN(2) == 0)
	}
	if number%4 != 2 {
		o.toppingsCount = new(int64(random.IntN(4)))
	}
	counts := []int{2, 3, 0, 1, 5, 12, 60}
	count := counts[number%len(counts)]
	if twice {
		count = max(count, 2)
	}
	for i := range count {
		kind := fmt.Sprintf("Type%d", i)
		if count <= len(conditionTypes) {
			kind = conditionTypes[(number+i)%len(conditionTypes)]
		}
		one := condition(kind, []string{"True", "False", "Unknown"}[random.IntN(3)])
		one["reason"] = []string{"Scooped", "Melting"}[random.IntN(2)]
		if random.IntN(2) == 0 {
			one["observedGeneration"] = int64(random.IntN(3))
		}
		o.conditions = append(o.conditions, one)
	}
	if twice {
		first, second := 0, count-1
		if number%2 == 1 {
			first = random.IntN(count - 1)
			second = first + 1
		}
		repeated := map[string]any{}
		maps.Copy(repeated, o.conditions[second])
		if number%3 == 0 {
			maps.Copy(repeated, o.conditions[first])
		}
		repeated["type"] = o.conditions[first]["type"]
		o.conditions[second] = repeated
	}
	return o
}

// unique reports whether there is one condition of each type.
func (o observation) unique() bool {
	seen := map[any]bool{}
	for _, one := range o.conditions {
		if seen[one["type"]] {
			return false
		}
		seen[one["type"]] = true
	}
	return true
}

// status returns the observation as it is sent.
func (o observation) status() map[string]any {
	status := map[string]any{}
	if o.soldOut != nil {
		status["soldOut"] = *o.soldOut
	}
	if o.toppingsCount != nil {
		status["toppingsCount"] = *o.toppingsCount
	}
	if len(o.conditions) > 0 {
		list := make([]any, len(o.conditions))
		for i, one := range o.conditions {
			list[i] = one
		}
		status["conditions"] = list
	}
	return status
}

func (o observation) smaller() (smaller []observation) {
	for size := len(o.conditions); size > 0; size /= 2 {
		for start := 0; start+size <= len(o.conditions); start += size {
			less := o
			less.conditions = slices.Delete(slices.Clone(o.conditions), start, start+size)
			smaller = append(smaller, less)
		}
	}
	for i, one := range o.conditions {
		if _, exists := one["observedGeneration"]; exists {
			less := o
			less.conditions = slices.Clone(o.conditions)
			less.conditions[i] = condition(fmt.Sprint(one["type"]), fmt.Sprint(one["status"]))
			smaller = append(smaller, less)
		}
	}
	if o.soldOut != nil && o.toppingsCount != nil && (*o.soldOut || *o.toppingsCount > 0) {
		smaller = append(smaller, observation{soldOut: new(false), toppingsCount: new(int64(0)), conditions: o.conditions})
	}
	return smaller
}

// patch returns the observation as a merge patch, which replaces the earlier observation.
func (o observation) patch() []byte {
	status := o.status()
	for _, field := range []string{"soldOut", "toppingsCount", "conditions"} {
		if _, set := status[field]; !set {
			status[field] = nil // null removes the field
		}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		panic(err) // texts, numbers and booleans can always be encoded as JSON
	}
	return patch
}

// observed is the number of statuses that are drawn: they cover each number of conditions, with equal and different
// neighbours.
const observed = 42

// observe fails unless the requirement holds for all statuses that the seed draws for the icecream called sundae.
func (v visit) observe(expected string, twice bool, judge func(o observation, status any, err error) string) {
	v.t.Helper()
	property := draw.Property[observation]{
		Name: fmt.Sprint(v.ID, twice), Count: observed,
		Draw: func(random *rand.Rand, number int) observation { return drawObservation(random, number, twice) },
		Try: func(ctx context.Context, o observation) (string, error) {
			if o.unique() == twice {
				return "", nil
			}
			object, err := v.icecreams.Patch(ctx, "sundae", types.MergePatchType, o.patch(),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
			if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
				return "", fmt.Errorf("sending a request to the API server: %w", err)
			}
			if err != nil {
				return judge(o, nil, err), nil
			}
			return judge(o, object.Object["status"], nil), nil
		},
		Smaller: observation.smaller,
	}
	found, err := property.Searches(v.ctx, v.Seed, v.Stories)
	v.OK(v.t, "trying statuses that are drawn at random", err)
	if found != nil {
		v.Fail(v.t, expected, found.Observed,
			fmt.Sprintf("kubectl patch icecream sundae --subresource=status --type=merge --dry-run=server -p '%s'",
				found.Case.patch()))
	}
}

// keepsAll is the step that checks that every status with one condition of each type is stored.
func keepsAll(v visit) {
	v.observe("every status with soldOut, toppingsCount and one condition of each type reads back as it was written, "+
		"and nothing is filled in", false,
		func(o observation, status any, err error) string {
			if status == nil {
				status = map[string]any{}
			}
			switch {
			case err != nil && (o.soldOut == nil || o.toppingsCount == nil):
				return "" // a kind may require both, or none
			case err != nil:
				return fmt.Sprintf("a status with %d conditions is refused: %v", len(o.conditions), err)
			case !reflect.DeepEqual(status, any(o.status())):
				return fmt.Sprintf("of the written status, this was kept: %v", status)
			}
			return ""
		})
}

// rejectsDuplicateTypes is the step in which a type occurs twice, anywhere in the list.
func rejectsDuplicateTypes(v visit) {
	v.observe("every status with two conditions of one type is rejected, "+
		"wherever they stand and whatever else they say", true,
		func(o observation, _ any, err error) string {
			switch {
			case err == nil:
				return fmt.Sprintf("of %d conditions, two have one type, and they are accepted", len(o.conditions))
			case !apierrors.IsInvalid(err):
				return "writing /status is refused for another reason: " + err.Error()
			}
			return ""
		})
}
