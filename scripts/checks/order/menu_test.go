// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"lva.io/operators/scripts/checks/order"
)

func TestOrdered(t *testing.T) {
	t.Parallel()
	vanilla, matcha := []string{"vanilla"}, []string{"matcha"}
	cream, wafer := []string{"cream"}, []string{"wafer"}
	for _, test := range []struct {
		name string
		got  order.Answer
		want order.Answer
	}{
		{
			"no spec", order.Ordered(order.Spec{Absent: true}),
			order.Answer{Spec: order.Spec{Flavour: vanilla, Topping: wafer}, Silent: true},
		},
		{
			"empty lists", order.Ordered(order.Spec{Flavour: []string{}, Topping: []string{}}),
			order.Answer{Spec: order.Spec{Flavour: vanilla, Topping: wafer}, Silent: true},
		},
		{
			"what is given stays", order.Ordered(order.Spec{Flavour: []string{"strawberry", "vanilla"}, Topping: cream}),
			order.Answer{Spec: order.Spec{Flavour: []string{"strawberry", "vanilla"}, Topping: cream}, Silent: true},
		},
		{
			"all in one", order.Ordered(order.Spec{Flavour: []string{"strawberry", "vanilla", "chocolate"}, Topping: cream}),
			order.Answer{
				Spec:    order.Spec{Flavour: []string{"strawberry", "vanilla", "chocolate"}, Topping: cream},
				Warning: true,
			},
		},
		{
			"two that are wrong", order.Ordered(order.Spec{Flavour: []string{"Vanilla", "vanilla", "vanilla "}, Topping: cream}),
			order.Answer{
				Spec:    order.Spec{Flavour: []string{"Vanilla", "vanilla", "vanilla "}, Topping: cream},
				Refused: []string{"Vanilla", "vanilla "},
			},
		},
		{
			"an old one in another order, and without topping",
			order.Changed(order.Spec{Flavour: []string{"mud", "matcha"}}, order.Spec{Flavour: []string{"matcha", "mud"}}),
			order.Answer{Spec: order.Spec{Flavour: []string{"matcha", "mud"}, Topping: wafer}},
		},
		{
			"a label of an old one without topping", order.Changed(order.Spec{Flavour: matcha}, order.Spec{Flavour: matcha}),
			order.Answer{Spec: order.Spec{Flavour: matcha}},
		},
		{
			"an old one loses one of two",
			order.Changed(order.Spec{Flavour: []string{"mud", "matcha"}}, order.Spec{Flavour: matcha, Topping: cream}),
			order.Answer{Spec: order.Spec{Flavour: matcha, Topping: cream}, Refused: matcha},
		},
		{
			"an old one gets one more",
			order.Changed(order.Spec{Flavour: matcha}, order.Spec{Flavour: []string{"matcha", "vanilla"}, Topping: cream}),
			order.Answer{Spec: order.Spec{Flavour: []string{"matcha", "vanilla"}, Topping: cream}, Refused: matcha},
		},
		{
			"the flavours of an old one are taken away", order.Changed(order.Spec{Flavour: matcha}, order.Spec{Topping: cream}),
			order.Answer{Spec: order.Spec{Flavour: vanilla, Topping: cream}, Silent: true},
		},
		{
			"nothing changes in one of all three",
			order.Changed(order.Spec{Flavour: order.Menu}, order.Spec{Flavour: order.Menu, Topping: cream}),
			order.Answer{Spec: order.Spec{Flavour: order.Menu, Topping: cream}},
		},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, test.got, test.want)
		}
	}
}

// TestDrawnRequests checks that every seed draws the required cases, and each drawn request is of the kind for which it
// was drawn.
func TestDrawnRequests(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		several := false
		lists, refused, missing, moves := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
		for number := range order.OnMenus {
			s := order.OnMenu(random, number)
			if answer := order.Ordered(s); answer.Denied() || !answer.Spec.Equal(s) || len(s.Breaks()) > 0 {
				t.Errorf("OnMenu() is not complete or not on the menu: %s", s)
			}
			lists[order.Spec{Flavour: s.Flavour}.String()] = true
		}
		for number := range order.OffMenus {
			s := order.OffMenu(random, number, 6)
			answer := order.Ordered(s)
			if !answer.Denied() || !answer.Spec.Equal(s) || len(s.Breaks()) > 0 {
				t.Errorf("OffMenu() is not complete or on the menu: %s", s)
			}
			if len(answer.Refused) == 1 {
				refused[answer.Refused[0]] = true // as the only flavour that is not sold
			}
			several = several || len(answer.Refused) > 2
		}
		for number := range order.Incompletes {
			s := order.Incomplete(random, number)
			answer := order.Ordered(s)
			if answer.Denied() || answer.Spec.Equal(s) || len(answer.Spec.Breaks()) > 0 {
				t.Errorf("Incomplete() is complete or not on the menu: %s", s)
			}
			missing[order.Spec{Flavour: s.Flavour[:0], Topping: s.Topping[:0], Absent: s.Absent}.String()] = true
		}
		from := order.Spec{Flavour: []string{"mud", "vanilla"}, Topping: []string{"cream"}}
		for number := range order.Changes {
			to := order.Change(random, number, from)
			if broken := to.Breaks(); len(broken) > 0 {
				t.Errorf("a change to %s breaks %q", to, broken)
			}
			switch answer := order.Changed(from, to); {
			case answer.Denied():
				moves["denied"] = true
			case to.Equal(from):
				moves["the same"] = true
			case slices.Equal(to.Flavour, from.Flavour):
				moves["other toppings"] = true
			case order.SameFlavours(to, from):
				moves["another order"] = true
			default:
				moves["accepted"] = true
			}
		}
		if len(lists) != 15 || len(refused) != order.UnsoldFlavours ||
			!refused["vanilla "] || !several || len(missing) < 5 || len(moves) != 5 {
			t.Errorf("seed %d: %d lists of the menu, %d refused flavours, %d incomplete forms, changes %v",
				seed, len(lists), len(refused), len(missing), moves)
		}
	}
}

func TestPlainer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		o := order.Order{Name: "cone"}
		o.Describe(rand.New(rand.NewPCG(seed, 1)))
		for range 10 {
			if plainer := o.Plainer(); len(plainer) > 0 {
				o = plainer[0]
			}
		}
		if !reflect.DeepEqual(o, order.Order{Name: "cone"}) {
			t.Errorf("the plainest order still has fields: %+v", o)
		}
	}
}
