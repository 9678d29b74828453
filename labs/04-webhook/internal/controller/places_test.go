// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	demov1 "lva.io/operators/labs/04-webhook/api/v1"
)

func TestAssignPlaces(t *testing.T) {
	tests := []struct {
		name      string
		icecreams []demov1.Icecream
		holders   []string
		soldOut   []string
	}{
		{
			name: "an empty shop",
		},
		{
			name: "three of a flavour have a place",
			icecreams: []demov1.Icecream{
				icecream("a", 1, "vanilla"), icecream("b", 2, "vanilla"), icecream("c", 3, "vanilla"),
			},
			holders: []string{"a", "b", "c"},
			soldOut: []string{"vanilla"},
		},
		{
			name: "of four the newest has none, whatever its name",
			icecreams: []demov1.Icecream{
				icecream("a", 4, "vanilla"), icecream("b", 1, "vanilla"),
				icecream("c", 2, "vanilla"), icecream("d", 3, "vanilla"),
			},
			holders: []string{"b", "c", "d"},
			soldOut: []string{"vanilla"},
		},
		{
			name: "of four equally old ones the last by name has none",
			icecreams: []demov1.Icecream{
				icecream("d", 1, "vanilla"), icecream("a", 1, "vanilla"),
				icecream("c", 1, "vanilla"), icecream("b", 1, "vanilla"),
			},
			holders: []string{"a", "b", "c"},
			soldOut: []string{"vanilla"},
		},
		{
			name: "flavours are counted one by one",
			icecreams: []demov1.Icecream{
				icecream("a", 1, "vanilla"), icecream("b", 2, "vanilla"),
				icecream("c", 3, "matcha"), icecream("d", 4, "matcha"),
			},
			holders: []string{"a", "b", "c", "d"},
		},
		{
			name: "a flavour is what it is called, letter by letter",
			icecreams: []demov1.Icecream{
				icecream("a", 1, "vanilla"), icecream("b", 2, "vanilla"), icecream("c", 3, "Vanilla"), icecream("d", 4, "vanilla"),
			},
			holders: []string{"a", "b", "c", "d"},
			soldOut: []string{"vanilla"},
		},
		{
			name: "two flavours need a place in both",
			icecreams: []demov1.Icecream{
				icecream("a", 1, "vanilla"), icecream("b", 2, "vanilla"), icecream("c", 3, "vanilla"),
				icecream("d", 4, "matcha", "vanilla"),
			},
			holders: []string{"a", "b", "c"},
			soldOut: []string{"vanilla"},
		},
		{
			name: "one without a place takes none in its other flavour",
			icecreams: []demov1.Icecream{
				icecream("a", 1, "vanilla"), icecream("b", 2, "vanilla"), icecream("c", 3, "vanilla"),
				icecream("d", 4, "vanilla", "matcha"),
				icecream("e", 5, "matcha"), icecream("f", 6, "matcha"), icecream("g", 7, "matcha"),
			},
			holders: []string{"a", "b", "c", "e", "f", "g"},
			soldOut: []string{"matcha", "vanilla"},
		},
		{
			name: "one that is being deleted has left its place",
			icecreams: []demov1.Icecream{
				dying(icecream("a", 1, "vanilla")), icecream("b", 2, "vanilla"),
				icecream("c", 3, "vanilla"), icecream("d", 4, "vanilla"),
			},
			holders: []string{"b", "c", "d"},
			soldOut: []string{"vanilla"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assigned := assignPlaces(test.icecreams)
			if got := sets.List(assigned.holders); !slices.Equal(got, test.holders) {
				t.Errorf("places: got %q, want %q", got, test.holders)
			}
			for _, flavour := range []string{"matcha", "vanilla"} {
				got, want := assigned.soldOut([]string{flavour}), slices.Contains(test.soldOut, flavour)
				if got != want {
					t.Errorf("%s is sold out: got %t, want %t", flavour, got, want)
				}
			}
		})
	}
}

// icecream makes one that was created in this second of the test's day.
func icecream(name string, second int, flavours ...string) demov1.Icecream {
	return demov1.Icecream{
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			CreationTimestamp: metav1.Date(2026, time.July, 1, 12, 0, second, 0, time.UTC),
		},
		Spec: demov1.IcecreamSpec{Flavour: flavours},
	}
}

func dying(icecream demov1.Icecream) demov1.Icecream {
	icecream.DeletionTimestamp = &icecream.CreationTimestamp
	return icecream
}
