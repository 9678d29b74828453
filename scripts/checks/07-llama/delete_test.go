// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func remove() types.Feature {
	return features.New("delete").
		Assess("one, with preconditions", check.Assess(step(func(v visit) {
			object := v.create(ns, newLlama("leaving", 100, 1.5))
			for what, preconditions := range map[string]string{
				"uid":                         `{"uid":"` + otherUID + `"}`,
				"resourceVersion":             `{"resourceVersion":"` + otherVersion + `"}`,
				"resourceVersion and its uid": `{"uid":"` + uidOf(object) + `","resourceVersion":"` + otherVersion + `"}`,
				"uid and its resourceVersion": `{"uid":"` + otherUID + `","resourceVersion":"` + versionOf(object) + `"}`,
			} {
				body := `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":` + preconditions + `}`
				a := v.want(v.send(v.ctx, http.MethodDelete, llama(ns, "leaving"), body),
					"a delete with another "+what+" in its preconditions answers 409", http.StatusConflict)
				if !a.isStatus("Conflict") {
					v.fail(a, "the answer is a Status with the reason Conflict", "the answer is "+a.summary())
				}
			}
			body := fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":%q,"resourceVersion":%q}}`,
				uidOf(object), versionOf(object))
			v.want(v.send(v.ctx, http.MethodDelete, llama(ns, "leaving"), body), "a delete whose precondition holds answers 200",
				http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(ns, "leaving"), nil), "a llama that was deleted is gone: 404",
				http.StatusNotFound)
			v.about(v.want(v.send(v.ctx, http.MethodDelete, llama(ns, "leaving"), nil),
				"a second delete answers 404", http.StatusNotFound), "llamas", "leaving")
			back := v.create(ns, newLlama("leaving", 100, 1.5))
			if uidOf(back) == uidOf(object) {
				v.Fail(v.t, "a llama that is created again under the same name is another one, with another uid",
					"it has the same uid "+uidOf(back))
			}
		}))).
		Assess("one that a finalizer holds", check.Assess(step(func(v visit) {
			held := newLlama("held", 100, 1.5)
			held["metadata"].(map[string]any)["finalizers"] = []any{"labs.lva.io/holds"}
			created := v.want(v.send(v.ctx, http.MethodPost, llamas(ns), held),
				"a create with finalizers answers 201, or 422 where none are accepted",
				http.StatusCreated, http.StatusUnprocessableEntity)
			if created.code == http.StatusUnprocessableEntity || numberOf(created.object(), "metadata", "finalizers") == nil {
				return // the server does not accept finalizers
			}
			release := func(ctx context.Context) answer {
				return v.send(ctx, http.MethodPatch, llama(ns, "held"), `{"metadata":{"finalizers":null}}`,
					"Content-Type", string(apitypes.MergePatchType))
			}
			// A llama that is still held would block every deletion of its namespace's content.
			v.t.Cleanup(func() { release(context.WithoutCancel(v.ctx)) })
			a := v.want(v.send(v.ctx, http.MethodDelete, llama(ns, "held"), nil),
				"a delete of a llama with a finalizer answers 200 or 202", http.StatusOK, http.StatusAccepted)
			stays := v.want(v.send(v.ctx, http.MethodGet, llama(ns, "held"), nil),
				"a llama with a finalizer stays until the finalizer is removed", http.StatusOK)
			for _, a := range []answer{a, stays} {
				if textOf(a.object(), "kind") != "Llama" || textOf(a.object(), "metadata", "deletionTimestamp") == "" {
					v.fail(a, "until its finalizer is removed, the answer is the Llama with a deletionTimestamp",
						fmt.Sprintf("its kind is %q and its deletionTimestamp %q",
							textOf(a.object(), "kind"), textOf(a.object(), "metadata", "deletionTimestamp")))
				}
			}
			marked := textOf(a.object(), "metadata", "deletionTimestamp")
			// put sends the llama unchanged, except for its deletionTimestamp, and for its finalizers unless they are kept.
			put := func(timestamp string, keep bool) answer {
				object := runtimeCopy(v.send(v.ctx, http.MethodGet, llama(ns, "held"), nil).object())
				unstructured.RemoveNestedField(object, "metadata", "deletionTimestamp")
				unstructured.RemoveNestedField(object, "metadata", "deletionGracePeriodSeconds")
				if !keep {
					unstructured.RemoveNestedField(object, "metadata", "finalizers")
				}
				if timestamp != "" {
					v.OK(v.t, "setting the deletionTimestamp",
						unstructured.SetNestedField(object, timestamp, "metadata", "deletionTimestamp"))
				}
				return v.send(v.ctx, http.MethodPut, llama(ns, "held"), object)
			}
			still := func(expected string) {
				v.t.Helper()
				now := v.send(v.ctx, http.MethodGet, llama(ns, "held"), nil)
				if is := textOf(now.object(), "metadata", "deletionTimestamp"); is != marked {
					v.fail(now, expected,
						fmt.Sprintf("its deletionTimestamp is %q and was %q, and the answer is %s", is, marked, now.summary()))
				}
			}
			// Each request either has no effect on the deletion, or is refused.
			put("", true)
			still("an update cannot take back a deletion: a llama that is being deleted keeps its deletionTimestamp")
			v.send(v.ctx, http.MethodPatch, llama(ns, "held"), `{"metadata":{"deletionTimestamp":null}}`,
				"Content-Type", string(apitypes.MergePatchType))
			still("a patch cannot take back a deletion: a llama that is being deleted keeps its deletionTimestamp")
			v.send(v.ctx, http.MethodDelete, llama(ns, "held")+rehearse, nil)
			still("a dry run of a delete changes nothing")
			v.send(v.ctx, http.MethodDelete, llama(ns, "held"), nil)
			still("a second delete of a llama with a finalizer does not remove it")
			v.want(put("", false), "an update can remove a finalizer", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(ns, "held"), nil),
				"a llama that is being deleted is gone when an update removes its last finalizer, "+
					"also one without a deletionTimestamp: 404", http.StatusNotFound)
			marked = ""
			v.create(ns, held)
			put("2001-02-03T04:05:06Z", true)
			still("only a delete sets a deletionTimestamp: an update that has one deletes nothing")
			v.want(v.send(v.ctx, http.MethodDelete, llama(ns, "held"), nil),
				"a delete of a llama with a finalizer answers 200 or 202", http.StatusOK, http.StatusAccepted)
			v.want(release(v.ctx), "a finalizer can be removed by a merge patch", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(ns, "held"), nil),
				"a llama that is being deleted is gone when its last finalizer is removed: 404", http.StatusNotFound)
			v.create(ns, held)
			v.want(v.send(v.ctx, http.MethodDelete, llamas(ns), nil),
				"a deletecollection answers 200 or 202 if one of the llamas has a finalizer", http.StatusOK, http.StatusAccepted)
			a = v.want(v.send(v.ctx, http.MethodGet, llama(ns, "held"), nil),
				"a llama with a finalizer stays after a deletecollection until the finalizer is removed", http.StatusOK)
			if textOf(a.object(), "metadata", "deletionTimestamp") == "" {
				v.fail(a, "a deletecollection sets the deletionTimestamp of a llama with a finalizer", "it has none")
			}
			v.want(release(v.ctx), "a finalizer can be removed by a merge patch", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(ns, "held"), nil),
				"a llama that a deletecollection deletes is gone when its last finalizer is removed: 404", http.StatusNotFound)
		}))).
		Assess("many", check.Assess(step(func(v visit) {
			v.create(ns, labelled("old-1", "age", "old"))
			v.create(ns, labelled("old-2", "age", "old"))
			v.create(ns, labelled("young", "age", "young"))
			v.create(otherNS, labelled("old-elsewhere", "age", "old"))
			other := `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"` + otherUID + `"}}`
			v.want(v.send(v.ctx, http.MethodDelete, llamas(ns)+"?labelSelector=age%3Dold", other),
				"a deletecollection whose precondition names another uid than that of the llamas answers 409", http.StatusConflict)
			v.want(v.send(v.ctx, http.MethodDelete, llamas(ns)+"?labelSelector=age%3Dold", nil),
				"a deletecollection answers 200", http.StatusOK)
			a := v.send(v.ctx, http.MethodGet, llamas(ns), nil)
			if names := a.names(); slices.Contains(names, "old-1") ||
				slices.Contains(names, "old-2") || !slices.Contains(names, "young") {
				v.fail(a, "a deletecollection with the selector age=old removes old-1 and old-2, and leaves young",
					fmt.Sprintf("there are %v", names))
			}
			if a := v.send(v.ctx, http.MethodGet, llama(otherNS, "old-elsewhere"), nil); a.code != http.StatusOK {
				v.fail(a, "a deletecollection in one namespace leaves the llamas of others", "old-elsewhere is gone")
			}
			v.want(v.send(v.ctx, http.MethodDelete, llamas(ns)+"?fieldSelector=spec.shoes%3D4", nil),
				"a deletecollection with a field selector for a field that is not served answers 400, and deletes nothing",
				http.StatusBadRequest)
			v.create(ns, newLlama("chosen", 100, 1.5))
			if v.selectsByName("chosen") { // another check reports that it does not
				v.want(v.send(v.ctx, http.MethodDelete, llamas(ns)+"?fieldSelector=metadata.name%3Dchosen", nil),
					"a deletecollection with a field selector answers 200", http.StatusOK)
				if a := v.send(v.ctx, http.MethodGet, llamas(ns), nil); slices.Contains(a.names(), "chosen") ||
					!slices.Contains(a.names(), "young") {
					v.fail(a, "a deletecollection with the field selector metadata.name=chosen removes chosen alone",
						fmt.Sprintf("there are %v", a.names()))
				}
			}
			if output, ok, err := v.kubectl("", "delete", "llamas", "--all", "-n", ns, "--timeout=5s"); ok && err != nil {
				v.Fail(v.t, "kubectl delete llamas --all removes all, and sees that they are gone",
					"it prints: "+strings.TrimSpace(output))
			}
		}))).Feature()
}

