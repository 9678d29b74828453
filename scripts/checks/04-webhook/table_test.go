// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"fmt"

	"lva.io/operators/scripts/checks/admission"
)

// input is a request that webhooks and policy must answer in the same way.
type input struct {
	// target identifies the icecream to change by its flavour. Empty: a new one is created.
	target string
	// flavour holds the flavours of the new icecream, or the new flavours of an existing one. Nil leaves the flavours of
	// an existing icecream unchanged.
	flavour []string
	// patch is any other change, and what describes it.
	what, patch string
	// refused holds the flavours for which the request is denied. If there are none, it is accepted.
	refused []string
}

// This is the only table of inputs. Flavours that are similar to those of the shop reveal a comparison of parts of
// words. One wrong flavour among correct ones occurs in each position.
var (
	creates = []input{
		{flavour: []string{"vanilla"}},
		{flavour: []string{"chocolate"}},
		{flavour: []string{"strawberry"}},
		{flavour: []string{"strawberry", "vanilla"}},
		{flavour: []string{"chocolate", "strawberry", "vanilla"}},
		{flavour: []string{"matcha"}, refused: []string{"matcha"}},
		{flavour: []string{"vanilla", "matcha"}, refused: []string{"matcha"}},
		{flavour: []string{"matcha", "vanilla"}, refused: []string{"matcha"}},
		{flavour: []string{"vanilla", "chocolate", "strawberry", "matcha"}, refused: []string{"matcha"}},
		{flavour: []string{"matcha", "mud", "pistachio"}, refused: []string{"matcha", "mud", "pistachio"}},
		{flavour: []string{"Vanilla"}, refused: []string{"Vanilla"}},
		{flavour: []string{"chocolate chip"}, refused: []string{"chocolate chip"}},
		{flavour: []string{"straw"}, refused: []string{"straw"}},
	}
	changes = []input{
		{target: "vanilla", flavour: []string{"chocolate"}},
		{target: "vanilla", flavour: []string{"vanilla", "strawberry"}},
		{target: "vanilla", flavour: []string{"matcha"}, refused: []string{"matcha"}},
		{target: "vanilla", flavour: []string{"vanilla", "mud"}, refused: []string{"mud"}},
		{target: "vanilla", flavour: []string{"Vanilla"}, refused: []string{"Vanilla"}},
		{target: "vanilla", what: "a label", patch: `{"metadata":{"labels":{"table":"4"}}}`},
		{target: "vanilla", what: "the topping", patch: `{"spec":{"topping":["nuts"]}}`},
	}
	// Matcha was once sold.
	oldChanges = []input{
		{target: "matcha", what: "a label", patch: `{"metadata":{"labels":{"table":"4"}}}`},
		{target: "matcha", what: "a finalizer", patch: `{"metadata":{"finalizers":["example.com/keep"]}}`},
		{target: "matcha", what: "the topping", patch: `{"spec":{"topping":["nuts"]}}`},
		{target: "matcha", flavour: []string{"vanilla"}},
		{target: "matcha", flavour: []string{"mud"}, refused: []string{"mud"}},
	}
)

// String names the input as a subject: "an icecream of vanilla and matcha".
func (i input) String() string {
	switch {
	case i.target == "":
		return "an icecream of " + list(i.flavour)
	case i.flavour == nil:
		return fmt.Sprintf("a change of %s of an icecream of %s", i.what, i.target)
	default:
		return fmt.Sprintf("a change from %s to %s", i.target, list(i.flavour))
	}
}

// request returns the input as a dry run. The icecream to change is called prefix-flavour.
func (i input) request(prefix string) admission.Request {
	switch {
	case i.target == "":
		return createRequest(dry, prefix+"-new", i.flavour, []string{"cream"})
	case i.flavour == nil:
		return change(dry, prefix+"-"+i.target, i.patch)
	default:
		return changeFlavour(dry, prefix+"-"+i.target, i.flavour)
	}
}

// try sends the inputs that must be accepted, or the others, and returns the answers. denied is the verdict for denied
// inputs.
func (v visit) try(inputs []input, prefix string, denied admission.Verdict) (answers []admission.Answer) {
	v.t.Helper()
	for _, input := range inputs {
		answer := v.ask(input.request(prefix))
		answers = append(answers, answer)
		if len(input.refused) == 0 {
			v.want(fmt.Sprintf("%s is accepted", input), admission.Accepted, input.String(), answer)
		} else {
			v.want(fmt.Sprintf("%s is %s, because of %s", input, denied, list(input.refused)), denied, input.String(), answer)
		}
	}
	return answers
}

// choose returns the inputs that are accepted, or the others.
func choose(inputs []input, accepted bool) (chosen []input) {
	for _, input := range inputs {
		if accepted == (len(input.refused) == 0) {
			chosen = append(chosen, input)
		}
	}
	return chosen
}
