// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/order"
)

// These are the defaults of an order with missing fields.
var (
	defaultFlavour = []string{"vanilla"}
	defaultTopping = []string{"wafer"}
)

func defaults() types.Feature {
	return features.New("what is left out is filled in").
		Assess("of a new icecream", check.Assess(assess(func(v visit) {
			v.wantSpec("an icecream of which nothing is said has the flavour vanilla and the topping wafer",
				"an icecream without flavour and topping", v.ask(createRequest(dry, "default", nil, nil)),
				defaultFlavour, defaultTopping)
			// Another check reports whether the other field stays.
			v.wantSpec("an icecream without a topping gets the topping wafer",
				"an icecream of chocolate without a topping", v.ask(createRequest(dry, "default", []string{"chocolate"}, nil)),
				nil, defaultTopping)
			v.wantSpec("an icecream without a flavour is one of vanilla",
				"an icecream with cream, without a flavour", v.ask(createRequest(dry, "default", nil, []string{"cream"})),
				defaultFlavour, nil)
		}))).
		Assess("of one that is changed", check.Assess(assess(func(v visit) {
			v.createIcecream("default", "strawberry")
			v.wantSpec("an icecream whose topping is taken away gets the topping wafer",
				"an icecream of strawberry whose topping is taken away", v.ask(change(dry, "default", `{"spec":{"topping":null}}`)),
				nil, defaultTopping)
		}))).
		Assess("whatever is left out", check.Assess(assess(func(v visit) {
			v.hold(property{count: order.Incompletes, draw: incomplete, expected: filled, wrong: notFilled})
		}))).
		Assess("and whatever is taken away", check.Assess(assess(func(v visit) {
			v.store(young)
			v.hold(property{what: "changed", count: order.Incompletes, draw: emptied, expected: filled, wrong: notFilled})
		}))).Feature()
}

// incomplete draws an order that leaves out a field.
func incomplete(random *rand.Rand, number int) request {
	return drawOrder(random, order.Incomplete(random, number))
}

// emptied draws a change that removes a field's content.
func emptied(random *rand.Rand, number int) request {
	r := changing(young)(random, number)
	for r.method != put && r.method != mergePatch {
		r = changing(young)(random, number)
	}
	r.Spec = order.Incomplete(random, number)
	return r
}

// filled returns the rest of a sentence about missing fields.
func filled(r request, want order.Answer) string {
	if want.Denied() {
		return ""
	}
	switch noFlavour, noTopping := len(r.Spec.Flavour) == 0, len(r.Spec.Topping) == 0; {
	case noFlavour && noTopping:
		return "becomes one of vanilla with a wafer"
	case noFlavour:
		return "becomes one of vanilla"
	case noTopping:
		return "gets a wafer"
	}
	return ""
}

// notFilled checks only the missing fields. Another check reports whether the others stay.
func notFilled(r request, want order.Answer, got admission.Answer) string {
	if tooMuch(want, got) {
		return ""
	}
	if got.Verdict != admission.Accepted {
		return got.String()
	}
	if flavour := flavourOf(got.Object); len(r.Spec.Flavour) == 0 && !slices.Equal(flavour, want.Spec.Flavour) {
		return fmt.Sprintf("it has the flavours [%s]", strings.Join(flavour, ", "))
	}
	if topping := toppingOf(got.Object); len(r.Spec.Topping) == 0 && !slices.Equal(topping, want.Spec.Topping) {
		return fmt.Sprintf("it has the toppings [%s]", strings.Join(topping, ", "))
	}
	return ""
}

