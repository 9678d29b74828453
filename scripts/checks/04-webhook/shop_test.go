// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/order"
	"lva.io/operators/scripts/grading/audit"
)

// sold are the flavours on the menu.
var sold = order.Menu

// visit is a check in the shop. Its methods are the vocabulary of this lab's checks.
type visit struct {
	*check.Check
	clients
	ctx context.Context
	t   *testing.T

	began audit.Mark
	// judge names the component that decides while the webhooks are removed. Empty: the webhooks decide.
	judge string
}

// assess makes a step of a feature from a function that uses the shop.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		step(visit{Check: c, clients: clientsOf(ctx), ctx: ctx, t: t, began: c.Audit.Now()})
	}
}

// These constants limit how long, and how often at least, a request is repeated while a webhook gives no answer. The
// operator may have been started a moment ago, and on a busy machine a single answer may be late.
const (
	askPatience = 3 * time.Second
	askAttempts = 2
	askInterval = 20 * time.Millisecond
)

// ask sends a request, and repeats it as long as a webhook does not answer.
func (v visit) ask(request admission.Request) admission.Answer {
	v.t.Helper()
	return v.askFor(askPatience, request)
}

func (v visit) askFor(patience time.Duration, request admission.Request) admission.Answer {
	v.t.Helper()
	answer, err := v.patiently(v.ctx, patience, request)
	v.OK(v.t, "sending a request to the API server", err)
	return answer
}

// patiently is askFor for several goroutines.
func (v visit) patiently(
	ctx context.Context, patience time.Duration, request admission.Request,
) (admission.Answer, error) {
	began := time.Now()
	for attempt := 1; ; attempt++ {
		answer, err := v.admission.Ask(ctx, request)
		if err != nil || answer.Verdict != admission.Unanswered || attempt >= askAttempts && time.Since(began) >= patience {
			return answer, err
		}
		select {
		case <-time.After(askInterval):
		case <-ctx.Done():
			return answer, fmt.Errorf("waiting for a webhook to answer: %w", context.Cause(ctx))
		}
	}
}

// run is the dryRun option of a request.
type run []string

var (
	dry       = run{metav1.DryRunAll}
	persisted run
)

// createRequest returns a request for a new icecream. Nil fields are left out.
func createRequest(mode run, name string, flavour, topping []string) admission.Request {
	object := icecream.New(name, flavour, topping)
	if flavour == nil {
		unstructured.RemoveNestedField(object.Object, "spec", "flavour")
	}
	return create(mode, object)
}

// create returns a request that creates this object.
func create(mode run, object *unstructured.Unstructured) admission.Request {
	return func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
		return client.Resource(icecream.Resource).Create(ctx, object, metav1.CreateOptions{DryRun: mode})
	}
}

// change returns a request that changes an icecream or a subresource by a JSON merge patch.
func change(mode run, name, patch string, subresources ...string) admission.Request {
	return func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
		return client.Resource(icecream.Resource).Patch(ctx, name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{DryRun: mode}, subresources...)
	}
}

// changeFlavour returns a request that changes the flavours.
func changeFlavour(mode run, name string, flavour []string) admission.Request {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"flavour": flavour}})
	if err != nil {
		panic(err) // strings can always be encoded as JSON
	}
	return change(mode, name, string(patch))
}

// remove returns a request that deletes an icecream.
func remove(mode run, name string) admission.Request {
	return func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
		return nil, client.Resource(icecream.Resource).Delete(ctx, name, metav1.DeleteOptions{DryRun: mode})
	}
}

// createIcecream creates an icecream with a topping, of the given flavours.
func (v visit) createIcecream(name string, flavour ...string) {
	v.t.Helper()
	what := "an icecream of " + list(flavour)
	v.want(what+" is accepted", admission.Accepted, what, v.ask(
		func(ctx context.Context, _ dynamic.Interface) (*unstructured.Unstructured, error) {
			_, err := v.shop.Create(ctx, name, flavour, "cream") // Create measures the lag
			return nil, err
		}))
}