// selectsByName reports whether a list with a field selector has only this llama.
func (v visit) selectsByName(name string) bool {
	return slices.Equal(v.send(v.ctx, http.MethodGet, llamas(ns)+"?fieldSelector=metadata.name%3D"+name, nil).names(),
		[]string{name})
}

// rehearse is the query of a dry run.
const rehearse = "?dryRun=All"

func dryRun() types.Feature {
	return features.New("dry run").
		Assess("nothing is stored", check.Assess(step(func(v visit) {
			from := v.now(ns)
			a := v.want(v.send(v.ctx, http.MethodPost, llamas(ns)+rehearse, newLlama("rehearsed", 100, 1.5)),
				"a dry run of a create answers 201", http.StatusCreated)
			if nameOf(a.object()) != "rehearsed" || uidOf(a.object()) == "" ||
				textOf(a.object(), "metadata", "creationTimestamp") == "" {
				v.fail(a, "a dry run answers as the request would, with the llama, its uid and its creationTimestamp",
					fmt.Sprintf("the answer is %s, with the name %q, the uid %q and the creationTimestamp %q",
						a.summary(), nameOf(a.object()), uidOf(a.object()), textOf(a.object(), "metadata", "creationTimestamp")))
			}
			if a := v.send(v.ctx, http.MethodGet, llama(ns, "rehearsed"), nil); a.code != http.StatusNotFound {
				v.fail(a, "a dry run of a create stores nothing", "the llama rehearsed exists")
			}
			first := v.create(ns, newLlama("unchanged", 100, 1.5))
			a = v.want(v.send(v.ctx, http.MethodPost, llamas(ns)+rehearse, newLlama("unchanged", 100, 1.5)),
				"a dry run of a create with a name that is taken answers 409", http.StatusConflict)
			if !a.isStatus("AlreadyExists") {
				v.fail(a, "the answer is a Status with the reason AlreadyExists", "the answer is "+a.summary())
			}
			a = v.want(v.send(v.ctx, http.MethodPatch, llama(ns, "unchanged")+rehearse, `{"spec":{"weight":1}}`,
				"Content-Type", string(apitypes.MergePatchType)), "a dry run of a patch answers 200", http.StatusOK)
			v.weighs(a, "a patch", 1)
			replaced := runtimeCopy(first)
			v.OK(v.t, "setting the weight", unstructured.SetNestedField(replaced, 2.0, "spec", "weight"))
			a = v.want(v.send(v.ctx, http.MethodPut, llama(ns, "unchanged")+rehearse, replaced),
				"a dry run of a replace answers 200", http.StatusOK)
			v.weighs(a, "a replace", 2)
			v.want(v.send(v.ctx, http.MethodDelete, llama(ns, "unchanged")+rehearse, nil), "a dry run of a delete answers 200",
				http.StatusOK)
			v.want(v.send(v.ctx, http.MethodDelete, llamas(ns)+rehearse, nil), "a dry run of a deletecollection answers 200",
				http.StatusOK)
			// kubectl delete --dry-run=server sends it in the body.
			const options = `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`
			v.want(v.send(v.ctx, http.MethodDelete, llama(ns, "unchanged"), options),
				"a delete with dryRun in its DeleteOptions answers 200", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(ns, "unchanged"), nil),
				"a delete with dryRun in its DeleteOptions deletes nothing", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodDelete, llamas(ns), options),
				"a deletecollection with dryRun in its DeleteOptions answers 200", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(ns, "unchanged"), nil),
				"a deletecollection with dryRun in its DeleteOptions deletes nothing", http.StatusOK)
			v.refusesUnknownDryRun("unchanged")
			v.want(v.send(v.ctx, http.MethodDelete, llama(ns, "rehearsed")+rehearse, nil),
				"a dry run of a delete of a llama that does not exist answers 404", http.StatusNotFound)
			a = v.want(v.send(v.ctx, http.MethodGet, llama(ns, "unchanged"), nil), "after dry runs the llama is still there",
				http.StatusOK)
			if versionOf(a.object()) != versionOf(first) {
				v.fail(a, "dry runs change nothing", fmt.Sprintf("the resourceVersion %q was %q, and the weight is %v",
					versionOf(a.object()), versionOf(first), numberOf(a.object(), "spec", "weight")))
			}
			v.watchSeesNoDryRun(from)
			v.want(v.send(v.ctx, http.MethodPost, llamas(ns)+rehearse, newLlama("light", -1, 1.5)),
				"a dry run is validated: a negative weight answers 422", http.StatusUnprocessableEntity)
			// Other checks test them without a dry run.
			const precondition = `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"` + otherUID + `"}}`
			stale := runtimeCopy(replaced)
			v.OK(v.t, "setting the resourceVersion", unstructured.SetNestedField(stale, "1", "metadata", "resourceVersion"))
			for _, c := range []struct {
				what, method string
				body         any
			}{
				{"a delete whose precondition names another uid", http.MethodDelete, precondition},
				{"a replace with an old resourceVersion", http.MethodPut, stale},
			} {
				rehearsed := v.send(v.ctx, c.method, llama(ns, "unchanged")+rehearse, c.body)
				if rehearsed.code == http.StatusConflict {
					continue
				}
				if v.send(v.ctx, c.method, llama(ns, "unchanged"), c.body).code == http.StatusConflict {
					v.fail(rehearsed, "a dry run of "+c.what+" answers 409, as without a dry run",
						"the answer is "+rehearsed.summary())
				}
				break
			}
		}))).Feature()
}

