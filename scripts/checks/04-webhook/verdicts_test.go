// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/order"
)

func denies() types.Feature {
	return features.New("other flavours are denied").
		Assess("by a webhook", check.Assess(assess(func(v visit) {
			v.try(choose(creates, false), "denied", admission.DeniedByWebhook)
			v.want("an icecream of vanilla is accepted", admission.Accepted, "an icecream of vanilla",
				v.ask(createRequest(dry, "denied-not", []string{"vanilla"}, []string{"cream"})))
		}))).
		Assess("also when it is no dry run", check.Assess(assess(func(v visit) {
			v.want("an icecream of matcha is denied by a webhook, and not stored", admission.DeniedByWebhook,
				"creating an icecream of matcha",
				v.ask(createRequest(persisted, "denied-stored", []string{"matcha"}, []string{"cream"})))
		}))).
		Assess("for every user", check.Assess(assess(func(v visit) {
			const what = "creating an icecream of matcha by a ServiceAccount"
			client, err := v.admission.As("system:serviceaccount:kube-system:customer",
				"system:serviceaccounts", "system:masters")
			v.OK(v.t, "becoming a ServiceAccount", err)
			v.admission = client
			v.want("an icecream of matcha is denied by a webhook, whichever user creates it", admission.DeniedByWebhook, what,
				v.ask(createRequest(dry, "denied-anybody", []string{"matcha"}, []string{"cream"})))
		}))).
		Assess("whatever they are", check.Assess(assess(func(v visit) {
			v.hold(property{count: order.OffMenus, draw: offMenu(3), expected: denied, wrong: notDenied})
		}))).Feature()
}

func allows() types.Feature {
	return features.New("vanilla, chocolate and strawberry are accepted").
		Assess("alone and together", check.Assess(assess(func(v visit) {
			v.try(choose(creates, true), "allowed", admission.DeniedByWebhook)
			v.createIcecream("allowed-stored", "chocolate")
		}))).
		Assess("in any order, with any topping", check.Assess(assess(func(v visit) {
			v.hold(property{count: order.OnMenus, draw: onMenu, expected: accepted, wrong: notAccepted})
		}))).
		Assess("soon", check.Assess(assess(func(v visit) {
			v.measure("admission by webhooks")
		}))).Feature()
}

// measured is the number of requests behind a measurement.
const measured = 100

// measure reports how long the creation of an icecream takes, as a dry run, which stores nothing.
func (v visit) measure(what string) {
	v.t.Helper()
	took := make([]float64, measured)
	for i := range took {
		answer := v.ask(createRequest(dry, "measured", sold[:1], []string{"cream"}))
		v.want("an icecream of vanilla is accepted each time", admission.Accepted,
			fmt.Sprintf("the icecream of vanilla number %d", i+1), answer)
		took[i] = 1000 * answer.Took.Seconds()
	}
	slices.Sort(took)
	v.Measure(what+", p50", took[measured*50/100-1], "ms")
	v.Measure(what+", p99", took[measured*99/100-1], "ms")
}

func names() types.Feature {
	return features.New("the message names the flavour and what there is").
		Assess("of one wrong flavour", check.Assess(assess(func(v visit) {
			answer := v.denied("names-new", "matcha")
			v.named("the message names the flavour that was denied, matcha, and those that there are: "+list(sold),
				answer, append([]string{"matcha"}, sold...))
		}))).
		Assess("of a change", check.Assess(assess(func(v visit) {
			v.createIcecream("names-vanilla", "vanilla")
			answer := v.ask(changeFlavour(dry, "names-vanilla", []string{"mud"}))
			if answer.Verdict != admission.DeniedByWebhook {
				return // another check reports the denial
			}
			v.named("the message about a change from vanilla to mud names mud, and those that there are: "+list(sold),
				answer, append([]string{"mud"}, sold...))
		}))).
		Assess("of any", check.Assess(assess(func(v visit) {
			expected, wrong := naming(func(want order.Answer) []string { return slices.Concat(legible(want), sold) })
			v.hold(property{count: order.UnsoldFlavours, draw: offMenu(1), expected: expected, wrong: wrong})
		}))).Feature()
}

func allAtOnce() types.Feature {
	return features.New("all wrong flavours are named at once").
		Assess("of three, one of which is right", check.Assess(assess(func(v visit) {
			wrong := []string{"pistachio", "matcha", "mud"}
			answer := v.denied("all-new", wrong[0], "vanilla", wrong[1], wrong[2])
			v.named("one message names each flavour that was denied: "+list(wrong), answer, wrong)
		}))).
		Assess("however many there are", check.Assess(assess(func(v visit) {
			expected, wrong := naming(legible)
			several := func(random *rand.Rand, number int) request { return offMenu(6)(random, order.UnsoldFlavours+number) }
			v.hold(property{count: 20, draw: several, expected: expected, wrong: wrong})
		}))).Feature()
}