func keeps() types.Feature {
	return features.New("what is given stays").
		Assess("of a new icecream", check.Assess(assess(func(v visit) {
			v.wantSpec("flavours and toppings stay as they are given, in their order",
				"an icecream of strawberry and chocolate with nuts, cream and a cherry",
				v.ask(createRequest(dry, "kept", []string{"strawberry", "chocolate"}, []string{"nuts", "cream", "cherry"})),
				[]string{"strawberry", "chocolate"}, []string{"nuts", "cream", "cherry"})
			v.wantSpec("a single flavour and a single topping stay as they are given",
				"an icecream of chocolate with cream", v.ask(createRequest(dry, "kept", []string{"chocolate"}, []string{"cream"})),
				[]string{"chocolate"}, []string{"cream"})
		}))).
		Assess("also what is refused because of it", check.Assess(assess(func(v visit) {
			for _, wrong := range []struct{ flavour, topping []string }{
				{flavour: []string{"vanilla", "vanilla"}, topping: []string{"cream"}},
				{flavour: []string{""}, topping: []string{"cream"}},
				{flavour: []string{"vanilla"}, topping: []string{"cream", "cream"}},
				{flavour: []string{"vanilla"}, topping: []string{"nuts", "", "cream"}},
				{flavour: []string{"vanilla"}, topping: []string{"nuts", "cream", "cherry", "wafer"}},
			} {
				spec := order.Spec{Flavour: wrong.flavour, Topping: wrong.topping}
				if answer := v.ask(createRequest(dry, "kept", wrong.flavour, wrong.topping)); answer.Verdict == admission.Accepted {
					v.fail("what the schema refuses is refused as ever: of what is given, nothing is taken away",
						fmt.Sprintf("an icecream %s: it was accepted, and becomes %s",
							spec.Words(), written(answer.Object.Object["spec"])))
				}
			}
		}))).
		Assess("of one that is changed", check.Assess(assess(func(v visit) {
			v.createIcecream("kept", "strawberry")
			v.wantSpec("flavours and toppings stay when a label changes", "a label on an icecream of strawberry with cream",
				v.ask(change(dry, "kept", `{"metadata":{"labels":{"table":"4"}}}`)), []string{"strawberry"}, []string{"cream"})
			v.wantSpec("a topping that is changed is the one that was given", "nuts instead of cream",
				v.ask(change(dry, "kept", `{"spec":{"topping":["nuts"]}}`)), []string{"strawberry"}, []string{"nuts"})
		}))).
		Assess("whatever it is", check.Assess(assess(func(v visit) {
			v.hold(property{count: order.OnMenus, draw: onMenu, expected: kept, wrong: stays})
		}))).
		Assess("and nothing is added but what is missing", check.Assess(assess(func(v visit) {
			v.hold(property{what: "incomplete", count: order.Incompletes, draw: incomplete, expected: kept, wrong: stays})
		}))).
		Assess("whatever changes", check.Assess(assess(func(v visit) {
			v.store(young)
			v.hold(property{what: "changed", count: order.Changes, draw: changing(young), expected: kept, wrong: stays})
		}))).Feature()
}

func idempotent() types.Feature {
	return features.New("defaulting twice is defaulting once").
		Assess("of one that is created as it came back", check.Assess(assess(func(v visit) {
			const expected = "what has been defaulted once is not changed when it is sent again"
			once := v.ask(createRequest(dry, "again", nil, nil))
			v.want(expected, admission.Accepted, "an icecream without flavour and topping", once)
			twice := v.ask(create(dry, fresh(once.Object)))
			v.want(expected, admission.Accepted, "the same, as it came back", twice)
			v.wantSame(expected, once.Object, twice.Object)
		}))).
		Assess("of one that is stored", check.Assess(assess(func(v visit) {
			const expected = "an icecream that has been defaulted is not changed when a label is set"
			stored := v.ask(createRequest(persisted, "again", nil, nil))
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
		}))).
		Assess("whatever it is", check.Assess(assess(func(v visit) {
			v.hold(property{
				count: order.Incompletes, draw: incomplete,
				expected: func(_ request, want order.Answer) string {
					if want.Denied() || want.Warning { // other checks report whether all three flavours are accepted
						return ""
					}
					return "is not changed when it is sent again as it came back"
				},
				wrong: notAccepted,
				then: func(ctx context.Context, _ request, once admission.Answer) (string, error) {
					twice, err := v.patiently(ctx, askPatience, create(dry, fresh(once.Object)))
					if err != nil || twice.Verdict != admission.Accepted {
						return "when it is sent again, " + twice.String(), err
					}
					return differ(once.Object, twice.Object), nil
				},
			})
		}))).Feature()
}

// kept returns the rest of a sentence about the fields that were given.
func kept(r request, want order.Answer) string {
	if want.Denied() || r.method == deletion || r.method == status {
		return ""
	}
	return "stays as it is sent, and what is missing is filled in"
}

// fresh returns what a person would have written to get this object: the object without the fields that the API server
// has added.
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
	if wrong := differ(once, twice); wrong != "" {
		v.fail(expected, wrong)
	}
}

// differ returns what a person would have had to write for both objects, if it is not the same.
func differ(once, twice *unstructured.Unstructured) string {
	first, second := written(fresh(once).Object), written(fresh(twice).Object)
	if first == second {
		return ""
	}
	return fmt.Sprintf("it was %s and became %s", first, second)
}
