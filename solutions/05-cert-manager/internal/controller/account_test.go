// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	demov1 "lva.io/operators/solutions/05-cert-manager/api/v1"
	"lva.io/operators/solutions/05-cert-manager/internal/freezer"
)

func TestBalance(t *testing.T) {
	sundae := icecream("sundae", 1, "vanilla", "matcha")
	sundae.UID = "5d1"
	sundae.Spec.Topping = []string{"cream", "nuts"}
	tests := []struct {
		name     string
		icecream demov1.Icecream
		out      string
		want     []string
	}{
		{
			name: "a new one takes all it wants", icecream: sundae,
			want: []string{"out flavour vanilla", "out flavour matcha", "out topping cream", "out topping nuts"},
		},
		{
			name: "one that has all it wants does nothing", icecream: sundae,
			out: "flavour vanilla, flavour matcha, topping cream, topping nuts",
		},
		{
			name: "after a crash, the rest is taken", icecream: sundae,
			out:  "flavour vanilla, flavour matcha",
			want: []string{"out topping cream", "out topping nuts"},
		},
		{
			name: "what is wanted no more goes back before something else is taken", icecream: sundae,
			out:  "flavour mango, flavour vanilla, flavour matcha, topping cream, topping cherry",
			want: []string{"in topping cherry", "in flavour mango", "out topping nuts"},
		},
		{
			name: "a topping that is called like a flavour is another thing", icecream: sundae,
			out:  "flavour vanilla, flavour matcha, flavour cream, topping nuts, topping matcha",
			want: []string{"in topping matcha", "in flavour cream", "out topping cream"},
		},
		{
			name: "one that is being deleted returns its toppings, then its flavours", icecream: dying(sundae),
			out:  "flavour vanilla, topping cream, flavour matcha, topping nuts",
			want: []string{"in topping cream", "in topping nuts", "in flavour vanilla", "in flavour matcha"},
		},
		{
			name: "one that is being deleted returns what it has, whatever it was to have", icecream: dying(sundae),
			out:  "flavour mango",
			want: []string{"in flavour mango"},
		},
		{
			name: "one that is being deleted and has nothing out is done", icecream: dying(sundae),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, m := range balance(&test.icecream, ingredients(test.out)) {
				if m.Owner != string(sundae.UID) {
					t.Errorf("the owner of a movement is %q, want the UID, %q", m.Owner, sundae.UID)
				}
				got = append(got, strings.Join([]string{string(m.Direction), string(m.Kind), m.Name}, " "))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestMovementID(t *testing.T) {
	id := func(uid types.UID, generation int64, direction freezer.Direction, kind freezer.Kind, name string) string {
		sundae := icecream("sundae", 1, "vanilla")
		sundae.UID, sundae.Generation = uid, generation
		return movementID(&sundae, freezer.Movement{
			Owner: string(uid), Direction: direction, Ingredient: freezer.Ingredient{Kind: kind, Name: name},
		})
	}
	cream := id("5d1", 1, freezer.Out, freezer.Topping, "cream")
	if again := id("5d1", 1, freezer.Out, freezer.Topping, "cream"); again != cream {
		t.Errorf("the same movement has another id the second time: %q, then %q", cream, again)
	}
	for what, other := range map[string]string{
		"another icecream":   id("5d2", 1, freezer.Out, freezer.Topping, "cream"),
		"another generation": id("5d1", 2, freezer.Out, freezer.Topping, "cream"),
		"another direction":  id("5d1", 1, freezer.In, freezer.Topping, "cream"),
		"another kind":       id("5d1", 1, freezer.Out, freezer.Flavour, "cream"),
		"another ingredient": id("5d1", 1, freezer.Out, freezer.Topping, "nuts"),
	} {
		if other == cream {
			t.Errorf("%s has the same id, %q: the freezer takes it for the same movement", what, other)
		}
	}
	allowed := regexp.MustCompile(`^[A-Za-z0-9._:-]{1,200}$`)
	for _, name := range []string{"crème brûlée", "a/b c", strings.Repeat("so ", 100) + "good"} {
		if got := id("5d1", 1, freezer.Out, freezer.Flavour, name); !allowed.MatchString(got) {
			t.Errorf("the freezer refuses the id %q, of the flavour %q", got, name)
		}
	}
}

// ingredients reads a list such as "topping cream, flavour vanilla".
func ingredients(list string) []freezer.Ingredient {
	var all []freezer.Ingredient
	for item := range strings.SplitSeq(list, ", ") {
		if kind, name, ok := strings.Cut(item, " "); ok {
			all = append(all, freezer.Ingredient{Kind: freezer.Kind(kind), Name: name})
		}
	}
	return all
}