// denied returns the answer to an order that must be denied.
func (v visit) denied(name string, flavour ...string) admission.Answer {
	v.t.Helper()
	what := "an icecream of " + list(flavour)
	answer := v.ask(createRequest(dry, name, flavour, []string{"cream"}))
	v.want(what+" is denied by a webhook", admission.DeniedByWebhook, what, answer)
	return answer
}

// named fails unless the answer's message contains all of these words.
func (v visit) named(expected string, answer admission.Answer, words []string) {
	v.t.Helper()
	if missing := lacks(answer.Message, words...); len(missing) > 0 {
		v.fail(expected, fmt.Sprintf("it does not name %s: %s", list(missing), answer.Message))
	}
}

func onUpdate() types.Feature {
	return features.New("a change of flavour is judged like an order").
		Assess("of an icecream of vanilla", check.Assess(assess(func(v visit) {
			v.createIcecream("changed-vanilla", "vanilla")
			v.try(changes, "changed", admission.DeniedByWebhook)
		}))).
		Assess("also when it is no dry run", check.Assess(assess(func(v visit) {
			v.want("a change from vanilla to matcha is denied by a webhook", admission.DeniedByWebhook,
				"a change from vanilla to matcha", v.ask(changeFlavour(persisted, "changed-vanilla", []string{"matcha"})))
		}))).
		Assess("whatever it is, and to whatever it changes", check.Assess(assess(func(v visit) {
			v.store(young)
			expected, wrong := v.verdict(admission.DeniedByWebhook)
			v.hold(property{count: order.Changes, draw: changing(young), expected: expected, wrong: wrong})
		}))).Feature()
}

func warns() types.Feature {
	return features.New("all three flavours in one get a warning").
		Assess("when it is created", check.Assess(assess(func(v visit) {
			what := "an icecream of " + list(sold)
			v.warned(what, v.ask(createRequest(dry, "warned", sold, []string{"cream"})), true)
			for _, input := range choose(creates, true) {
				if len(input.flavour) < len(sold) {
					v.warned(input.String(), v.ask(input.request("warned")), false)
				}
			}
		}))).
		Assess("when it is changed to that", check.Assess(assess(func(v visit) {
			v.createIcecream("warned", sold[0])
			if v.ask(changeFlavour(dry, "warned", []string{"matcha"})).Verdict == admission.Accepted {
				return // No change is validated at all, which another check reports.
			}
			v.warned("a change from vanilla to "+list(sold), v.ask(changeFlavour(dry, "warned", sold)), true)
			v.warned("a change from vanilla to chocolate", v.ask(changeFlavour(dry, "warned", sold[1:2])), false)
			existing := append(slices.Clone(young), unwise)
			v.store(existing)
			v.hold(property{
				what:     "changed",
				count:    order.Changes,
				draw:     changing(existing),
				expected: warning,
				wrong:    notWarned,
			})
		}))).
		Assess("in any order, with any topping", check.Assess(assess(func(v visit) {
			v.hold(property{count: order.OnMenus, draw: onMenu, expected: warning, wrong: notWarned})
		}))).Feature()
}

// warned fails unless the answer has a warning, or has none, as wanted.
func (v visit) warned(what string, answer admission.Answer, want bool) {
	v.t.Helper()
	expected := what + " is accepted, without a warning"
	if want {
		expected = what + " is accepted, with a warning"
	}
	v.want(expected, admission.Accepted, what, answer)
	switch {
	case want && len(answer.Warnings) == 0:
		v.fail(expected, what+": it was accepted without a warning")
	case !want && len(answer.Warnings) > 0:
		v.fail(expected, what+": the warning was "+strings.Join(answer.Warnings, "; "))
	}
}

// young holds icecreams that the webhooks have accepted.
var young = []order.Order{
	{Name: "young-1", Spec: order.Spec{Flavour: []string{"vanilla"}, Topping: []string{"cream"}}},
	{Name: "young-2", Spec: order.Spec{Flavour: []string{"chocolate", "strawberry"}, Topping: []string{"nuts", "cream"}}},
}

// unwise is an icecream with all three flavours.
var unwise = order.Order{Name: "young-3", Spec: order.Spec{
	Flavour: []string{"strawberry", "vanilla", "chocolate"}, Topping: []string{"cherry"},
}}

// warning returns the rest of a sentence about warnings.
func warning(_ request, want order.Answer) string {
	switch {
	case want.Warning:
		return "is accepted, with a warning"
	case want.Silent:
		return "is accepted, without a warning"
	}
	return ""
}

func notWarned(_ request, want order.Answer, got admission.Answer) string {
	switch {
	case got.Verdict != admission.Accepted:
		return got.String()
	case want.Warning && len(got.Warnings) == 0:
		return "it was accepted without a warning"
	case want.Silent && len(got.Warnings) > 0:
		return "the warning was " + strings.Join(got.Warnings, "; ")
	}
	return ""
}
