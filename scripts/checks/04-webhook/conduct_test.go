// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webhook_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/order"
	"lva.io/operators/scripts/grading/audit"
)

func dryRun() types.Feature {
	return features.New("a dry run changes nothing").
		Assess("nothing is written because of it", check.Assess(assess(func(v visit) {
			v.createIcecream("rehearsed", "strawberry")
			v.Settle(v.ctx, v.t)
			began := v.Audit.Now()
			// Other checks judge the answers. They use dry runs, too.
			for _, input := range creates {
				v.ask(input.request("rehearsal"))
			}
			v.ask(changeFlavour(dry, "rehearsed", []string{"vanilla"}))
			v.ask(remove(dry, "rehearsed"))
			v.Settle(v.ctx, v.t)
			// The operator's writes for the icecream that really exists may come late.
			writes := v.Audit.Since(began, v.OperatorRequests().And(audit.Writes, func(e audit.Event) bool {
				return e.Name != "rehearsed"
			}))
			if len(writes) > 0 {
				var lines []string
				for _, write := range writes[:min(len(writes), 8)] {
					lines = append(lines, write.String())
				}
				v.Fail(v.t, "the operator writes nothing because of a dry run",
					fmt.Sprintf("it sent %d writes while there were only dry runs", len(writes)), lines...)
			}
		}))).
		Assess("and that is what the webhooks promise", check.Assess(assess(func(v visit) {
			webhooks, err := v.admission.Webhooks(v.ctx, icecream.Resource.GroupResource())
			v.OK(v.t, "reading what is registered", err)
			for name, promised := range webhooks.SideEffects() {
				if promised != admissionv1.SideEffectClassNone {
					v.fail("the webhooks promise that being asked changes nothing: sideEffects None",
						fmt.Sprintf("the webhook %s says sideEffects %s", name, promised))
				}
			}
		}))).Feature()
}

// bystanders are resources that are unrelated to icecreams.
var bystanders = []struct {
	kind     schema.GroupVersionKind
	resource string
}{
	{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "configmaps"},
	{schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, "serviceaccounts"},
	{schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, "leases"},
	{schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, "roles"},
}

func failsClosed() types.Feature {
	var withdrawn admission.Webhooks
	return features.New("it fails closed").
		Assess("without the operator no icecream gets in", check.Assess(assess(func(v visit) {
			v.createIcecream("closed", "chocolate")
			v.store([]order.Order{storedWhileStopped})
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
			v.mustRefuse("creating an icecream of matcha",
				createRequest(persisted, "closed-matcha", []string{"matcha"}, []string{"cream"}))
			v.mustRefuse("creating an icecream of vanilla",
				createRequest(persisted, "closed-vanilla", []string{"vanilla"}, []string{"cream"}))
			v.mustRefuse("a change from chocolate to matcha", changeFlavour(persisted, "closed", []string{"matcha"}))
		}))).
		Assess("nothing else is harmed", check.Assess(assess(func(v visit) {
			for _, other := range bystanders {
				v.unharmed("creating a "+other.kind.Kind,
					func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
						object := &unstructured.Unstructured{}
						object.SetGroupVersionKind(other.kind)
						object.SetName("bystander")
						return client.Resource(other.kind.GroupVersion().WithResource(other.resource)).Namespace(metav1.NamespaceDefault).
							Create(ctx, object, metav1.CreateOptions{DryRun: dry})
					})
			}
			v.unharmed("reading an icecream",
				func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
					return client.Resource(icecream.Resource).Get(ctx, "closed", metav1.GetOptions{})
				})
			v.unharmed("writing an icecream's status",
				change(dry, "closed", `{"status":{"soldOut":false,"toppingsCount":1}}`, "status"))
			v.unharmed("deleting an icecream", remove(persisted, "closed"))
			webhooks, err := v.admission.Webhooks(v.ctx, icecream.Resource.GroupResource())
			v.OK(v.t, "reading what is registered", err)
			if wide := webhooks.Wide(); len(wide) > 0 {
				v.fail("while the operator is down, kinds that it does not know can be created: "+
					"its webhooks are asked about icecreams only",
					fmt.Sprintf("a rule of %s has a *", english.WordSeries(wide, "and")))
			}
		}))).
		Assess("each of the webhooks alone", check.Assess(assess(func(v visit) {
			v.oneKindAlone(&withdrawn)
		}))).
		Assess("when it is back, all is as before", check.Assess(assess(func(v visit) {
			v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
			const what = "an icecream of vanilla"
			v.want(what+" is accepted when the operator is back", admission.Accepted, what,
				v.askFor(returnPatience, createRequest(dry, "reopened", []string{"vanilla"}, []string{"cream"})))
			v.denied("reopened", "matcha")
		}))).
		Assess("the validating one judges by itself", check.Assess(assess(func(v visit) {
			webhooks, err := v.admission.Webhooks(v.ctx, icecream.Resource.GroupResource())
			v.OK(v.t, "reading what is registered", err)
			withdrawn = webhooks
			if kept := (admission.Webhooks{Validating: webhooks.Validating}); kept.Asks(
				icecream.Resource.GroupResource(), admissionv1.Create) {
				v.keepOnly(webhooks, kept)
				const what = "an icecream of matcha"
				v.want(what+" is denied by the validating webhooks alone", admission.DeniedByWebhook, what,
					v.ask(createRequest(dry, "alone", []string{"matcha"}, []string{"cream"})))
				v.OK(v.t, "putting the webhooks back", v.admission.Register(v.ctx, webhooks))
			}
		}))).
		Teardown(restore(&withdrawn)).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			// Later checks need the operator, whatever the result of this one is.
			return c.Operator.Start(ctx)
		})).Feature()
}

