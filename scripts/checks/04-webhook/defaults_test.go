// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
)

// What an order gets that says nothing.
var (
	defaultFlavour = []string{"vanilla"}
	defaultTopping = []string{"wafer"}
)

func defaults() types.Feature {
	return features.New("what is left out is filled in").
		Assess("of a new icecream", check.Assess(assess(func(v visit) {
			v.wantSpec("an icecream of which nothing is said has the flavour vanilla and the topping wafer",
				"an icecream without flavour and topping", v.ask(order(dry, "default", nil, nil)), defaultFlavour, defaultTopping)
			// That the other field stays is for another check to say.
			v.wantSpec("an icecream without a topping gets the topping wafer",
				"an icecream of chocolate without a topping", v.ask(order(dry, "default", []string{"chocolate"}, nil)),
				nil, defaultTopping)
			v.wantSpec("an icecream without a flavour is one of vanilla",
				"an icecream with cream, without a flavour", v.ask(order(dry, "default", nil, []string{"cream"})),
				defaultFlavour, nil)
		}))).
		Assess("of one that is changed", check.Assess(assess(func(v visit) {
			v.make("default", "strawberry")
			v.wantSpec("an icecream whose topping is taken away gets the topping wafer",
				"an icecream of strawberry whose topping is taken away", v.ask(change(dry, "default", `{"spec":{"topping":null}}`)),
				nil, defaultTopping)
		}))).Feature()
}

func keeps() types.Feature {
	return features.New("what is given stays").
		Assess("of a new icecream", check.Assess(assess(func(v visit) {
			v.wantSpec("flavours and toppings stay as they are given, in their order",
				"an icecream of strawberry and chocolate with nuts, cream and a cherry",
				v.ask(order(dry, "kept", []string{"strawberry", "chocolate"}, []string{"nuts", "cream", "cherry"})),
				[]string{"strawberry", "chocolate"}, []string{"nuts", "cream", "cherry"})
			v.wantSpec("a single flavour and a single topping stay as they are given",
				"an icecream of chocolate with cream", v.ask(order(dry, "kept", []string{"chocolate"}, []string{"cream"})),
				[]string{"chocolate"}, []string{"cream"})
		}))).
		Assess("of one that is changed", check.Assess(assess(func(v visit) {
			v.make("kept", "strawberry")
			v.wantSpec("flavours and toppings stay when a label changes", "a label on an icecream of strawberry with cream",
				v.ask(change(dry, "kept", `{"metadata":{"labels":{"table":"4"}}}`)), []string{"strawberry"}, []string{"cream"})
			v.wantSpec("a topping that is changed is the one that was given", "nuts instead of cream",
				v.ask(change(dry, "kept", `{"spec":{"topping":["nuts"]}}`)), []string{"strawberry"}, []string{"nuts"})
		}))).Feature()
}

func idempotent() types.Feature {
	return features.New("defaulting twice is defaulting once").
		Assess("of one that is created as it came back", check.Assess(assess(func(v visit) {
			const expected = "what has been defaulted once is not changed when it is sent again"
			once := v.ask(order(dry, "again", nil, nil))
			v.want(expected, admission.Accepted, "an icecream without flavour and topping", once)
			twice := v.ask(create(dry, fresh(once.Object)))
			v.want(expected, admission.Accepted, "the same, as it came back", twice)
			v.wantSame(expected, once.Object, twice.Object)
		}))).
		Assess("of one that is stored", check.Assess(assess(func(v visit) {
			const expected = "an icecream that has been defaulted is not changed when a label is set"
			stored := v.ask(order(wet, "again", nil, nil))
			v.want(expected, admission.Accepted, "an icecream without flavour and topping", stored)
			const label = `{"metadata":{"labels":{"table":"4"}}}`
			changed := v.ask(change(dry, "again", label))
			v.want(expected, admission.Accepted, "the same, with a label", changed)
			want := stored.Object.DeepCopy()
			labels := want.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels["table"] = "4"
			want.SetLabels(labels)
			v.wantSame(expected, want, changed.Object)
		}))).Feature()
}

// fresh is what a person would have written to get this object: without what the API server has added.
func fresh(object *unstructured.Unstructured) *unstructured.Unstructured {
	written := &unstructured.Unstructured{Object: map[string]any{"spec": object.Object["spec"]}}
	written.SetGroupVersionKind(object.GroupVersionKind())
	written.SetName(object.GetName())
	written.SetLabels(object.GetLabels())
	written.SetAnnotations(object.GetAnnotations())
	written.SetFinalizers(object.GetFinalizers())
	return written
}

// wantSame fails unless a person would have had to write the same for both objects.
func (v visit) wantSame(expected string, once, twice *unstructured.Unstructured) {
	v.t.Helper()
	first, err := json.Marshal(fresh(once))
	v.OK(v.t, "writing an icecream as JSON", err)
	second, err := json.Marshal(fresh(twice))
	v.OK(v.t, "writing an icecream as JSON", err)
	if string(first) != string(second) {
		v.fail(expected, fmt.Sprintf("it was %s and became %s", first, second))
	}
}
