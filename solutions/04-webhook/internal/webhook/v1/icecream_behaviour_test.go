// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	demov1 "lva.io/operators/solutions/04-webhook/api/v1"
)

//lab:begin behaviour-tests

func TestWhatIsLikeAFlavourIsNone(t *testing.T) {
	t.Parallel()
	for _, flavour := range []string{"vanilla-ish", " vanilla", "vanilla ", "choc", "late", "VANILLA", "100%d"} {
		_, err := new(IcecreamCustomValidator).ValidateCreate(t.Context(), icecream([]string{flavour}))
		if err == nil || !strings.Contains(err.Error(), flavour) {
			t.Errorf("the shop does not sell %q, and the answer is %v", flavour, err)
		}
	}
}

func TestToppingsAreNotJudged(t *testing.T) {
	t.Parallel()
	order := icecream([]string{"vanilla"}, "matcha", "cream")
	if _, err := new(IcecreamCustomValidator).ValidateCreate(t.Context(), order); err != nil {
		t.Errorf("the toppings are refused: %v", err)
	}
}

func TestAChangeIsWarnedOfAsAnOrderIs(t *testing.T) {
	t.Parallel()
	warnings, err := new(IcecreamCustomValidator).ValidateUpdate(t.Context(),
		icecream([]string{"vanilla"}), icecream(flavours))
	if err != nil || len(warnings) == 0 {
		t.Errorf("all flavours in one get the warnings %q and the error %v, want a warning", warnings, err)
	}
}

// The shop has changed its menu since the icecream was stored. A change of its labels is still accepted.
func TestAStoredIcecreamKeepsItsFlavours(t *testing.T) {
	t.Parallel()
	old := icecream([]string{"matcha"})
	old.Generation = 1
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"table": "7"}
	if _, err := new(IcecreamCustomValidator).ValidateUpdate(t.Context(), old, labelled); err != nil {
		t.Errorf("a label is refused: %v", err)
	}
}

func TestADeletionIsNotRefused(t *testing.T) {
	t.Parallel()
	warnings, err := new(IcecreamCustomValidator).ValidateDelete(t.Context(), icecream([]string{"matcha"}))
	if err != nil || len(warnings) > 0 {
		t.Errorf("a deletion gets the warnings %q and the error %v, want none", warnings, err)
	}
}

// Controllers act for people, and people find that out.
func TestProgramsAreJudgedAsPeopleAre(t *testing.T) {
	t.Parallel()
	ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:shop:waiter"},
	}})
	if _, err := new(IcecreamCustomValidator).ValidateCreate(ctx, icecream([]string{"matcha"})); err == nil {
		t.Error("a ServiceAccount may order matcha")
	}
}

func TestDefaultChangesNothingElse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		order, filled *demov1.Icecream
	}{
		{"nothing is said", icecream(nil), icecream([]string{"vanilla"}, "wafer")},
		{
			"lists are empty",
			&demov1.Icecream{Spec: demov1.IcecreamSpec{Flavour: []string{}, Topping: []string{}}},
			icecream([]string{"vanilla"}, "wafer"),
		},
		{
			"lists are not sorted",
			icecream([]string{"vanilla", "chocolate"}),
			icecream([]string{"vanilla", "chocolate"}, "wafer"),
		},
		// The schema refuses it, in words. To repair it would hide the mistake.
		{
			"a flavour is there twice",
			icecream([]string{"vanilla", "vanilla"}),
			icecream([]string{"vanilla", "vanilla"}, "wafer"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := new(IcecreamCustomDefaulter).Default(t.Context(), test.order); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(test.order, test.filled) {
				t.Errorf("got %+v, want %+v", test.order, test.filled)
			}
		})
	}
}

//lab:else
// // TODO(lab): 7. Not graded with the lab: tests of your own. `make tests-4`, in the root of the repository, runs them
// // on wrong webhooks, and says how many they find out.
//lab:end
