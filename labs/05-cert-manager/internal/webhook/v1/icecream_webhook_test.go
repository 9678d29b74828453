// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	demov1 "lva.io/operators/labs/05-cert-manager/api/v1"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		was  []string // nil: it is a new order
		is   []string
		// refused are the flavours that the answer must name; none: it is allowed.
		refused []string
		warns   bool
	}{
		{name: "what the shop sells", is: []string{"vanilla"}},
		{name: "two of them", is: []string{"strawberry", "chocolate"}},
		{name: "all in one", is: []string{"strawberry", "vanilla", "chocolate"}, warns: true},
		{name: "another flavour", is: []string{"matcha"}, refused: []string{"matcha"}},
		{name: "one of two", is: []string{"vanilla", "matcha"}, refused: []string{"matcha"}},
		{name: "both of two", is: []string{"matcha", "mud"}, refused: []string{"matcha", "mud"}},
		{name: "a flavour is written as it is", is: []string{"Vanilla"}, refused: []string{"Vanilla"}},
		{name: "it changes to what the shop sells", was: []string{"matcha"}, is: []string{"vanilla"}},
		{
			name: "it changes to another flavour", was: []string{"vanilla"}, is: []string{"matcha"},
			refused: []string{"matcha"},
		},
		{name: "an old one keeps its flavour", was: []string{"matcha"}, is: []string{"matcha"}},
		{
			name: "an old one keeps its flavours in another order",
			was:  []string{"matcha", "mud"}, is: []string{"mud", "matcha"},
		},
		{
			name: "an old one loses a flavour and keeps another", was: []string{"matcha", "mud"}, is: []string{"matcha"},
			refused: []string{"matcha"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var warnings admission.Warnings
			var err error
			if test.was == nil {
				warnings, err = new(IcecreamCustomValidator).ValidateCreate(t.Context(), icecream(test.is))
			} else {
				warnings, err = new(IcecreamCustomValidator).ValidateUpdate(t.Context(), icecream(test.was), icecream(test.is))
			}
			if (len(warnings) > 0) != test.warns {
				t.Errorf("warnings: got %q, want some: %t", warnings, test.warns)
			}
			if (err != nil) != (len(test.refused) > 0) {
				t.Fatalf("got %v, want it to be refused: %t", err, len(test.refused) > 0)
			}
			if err == nil {
				return
			}
			for _, word := range slices.Concat(test.refused, flavours) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not name %s", err, word)
				}
			}
		})
	}
}

func TestDefault(t *testing.T) {
	dying := icecream(nil)
	dying.DeletionTimestamp = new(metav1.Now())
	labelled := icecream([]string{"matcha"})
	labelled.Labels = map[string]string{"table": "4"}
	tests := []struct {
		name             string
		was              *demov1.Icecream // nil: it is a new order
		order            *demov1.Icecream
		flavour, topping []string
	}{
		{"nothing is said", nil, icecream(nil), []string{"vanilla"}, []string{"wafer"}},
		{"a flavour is", nil, icecream([]string{"chocolate"}), []string{"chocolate"}, []string{"wafer"}},
		{"a topping is", nil, icecream(nil, "cream"), []string{"vanilla"}, []string{"cream"}},
		{"both are", nil, icecream([]string{"matcha"}, "nuts", "cream"), []string{"matcha"}, []string{"nuts", "cream"}},
		{
			"the topping is taken away", icecream([]string{"chocolate"}, "cream"), icecream([]string{"chocolate"}),
			[]string{"chocolate"},
			[]string{"wafer"},
		},
		{"an old one without topping gets a label", icecream([]string{"matcha"}), labelled, []string{"matcha"}, nil},
		{"it is on its way out", icecream(nil, "cream"), dying, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}}
			if test.was != nil {
				request.Operation = admissionv1.Update
				var err error
				if request.OldObject.Raw, err = json.Marshal(test.was); err != nil {
					t.Fatal(err)
				}
			}
			ctx := admission.NewContextWithRequest(t.Context(), request)
			for _, time := range []string{"first", "second"} {
				if err := new(IcecreamCustomDefaulter).Default(ctx, test.order); err != nil {
					t.Fatal(err)
				}
				got := test.order.Spec
				if !slices.Equal(got.Flavour, test.flavour) || !slices.Equal(got.Topping, test.topping) {
					t.Errorf("after the %s time: got %q with %q, want %q with %q",
						time, got.Flavour, got.Topping, test.flavour, test.topping)
				}
			}
		})
	}
}

func icecream(flavour []string, topping ...string) *demov1.Icecream {
	return &demov1.Icecream{Spec: demov1.IcecreamSpec{Flavour: flavour, Topping: topping}}
}
