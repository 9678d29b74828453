// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/draw"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/order"
)

// method is how a request is sent.
type method string

const (
	post       method = ""                 // a create
	apply      method = "server-side"      // a create by server-side apply
	put        method = "put"              // the whole object, changed
	mergePatch method = "patch"            // a patch of what changes
	status     method = "status"           // of the status: the spec in it is ignored
	deletion   method = "deletion"         // a delete
	release    method = "finalizers"       // a patch that removes all finalizers
	dying      method = "patch of a dying" // a patch of what changes, of an icecream that is being deleted
)

// request is a drawn request: an order, or a change of an existing icecream.
type request struct {
	order.Order
	// old is the existing icecream. Nil: a new one is created.
	old    *order.Order
	method method
	wet    bool // it is not a dry run
}

// answer returns the model's answer to the request.
func (r request) answer() order.Answer {
	switch r.method {
	case status, deletion, release:
		return order.Answer{Spec: r.old.Spec}
	case dying: // it gets no defaults
		answer := order.Changed(r.old.Spec, r.Spec)
		answer.Spec = r.Spec
		return answer
	case put, mergePatch:
		return order.Changed(r.old.Spec, r.Spec)
	}
	return order.Ordered(r.Spec)
}

// sent counts the icecreams that were really created. Each has its own name.
var sent atomic.Int64

// admission returns the request as it is sent.
func (r request) admission() admission.Request {
	how := dry
	if r.wet {
		how = persisted
	}
	return func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
		icecreams := client.Resource(icecream.Resource)
		switch r.method {
		case apply:
			return icecreams.Apply(ctx, r.Name, r.Object(),
				metav1.ApplyOptions{FieldManager: "customer", Force: true, DryRun: how})
		case put:
			return replace(ctx, icecreams, r)
		case mergePatch, dying:
			return icecreams.Patch(ctx, r.old.Name, types.MergePatchType, r.patch(), metav1.PatchOptions{DryRun: how})
		case status:
			return icecreams.Patch(ctx, r.old.Name, types.MergePatchType, r.patch(), metav1.PatchOptions{DryRun: how}, "status")
		case release:
			return icecreams.Patch(ctx, r.old.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
				metav1.PatchOptions{DryRun: how})
		case deletion:
			return nil, icecreams.Delete(ctx, r.old.Name, metav1.DeleteOptions{DryRun: how})
		}
		object := r.Object()
		if r.wet {
			object.SetName(fmt.Sprintf("%s-%d", r.Name, sent.Add(1)))
		}
		return icecreams.Create(ctx, object, metav1.CreateOptions{DryRun: how})
	}
}