// oneKindAlone removes the defaulting webhooks, and then the validating ones instead. As long as no server answers,
// each kind must block the requests that it is responsible for, without relying on the other. withdrawn holds all
// webhooks, in case this does not finish.
func (v visit) oneKindAlone(withdrawn *admission.Webhooks) {
	v.t.Helper()
	webhooks, err := v.admission.Webhooks(v.ctx, icecream.Resource.GroupResource())
	v.OK(v.t, "reading what is registered", err)
	*withdrawn = webhooks
	for _, one := range []struct {
		what     string
		kept     admission.Webhooks
		requests []request
	}{
		{"validating", admission.Webhooks{Validating: webhooks.Validating}, []request{
			{Order: order.Order{Name: "closed-new", Spec: order.Spec{Flavour: []string{"matcha"}, Topping: []string{"cream"}}}},
			{Order: order.Order{Name: storedWhileStopped.Name, Spec: order.Spec{
				Flavour: []string{"matcha"}, Topping: []string{"cream"},
			}}, old: &storedWhileStopped, method: mergePatch},
		}},
		{"mutating", admission.Webhooks{Mutating: webhooks.Mutating}, []request{
			{Order: order.Order{Name: "closed-new", Spec: order.Spec{Flavour: []string{"vanilla"}}}},
			{Order: order.Order{Name: storedWhileStopped.Name, Spec: order.Spec{
				Flavour: []string{"chocolate"},
			}}, old: &storedWhileStopped, method: mergePatch},
		}},
	} {
		if len(one.kept.Mutating)+len(one.kept.Validating) == 0 {
			continue
		}
		v.keepOnly(webhooks, one.kept)
		for _, r := range one.requests {
			operation := admissionv1.Create
			if r.old != nil {
				operation = admissionv1.Update
			}
			if !one.kept.Asks(icecream.Resource.GroupResource(), operation) {
				continue // another check reports whether a webhook is called for it
			}
			answer, err := v.admission.Ask(v.ctx, r.admission())
			v.OK(v.t, "sending a request to the API server", err)
			if answer.Verdict == admission.Accepted {
				v.fail(fmt.Sprintf("while the operator is stopped, the %s webhooks let nothing by which they have to see to, "+
					"also without the others", one.what),
					fmt.Sprintf("the %s webhooks alone: %s: it was accepted", one.what, r))
			}
		}
	}
	v.OK(v.t, "putting the webhooks back", v.admission.Register(v.ctx, webhooks))
}

// keepOnly removes all webhooks except those of one kind.
func (v visit) keepOnly(all, kept admission.Webhooks) {
	v.t.Helper()
	v.OK(v.t, "taking the webhooks away", v.admission.Withdraw(v.ctx, all))
	v.OK(v.t, "putting one kind of the webhooks back", v.admission.Register(v.ctx, kept))
}

// storedWhileStopped is an icecream that exists while the operator does not.
var storedWhileStopped = order.Order{
	Name: "closed-alone",
	Spec: order.Spec{Flavour: []string{"chocolate"}, Topping: []string{"cream"}},
}

// returnPatience is how long an operator may take from its start until its webhooks answer.
const returnPatience = 20 * time.Second

// mustRefuse fails unless the API server refuses a request, which it must do as long as no server answers.
func (v visit) mustRefuse(what string, request admission.Request) {
	v.t.Helper()
	answer, err := v.admission.Ask(v.ctx, request)
	v.OK(v.t, "sending a request to the API server", err)
	if answer.Verdict == admission.Accepted {
		v.fail("while the operator is stopped, no icecream is created and no flavour changed", what+": it was accepted")
	}
}

// unharmed fails if a request is refused that is unrelated to the webhooks.
func (v visit) unharmed(what string, request admission.Request) {
	v.t.Helper()
	answer, err := v.admission.Ask(v.ctx, request)
	v.OK(v.t, "sending a request to the API server", err)
	v.want("while the operator is stopped, what is no create or update of an icecream works as ever",
		admission.Accepted, what, answer)
}