// store creates icecreams that later requests change.
func (v visit) store(orders []order.Order) {
	v.t.Helper()
	for _, order := range orders {
		what := "an icecream " + order.Spec.Words()
		v.want(what+" is accepted", admission.Accepted, what, v.ask(
			func(ctx context.Context, _ dynamic.Interface) (*unstructured.Unstructured, error) {
				return v.shop.CreateObject(ctx, order.Object())
			}))
	}
}

// want fails unless the answer is as expected. asked begins the sentence of the observation.
func (v visit) want(expected string, verdict admission.Verdict, asked string, answer admission.Answer) {
	v.t.Helper()
	if answer.Verdict != verdict {
		v.fail(expected, fmt.Sprintf("%s: %s", asked, answer))
	}
}

// fail ends the check. Its evidence is our requests, and the webhooks that were called for them.
func (v visit) fail(expected, observed string) {
	v.t.Helper()
	evidence := v.asked()
	if v.judge != "" {
		v.Fail(v.t, expected, observed, append(evidence, v.judge)...)
	}
	webhooks, err := v.admission.Webhooks(v.ctx, icecream.Resource.GroupResource())
	v.OK(v.t, "reading what is registered", err)
	evidence = append(evidence, webhooks.Lines(observed)...)
	if len(webhooks.Mutating) == 0 {
		evidence = append(evidence, "no mutating webhook is registered for icecreams")
	}
	if len(webhooks.Validating) == 0 {
		evidence = append(evidence, "no validating webhook is registered for icecreams")
	}
	v.Fail(v.t, expected, observed, evidence...)
}

// asked returns our last requests in this step, with their contents.
func (v visit) asked() (lines []string) {
	const last, longest = 2, 150
	resource := icecream.Resource.GroupResource()
	byOperator := v.ByOperator()
	requests := v.Audit.Since(v.began,
		audit.On(resource.Group, resource.Resource).And(audit.Writes, func(e audit.Event) bool {
			return !byOperator(e)
		}))
	for _, request := range requests[max(0, len(requests)-last):] {
		line := request.String()
		body := request.Request
		var object struct {
			Spec json.RawMessage `json:"spec"`
		}
		if request.Verb == "create" && json.Unmarshal(body, &object) == nil {
			body = object.Spec
		}
		if len(body) > 0 && len(body) < longest && request.Verb != "delete" {
			line += ", asked for " + string(body)
		}
		lines = append(lines, line)
	}
	return lines
}

// lacks returns the words that a text does not contain.
func lacks(text string, words ...string) (missing []string) {
	for _, word := range words {
		if !strings.Contains(text, word) {
			missing = append(missing, word)
		}
	}
	return missing
}

// list joins words for a sentence: "matcha, mud and pistachio".
func list(words []string) string { return english.WordSeries(words, "and") }

// flavourOf and toppingOf read fields of an object.
func flavourOf(object *unstructured.Unstructured) []string { return stringsOf(object, "flavour") }

func toppingOf(object *unstructured.Unstructured) []string { return stringsOf(object, "topping") }

func stringsOf(object *unstructured.Unstructured, field string) []string {
	values, _, _ := unstructured.NestedStringSlice(object.Object, "spec", field)
	return values
}

// wantSpec fails unless the answer has exactly these flavours and toppings. Nil allows any.
func (v visit) wantSpec(expected, asked string, answer admission.Answer, flavour, topping []string) {
	v.t.Helper()
	v.want(expected, admission.Accepted, asked, answer)
	if got := flavourOf(answer.Object); flavour != nil && !slices.Equal(got, flavour) {
		v.fail(expected, fmt.Sprintf("%s: it has the flavours [%s]", asked, strings.Join(got, ", ")))
	}
	if got := toppingOf(answer.Object); topping != nil && !slices.Equal(got, topping) {
		v.fail(expected, fmt.Sprintf("%s: it has the toppings [%s]", asked, strings.Join(got, ", ")))
	}
}