// replace reads an icecream and writes it with the new spec. It retries after a conflict, because the operator writes
// the status.
func replace(ctx context.Context, icecreams dynamic.ResourceInterface, r request) (*unstructured.Unstructured, error) {
	for {
		object, err := icecreams.Get(ctx, r.old.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		wanted := r.Object()
		object.SetLabels(wanted.GetLabels())
		object.SetAnnotations(wanted.GetAnnotations())
		object.SetFinalizers(wanted.GetFinalizers())
		delete(object.Object, "spec")
		if spec, exists := wanted.Object["spec"]; exists {
			object.Object["spec"] = spec
		}
		updated, err := icecreams.Update(ctx, object, metav1.UpdateOptions{DryRun: dry})
		if !apierrors.IsConflict(err) {
			return updated, err
		}
	}
}

// patch returns the change as a merge patch.
func (r request) patch() []byte {
	spec := map[string]any{"flavour": nil, "topping": nil}
	maps.Copy(spec, r.Spec.Object())
	patch := map[string]any{"spec": spec}
	if r.method == status {
		patch["status"] = map[string]any{"soldOut": true, "toppingsCount": 7}
	}
	metadata := map[string]any{}
	if len(r.Labels) > 0 {
		metadata["labels"] = r.Labels
	}
	if len(r.Annotations) > 0 {
		metadata["annotations"] = r.Annotations
	}
	if len(r.Finalizers) > 0 {
		metadata["finalizers"] = r.Finalizers
	}
	if len(metadata) > 0 {
		patch["metadata"] = metadata
	}
	written, err := json.Marshal(patch)
	if err != nil {
		panic(err) // texts can always be encoded as JSON
	}
	return written
}

// smaller returns simpler requests of the same kind.
func (r request) smaller() (smaller []request) {
	simpler := func(change func(*request)) {
		less := r
		change(&less)
		smaller = append(smaller, less)
	}
	if r.wet {
		simpler(func(r *request) { r.wet = false })
	}
	switch r.method {
	case apply:
		simpler(func(r *request) { r.method = post })
	case put:
		simpler(func(r *request) { r.method = mergePatch })
	case deletion, release:
		return smaller // nothing can be left out
	}
	if r.old == nil && r.Name != drawnName {
		simpler(func(r *request) { r.Name, r.Generated = drawnName, false })
	}
	for _, less := range r.Plainer() {
		simpler(func(r *request) { r.Order = less })
	}
	for _, spec := range r.Spec.Smaller() {
		simpler(func(r *request) { r.Spec = spec })
	}
	return smaller
}

// String returns the request as the beginning of a sentence.
func (r request) String() string {
	if r.old == nil {
		return "an icecream " + r.Spec.Words()
	}
	old := fmt.Sprintf("%s, an icecream %s", r.old.Name, r.old.Spec.Words())
	switch r.method {
	case status:
		return "a write of the status of " + old
	case deletion:
		return "deleting " + old
	case release:
		return "removing the finalizers of " + old
	case dying:
		old += " that is being deleted"
	}
	if r.Spec.Equal(r.old.Spec) {
		return "a change of the metadata of " + old
	}
	return fmt.Sprintf("a change of %s, to one %s", old, r.Spec.Words())
}

// script returns the request for a shell, as a dry run.
func (r request) script() []string {
	if r.old == nil {
		arguments := "--dry-run=server"
		if r.method == apply {
			arguments += " --server-side"
		}
		return r.Script(arguments)
	}
	lines := []string{fmt.Sprintf("there is %s: %s", r.old.Name, r.old.Spec)}
	switch r.method {
	case deletion:
		return append(lines, "kubectl delete icecream "+r.old.Name+" --dry-run=server")
	case release:
		return append(lines,
			fmt.Sprintf(`kubectl patch icecream %s --dry-run=server --type=merge -p '{"metadata":{"finalizers":null}}'`,
				r.old.Name))
	case status:
		return append(lines,
			fmt.Sprintf("kubectl patch icecream %s --subresource=status --dry-run=server --type=merge -p '%s'",
				r.old.Name, shell(r.patch())))
	}
	return append(lines,
		fmt.Sprintf("kubectl patch icecream %s --dry-run=server --type=merge -p '%s'", r.old.Name, shell(r.patch())))
}

// shell escapes a text for single quotes in a shell.
func shell(text []byte) string { return strings.ReplaceAll(string(text), "'", `'\''`) }

// property is a sentence about all requests of a kind.
type property struct {
	// what distinguishes it from others of the same check.
	what  string
	count int
	draw  func(random *rand.Rand, number int) request
	// expected returns what happens to a request, as the rest of a sentence: "is accepted". It is empty if the property
	// does not cover the request. The request may have been shrunk.
	expected func(request, order.Answer) string
	// wrong describes what is wrong with an answer. Empty: nothing is.
	wrong func(request, order.Answer, admission.Answer) string
	// then, if set, is a further check of requests whose answer is correct. An error is internal.
	then func(context.Context, request, admission.Answer) (wrong string, err error)
}

// hold fails unless the property holds for all requests that the run's seed draws.
func (v visit) hold(p property) {
	v.t.Helper()
	search := draw.Property[request]{
		Name: v.ID + p.what, Count: p.count, Draw: p.draw, Smaller: request.smaller,
		Try: func(ctx context.Context, r request) (string, error) {
			want := r.answer()
			if p.expected(r, want) == "" {
				return "", nil
			}
			got, err := v.patiently(ctx, askPatience, r.admission())
			if err != nil {
				return "", err
			}
			if wrong := p.wrong(r, want, got); wrong != "" || p.then == nil {
				return wrong, nil
			}
			return p.then(ctx, r, got)
		},
	}
	found, err := search.Searches(v.ctx, v.Seed, v.Stories)
	v.OK(v.t, "trying requests that are drawn at random", err)
	if found == nil {
		return
	}
	r := found.Case
	expected, observed := fmt.Sprintf("%s %s", r, p.expected(r, r.answer())), fmt.Sprintf("%s: %s", r, found.Observed)
	evidence := r.script()
	if v.judge != "" {
		v.Fail(v.t, expected, observed, append(evidence, v.judge)...)
	}
	webhooks, err := v.admission.Webhooks(v.ctx, icecream.Resource.GroupResource())
	v.OK(v.t, "reading what is registered", err)
	v.Fail(v.t, expected, observed, append(evidence, webhooks.Lines(observed)...)...)
}

// verdict returns functions for the expected answer to a request, and for what is wrong with an answer. denied is the
// verdict for denied requests.
func (v visit) verdict(denied admission.Verdict) (
	func(request, order.Answer) string, func(request, order.Answer, admission.Answer) string,
) {
	expected := func(_ request, want order.Answer) string {
		if want.Denied() {
			return fmt.Sprintf("is %s, because of %s", denied, list(want.Refused))
		}
		return "is accepted"
	}
	return expected, func(_ request, want order.Answer, got admission.Answer) string {
		verdict := admission.Accepted
		if want.Denied() {
			verdict = denied
		}
		if got.Verdict == verdict || tooMuch(want, got) {
			return ""
		}
		return got.String()
	}
}

// tooMuch reports whether an icecream with all three flavours was denied. The checks of accepted orders and of warnings
// report that mistake.
func tooMuch(want order.Answer, got admission.Answer) bool {
	return want.Warning && got.Verdict == admission.DeniedByWebhook
}

// drawnName is the name of icecreams whose name does not matter.
const drawnName = "drawn"

// drawOrder draws the order of an icecream with this spec: by one of two methods, and with or without labels and
// similar fields.
func drawOrder(random *rand.Rand, spec order.Spec) request {
	r := request{Order: order.Order{Spec: spec}}
	r.Call(random.IntN(100))
	r.Describe(random)
	if !r.Generated && random.IntN(3) == 0 {
		r.method = apply
	}
	return r
}

// onMenu draws a complete order with flavours of the menu.
func onMenu(random *rand.Rand, number int) request {
	return drawOrder(random, order.OnMenu(random, number))
}

// offMenu draws an order with at most so many flavours that are not sold. Every other one is not a dry run: it must not
// be stored in any case.
func offMenu(wrong int) func(*rand.Rand, int) request {
	return func(random *rand.Rand, number int) request {
		r := drawOrder(random, order.OffMenu(random, number, wrong))
		if r.method == post && !r.Generated {
			r.wet = number%2 == 0
			r.Name = drawnName // the name gets a number
		}
		return r
	}
}

// denied returns the rest of a sentence, for requests that the model denies.
func denied(_ request, want order.Answer) string {
	if !want.Denied() {
		return ""
	}
	return "is denied by a webhook, because of " + list(want.Refused)
}

// accepted returns the rest of a sentence, for requests that the model accepts.
func accepted(_ request, want order.Answer) string {
	if want.Denied() {
		return ""
	}
	return "is accepted"
}

func notDenied(_ request, _ order.Answer, got admission.Answer) string {
	if got.Verdict == admission.DeniedByWebhook {
		return ""
	}
	return got.String()
}

func notAccepted(_ request, _ order.Answer, got admission.Answer) string {
	if got.Verdict == admission.Accepted {
		return ""
	}
	return got.String()
}

// naming requires that the message contains certain words.
func naming(words func(order.Answer) []string) (
	func(request, order.Answer) string, func(request, order.Answer, admission.Answer) string,
) {
	expected := func(_ request, want order.Answer) string {
		if !want.Denied() {
			return ""
		}
		return "is denied, with a message that names " + list(words(want))
	}
	return expected, func(_ request, want order.Answer, got admission.Answer) string {
		if got.Verdict != admission.DeniedByWebhook {
			return got.String()
		}
		if missing := lacks(got.Message, words(want)...); len(missing) > 0 {
			return fmt.Sprintf("it does not name %s: %s", list(missing), got.Message)
		}
		return ""
	}
}

// legible returns the refused flavours that a message can only write unchanged. Others may be quoted in different
// forms.
func legible(want order.Answer) (flavours []string) {
	for _, flavour := range want.Refused {
		if quoted := fmt.Sprintf("%q", flavour); quoted == `"`+flavour+`"` {
			flavours = append(flavours, flavour)
		}
	}
	return flavours
}

// changing draws a change of one of these existing icecreams. Each of them is changed in each form at least once.
func changing(existing []order.Order) func(*rand.Rand, int) request {
	return func(random *rand.Rand, number int) request {
		round := number / order.ChangeKinds
		old := &existing[round%len(existing)]
		r := request{
			old:    old,
			method: mergePatch,
			Order:  order.Order{Name: old.Name, Spec: order.Change(random, number, old.Spec)},
		}
		r.Describe(random)
		switch chosen := random.IntN(8); {
		case chosen < 3:
			r.method = put
		case round < len(existing):
		case chosen < 5:
			r.method = status
		case chosen < 6:
			r.method, r.Order = deletion, *old
		}
		return r
	}
}

// changingDying is changing for icecreams that are being deleted. Kubernetes refuses to add a finalizer to one.
func changingDying(existing []order.Order) func(*rand.Rand, int) request {
	return func(random *rand.Rand, number int) request {
		r := changing(existing)(random, number)
		r.Finalizers = nil
		switch r.method {
		case put, mergePatch:
			r.method = dying
		case deletion:
			r.method = release
		}
		return r
	}
}

// stays requires that the whole object is as it was sent, except for defaults. Complete specs get none.
func stays(r request, want order.Answer, got admission.Answer) string {
	if tooMuch(want, got) {
		return ""
	}
	if got.Verdict != admission.Accepted {
		return got.String()
	}
	wanted := r.Order
	wanted.Spec = want.Spec
	object := wanted.Object()
	object.SetName(got.Object.GetName())
	object.SetGenerateName("")
	for _, key := range []string{"labels", "annotations", "finalizers"} {
		was, _, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", key)
		is, _, _ := unstructured.NestedFieldNoCopy(got.Object.Object, "metadata", key)
		if !reflect.DeepEqual(was, is) {
			return fmt.Sprintf("its %s are %s, and were %s", key, written(is), written(was))
		}
	}
	if was, is := object.Object["spec"], got.Object.Object["spec"]; !reflect.DeepEqual(was, is) {
		return "it becomes " + written(is)
	}
	return ""
}

func written(value any) string {
	if value == nil {
		return "none"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