// refusesUnknownDryRun fails the check if a delete with a value of dryRun that does not exist deletes a llama. The API
// server answers 422. A server that takes any value for a dry run deletes nothing either.
func (v visit) refusesUnknownDryRun(name string) {
	v.t.Helper()
	a := v.send(v.ctx, http.MethodDelete, llama(ns, name), `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["Some"]}`)
	if v.send(v.ctx, http.MethodGet, llama(ns, name), nil).code == http.StatusNotFound {
		v.fail(a, "a delete with an unknown value in the dryRun of its DeleteOptions, such as Some, deletes nothing",
			fmt.Sprintf("the answer is %s, and the llama %s is gone", a.summary(), name))
	}
}

// watchSeesNoDryRun fails the check if a watch sends an event for a dry run. The check watch reports watches that are
// not served.
func (v visit) watchSeesNoDryRun(from string) {
	v.t.Helper()
	w := v.follow(llamas(ns), "&resourceVersion="+from)
	defer w.cancel()
	if w.refused != nil {
		return
	}
	v.create(ns, newLlama("seen", 100, 1.5))
	want := []string{"ADDED unchanged", "ADDED seen"}
	var seen []string
	for len(seen) < len(want) {
		select {
		case e, ok := <-w.events:
			if !ok || e.Type == "ERROR" {
				return
			}
			if e.Type != "BOOKMARK" {
				seen = append(seen, e.String())
			}
		case <-time.After(unseenPatience):
			return
		}
	}
	if !slices.Equal(seen, want) {
		v.Fail(v.t, "a watch sends no event for a dry run: it sends "+strings.Join(want, ", "),
			"it sends "+strings.Join(seen, ", "))
	}
}

// unseenPatience is the time limit for the events of a watch that may not be served yet. A slower watch is not judged.
const unseenPatience = time.Second

// weighs fails unless the answer of a dry run is the llama with the new weight.
func (v visit) weighs(a answer, request string, want float64) {
	v.t.Helper()
	if got := numberOf(a.object(), "spec", "weight"); fmt.Sprint(got) != fmt.Sprint(want) {
		v.fail(a, fmt.Sprintf("a dry run of %s answers as the request would, with the weight %v", request, want),
			fmt.Sprintf("the weight is %v", got))
	}
}
