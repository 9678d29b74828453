// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func create() types.Feature {
	return features.New("create").
		Assess("a llama is stored", check.Assess(step(func(v visit) {
			a := v.want(v.send(v.ctx, http.MethodPost, llamas(here), newLlama("born", 99.5, 1.25)), "a create answers 201", http.StatusCreated)
			object := a.object()
			if _, err := time.Parse(time.RFC3339, textOf(object, "metadata", "creationTimestamp")); err != nil || uidOf(object) == "" || versionOf(object) == "" {
				v.fail(a, "the answer has the llama's uid, creationTimestamp and resourceVersion",
					fmt.Sprintf("uid is %q, creationTimestamp %q, resourceVersion %q", uidOf(object), textOf(object, "metadata", "creationTimestamp"), versionOf(object)))
			}
			if textOf(object, "metadata", "namespace") != here {
				v.fail(a, "metadata.namespace is that of the path", fmt.Sprintf("it is %q", textOf(object, "metadata", "namespace")))
			}
			again := v.want(v.send(v.ctx, http.MethodGet, llama(here, "born"), nil), "a llama that was created can be read", http.StatusOK)
			if uidOf(again.object()) != uidOf(object) || versionOf(again.object()) != versionOf(object) {
				v.fail(again, "a llama reads back with the uid and the resourceVersion of the create's answer",
					fmt.Sprintf("uid %q became %q, resourceVersion %q became %q", uidOf(object), uidOf(again.object()), versionOf(object), versionOf(again.object())))
			}
		}))).
		Assess("generateName", check.Assess(step(func(v visit) {
			generated := newLlama("", 99.5, 1.25)
			generated["metadata"] = map[string]any{"generateName": "twin-"}
			first, second := v.make(here, generated), v.make(here, generated)
			if !strings.HasPrefix(nameOf(first), "twin-") || nameOf(first) == "twin-" || nameOf(first) == nameOf(second) {
				v.Fail(v.t, "generateName gives each llama a name of its own, which begins with it", fmt.Sprintf("the names are %q and %q", nameOf(first), nameOf(second)))
			}
		}))).
		Assess("what is wrong is refused", check.Assess(step(func(v visit) {
			v.make(here, newLlama("taken", 99.5, 1.25))
			a := v.want(v.send(v.ctx, http.MethodPost, llamas(here), newLlama("taken", 99.5, 1.25)), "a second create with the same name answers 409", http.StatusConflict)
			if !a.isStatus("AlreadyExists") {
				v.fail(a, "the answer is a Status with the reason AlreadyExists", "the answer is "+a.told())
			}
			invalid := v.want(v.send(v.ctx, http.MethodPost, llamas(here), newLlama("light", -1, 1.25)), "a create with a negative weight answers 422", http.StatusUnprocessableEntity)
			if !invalid.isStatus("Invalid") {
				v.fail(invalid, "the answer is a Status with the reason Invalid", "the answer is "+invalid.told())
			}
			v.want(v.send(v.ctx, http.MethodPost, llamas(here), newLlama("Not_A_Name", 99.5, 1.25)), "a create with a name that is none (RFC 1123) answers 422", http.StatusUnprocessableEntity)
			v.want(v.send(v.ctx, http.MethodPost, llamas(here), `{"apiVersion":"`+groupVersion+`","kind":"Llama","metadata":`), "a create with a body that is no JSON answers 400", http.StatusBadRequest)
			stray := newLlama("stray", 99.5, 1.25)
			stray["metadata"].(map[string]any)["namespace"] = there
			v.want(v.send(v.ctx, http.MethodPost, llamas(here), stray), "a create whose body names another namespace than the path answers 400", http.StatusBadRequest)
		}))).Feature()
}

func update() types.Feature {
	return features.New("update").
		Assess("a replace", check.Assess(step(func(v visit) {
			first := v.make(here, newLlama("eater", 100, 1.5))
			heavier := runtimeCopy(first)
			v.OK(v.t, "setting the weight", unstructured.SetNestedField(heavier, 120.5, "spec", "weight"))
			a := v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), heavier), "a replace answers 200", http.StatusOK)
			second := a.object()
			if numberOf(second, "spec", "weight") != 120.5 || uidOf(second) != uidOf(first) || versionOf(second) == versionOf(first) {
				v.fail(a, "after a replace the weight is the new one, the uid the same, and the resourceVersion another one",
					fmt.Sprintf("the weight is %v, the uid %q was %q, the resourceVersion %q was %q", numberOf(second, "spec", "weight"), uidOf(second), uidOf(first), versionOf(second), versionOf(first)))
			}
			a = v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), heavier), "a replace with an old resourceVersion answers 409, since somebody has changed the llama meanwhile", http.StatusConflict)
			if !a.isStatus("Conflict") {
				v.fail(a, "the answer is a Status with the reason Conflict", "the answer is "+a.told())
			}
			other := runtimeCopy(second)
			v.OK(v.t, "setting the uid", unstructured.SetNestedField(other, "11111111-2222-3333-4444-555555555555", "metadata", "uid"))
			v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), other), "a replace with another uid is refused (409 or 422)", http.StatusConflict, http.StatusUnprocessableEntity)
			wrong := runtimeCopy(second)
			v.OK(v.t, "setting the weight", unstructured.SetNestedField(wrong, -5.0, "spec", "weight"))
			v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), wrong), "a replace is validated as a create is: a negative weight answers 422", http.StatusUnprocessableEntity)
			missing := newLlama("nobody", 100, 1.5)
			missing["metadata"].(map[string]any)["resourceVersion"] = versionOf(second)
			v.want(v.send(v.ctx, http.MethodPut, llama(here, "nobody"), missing), "a replace of a llama that does not exist answers 404", http.StatusNotFound)
			if now := v.send(v.ctx, http.MethodGet, llama(here, "eater"), nil); numberOf(now.object(), "spec", "weight") != 120.5 {
				v.fail(now, "what was refused has changed nothing", fmt.Sprintf("the weight is %v and was 120.5", numberOf(now.object(), "spec", "weight")))
			}
		}))).Feature()
}

// runtimeCopy is a deep copy.
func runtimeCopy(object map[string]any) map[string]any {
	return (&unstructured.Unstructured{Object: object}).DeepCopy().Object
}

func patch() types.Feature {
	return features.New("patch").
		Assess("merge and JSON", check.Assess(step(func(v visit) {
			first := v.make(here, labelled("patched", "color", "white"))
			send := func(kind apitypes.PatchType, body string) answer {
				return v.send(v.ctx, http.MethodPatch, llama(here, "patched"), body, "Content-Type", string(kind))
			}
			a := v.want(send(apitypes.MergePatchType, `{"metadata":{"labels":{"color":null,"shorn":"yes"}},"spec":{"weight":90.25}}`), "a merge patch answers 200", http.StatusOK)
			labels, _, _ := unstructured.NestedStringMap(a.object(), "metadata", "labels")
			if numberOf(a.object(), "spec", "weight") != 90.25 || numberOf(a.object(), "spec", "height") != 1.5 || !maps.Equal(labels, map[string]string{"shorn": "yes"}) {
				v.fail(a, "the merge patch sets the weight to 90.25, adds a label, removes the one that is null, and leaves the height at 1.5",
					fmt.Sprintf("the weight is %v, the height %v, the labels %v", numberOf(a.object(), "spec", "weight"), numberOf(a.object(), "spec", "height"), labels))
			}
			if versionOf(a.object()) == versionOf(first) || uidOf(a.object()) != uidOf(first) {
				v.fail(a, "a patch changes the resourceVersion and keeps the uid", fmt.Sprintf("the resourceVersion %q was %q, the uid %q was %q", versionOf(a.object()), versionOf(first), uidOf(a.object()), uidOf(first)))
			}
			a = v.want(send(apitypes.JSONPatchType, `[{"op":"test","path":"/spec/weight","value":90.25},{"op":"replace","path":"/spec/weight","value":91}]`), "a JSON patch answers 200", http.StatusOK)
			if weight := fmt.Sprint(numberOf(a.object(), "spec", "weight")); weight != "91" {
				v.fail(a, "the JSON patch sets the weight to 91", "it is "+weight)
			}
			v.want(send(apitypes.JSONPatchType, `[{"op":"test","path":"/spec/weight","value":1},{"op":"remove","path":"/metadata/labels"}]`),
				"a JSON patch whose test does not hold is refused (422, 409 or 400)", http.StatusUnprocessableEntity, http.StatusConflict, http.StatusBadRequest)
			v.want(send(apitypes.MergePatchType, fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{"weight":1}}`, versionOf(first))), "a merge patch that names an old resourceVersion answers 409", http.StatusConflict)
			v.want(send(apitypes.MergePatchType, `{"spec":{"weight":-3}}`), "what a patch comes to is validated: a negative weight answers 422", http.StatusUnprocessableEntity)
			v.want(send("application/shears+json", `{"spec":{"weight":1}}`), "a patch of a type that nobody serves answers 415", http.StatusUnsupportedMediaType)
			// It changes nothing, since a server of built-in types, as one on k8s.io/apiserver is, may serve it.
			v.want(send(apitypes.StrategicMergePatchType, `{"spec":{"weight":91}}`), "a strategic merge patch answers 415, or 200 where it is served", http.StatusUnsupportedMediaType, http.StatusOK)
			if now := v.send(v.ctx, http.MethodGet, llama(here, "patched"), nil); fmt.Sprint(numberOf(now.object(), "spec", "weight")) != "91" {
				v.fail(now, "what was refused has changed nothing", fmt.Sprintf("the weight is %v and was 91", numberOf(now.object(), "spec", "weight")))
			}
		}))).
		Assess("server-side apply is served, or clearly refused", check.Assess(step(func(v visit) {
			body := fmt.Sprintf(`{"apiVersion":%q,"kind":"Llama","metadata":{"name":"applied"},"spec":{"weight":1,"height":1}}`, groupVersion)
			v.want(v.send(v.ctx, http.MethodPatch, llama(here, "applied")+"?fieldManager=checks", body, "Content-Type", string(apitypes.ApplyYAMLPatchType)),
				"server-side apply works (200 or 201) or answers 415", http.StatusOK, http.StatusCreated, http.StatusUnsupportedMediaType)
		}))).
		Assess("kubectl apply", check.Assess(step(func(v visit) {
			for _, weight := range []string{"80.5", "81.5"} {
				text := fmt.Sprintf("apiVersion: %s\nkind: Llama\nmetadata: {name: by-kubectl, namespace: %s}\nspec: {weight: %s, height: 1.5}\n", groupVersion, here, weight)
				output, ok, err := v.kubectl(text, "apply", "-f", "-")
				if !ok {
					return
				}
				if err != nil {
					v.Fail(v.t, "kubectl apply creates a llama, and changes it the second time", "it prints: "+strings.TrimSpace(output))
				}
			}
			if now := v.send(v.ctx, http.MethodGet, llama(here, "by-kubectl"), nil); numberOf(now.object(), "spec", "weight") != 81.5 {
				v.fail(now, "after kubectl apply the weight is 81.5", fmt.Sprintf("it is %v", numberOf(now.object(), "spec", "weight")))
			}
		}))).Feature()
}

func remove() types.Feature {
	return features.New("delete").
		Assess("one, with preconditions", check.Assess(step(func(v visit) {
			object := v.make(here, newLlama("leaving", 100, 1.5))
			for what, body := range map[string]string{
				"uid":             `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"11111111-2222-3333-4444-555555555555"}}`,
				"resourceVersion": `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"1234567890123"}}`,
			} {
				a := v.want(v.send(v.ctx, http.MethodDelete, llama(here, "leaving"), body), "a delete whose precondition names another "+what+" answers 409", http.StatusConflict)
				if !a.isStatus("Conflict") {
					v.fail(a, "the answer is a Status with the reason Conflict", "the answer is "+a.told())
				}
			}
			body := fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":%q}}`, uidOf(object))
			v.want(v.send(v.ctx, http.MethodDelete, llama(here, "leaving"), body), "a delete whose precondition holds answers 200", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(here, "leaving"), nil), "a llama that was deleted is gone: 404", http.StatusNotFound)
			v.want(v.send(v.ctx, http.MethodDelete, llama(here, "leaving"), nil), "a second delete answers 404", http.StatusNotFound)
			back := v.make(here, newLlama("leaving", 100, 1.5))
			if uidOf(back) == uidOf(object) {
				v.Fail(v.t, "a llama that is created again under the same name is another one, with another uid", "it has the same uid "+uidOf(back))
			}
		}))).
		Assess("one that a finalizer holds", check.Assess(step(func(v visit) {
			held := newLlama("held", 100, 1.5)
			held["metadata"].(map[string]any)["finalizers"] = []any{"labs.lva.io/holds"}
			made := v.want(v.send(v.ctx, http.MethodPost, llamas(here), held),
				"a create with finalizers answers 201, or 422 where none are accepted",
				http.StatusCreated, http.StatusUnprocessableEntity)
			if made.code == http.StatusUnprocessableEntity || numberOf(made.object(), "metadata", "finalizers") == nil {
				return // they are not accepted here
			}
			release := func(ctx context.Context) answer {
				return v.send(ctx, http.MethodPatch, llama(here, "held"), `{"metadata":{"finalizers":null}}`, "Content-Type", string(apitypes.MergePatchType))
			}
			v.t.Cleanup(func() { release(context.WithoutCancel(v.ctx)) }) // or it holds up all who delete what is in its namespace
			a := v.want(v.send(v.ctx, http.MethodDelete, llama(here, "held"), nil), "a delete of a llama with a finalizer answers 200 or 202", http.StatusOK, http.StatusAccepted)
			for _, a := range []answer{a, v.want(v.send(v.ctx, http.MethodGet, llama(here, "held"), nil), "a llama with a finalizer stays until the finalizer is removed", http.StatusOK)} {
				if textOf(a.object(), "kind") != "Llama" || textOf(a.object(), "metadata", "deletionTimestamp") == "" {
					v.fail(a, "until its finalizer is removed, the answer is the Llama with a deletionTimestamp",
						fmt.Sprintf("its kind is %q and its deletionTimestamp %q", textOf(a.object(), "kind"), textOf(a.object(), "metadata", "deletionTimestamp")))
				}
			}
			v.want(release(v.ctx), "a finalizer can be removed by a merge patch", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(here, "held"), nil), "a llama that is being deleted is gone when its last finalizer is removed: 404", http.StatusNotFound)
		}))).
		Assess("many", check.Assess(step(func(v visit) {
			v.make(here, labelled("old-1", "age", "old"))
			v.make(here, labelled("old-2", "age", "old"))
			v.make(here, labelled("young", "age", "young"))
			v.make(there, labelled("old-elsewhere", "age", "old"))
			other := `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"11111111-2222-3333-4444-555555555555"}}`
			v.want(v.send(v.ctx, http.MethodDelete, llamas(here)+"?labelSelector=age%3Dold", other),
				"a deletecollection whose precondition names another uid than that of the llamas answers 409", http.StatusConflict)
			v.want(v.send(v.ctx, http.MethodDelete, llamas(here)+"?labelSelector=age%3Dold", nil), "a deletecollection answers 200", http.StatusOK)
			a := v.send(v.ctx, http.MethodGet, llamas(here), nil)
			if names := a.names(); slices.Contains(names, "old-1") || slices.Contains(names, "old-2") || !slices.Contains(names, "young") {
				v.fail(a, "a deletecollection with the selector age=old removes old-1 and old-2, and leaves young", fmt.Sprintf("there are %v", names))
			}
			if a := v.send(v.ctx, http.MethodGet, llama(there, "old-elsewhere"), nil); a.code != http.StatusOK {
				v.fail(a, "a deletecollection in one namespace leaves the llamas of others", "old-elsewhere is gone")
			}
			if output, ok, err := v.kubectl("", "delete", "llamas", "--all", "-n", here, "--timeout=5s"); ok && err != nil {
				v.Fail(v.t, "kubectl delete llamas --all removes all, and sees that they are gone", "it prints: "+strings.TrimSpace(output))
			}
		}))).Feature()
}

// rehearse is the query of a dry run.
const rehearse = "?dryRun=All"

func dryRun() types.Feature {
	return features.New("dry run").
		Assess("nothing is stored", check.Assess(step(func(v visit) {
			a := v.want(v.send(v.ctx, http.MethodPost, llamas(here)+rehearse, newLlama("rehearsed", 100, 1.5)), "a dry run of a create answers 201", http.StatusCreated)
			if nameOf(a.object()) != "rehearsed" {
				v.fail(a, "a dry run answers as the request would, with the llama", "the answer is "+a.told())
			}
			if a := v.send(v.ctx, http.MethodGet, llama(here, "rehearsed"), nil); a.code != http.StatusNotFound {
				v.fail(a, "a dry run of a create stores nothing", "the llama rehearsed exists")
			}
			first := v.make(here, newLlama("unchanged", 100, 1.5))
			a = v.want(v.send(v.ctx, http.MethodPost, llamas(here)+rehearse, newLlama("unchanged", 100, 1.5)), "a dry run of a create with a name that is taken answers 409", http.StatusConflict)
			if !a.isStatus("AlreadyExists") {
				v.fail(a, "the answer is a Status with the reason AlreadyExists", "the answer is "+a.told())
			}
			a = v.want(v.send(v.ctx, http.MethodPatch, llama(here, "unchanged")+rehearse, `{"spec":{"weight":1}}`, "Content-Type", string(apitypes.MergePatchType)), "a dry run of a patch answers 200", http.StatusOK)
			v.weighs(a, "a patch", 1)
			replaced := runtimeCopy(first)
			v.OK(v.t, "setting the weight", unstructured.SetNestedField(replaced, 2.0, "spec", "weight"))
			a = v.want(v.send(v.ctx, http.MethodPut, llama(here, "unchanged")+rehearse, replaced), "a dry run of a replace answers 200", http.StatusOK)
			v.weighs(a, "a replace", 2)
			v.want(v.send(v.ctx, http.MethodDelete, llama(here, "unchanged")+rehearse, nil), "a dry run of a delete answers 200", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodDelete, llamas(here)+rehearse, nil), "a dry run of a deletecollection answers 200", http.StatusOK)
			a = v.want(v.send(v.ctx, http.MethodGet, llama(here, "unchanged"), nil), "after dry runs the llama is still there", http.StatusOK)
			if versionOf(a.object()) != versionOf(first) {
				v.fail(a, "dry runs change nothing", fmt.Sprintf("the resourceVersion %q was %q, and the weight is %v", versionOf(a.object()), versionOf(first), numberOf(a.object(), "spec", "weight")))
			}
			v.want(v.send(v.ctx, http.MethodPost, llamas(here)+rehearse, newLlama("light", -1, 1.5)), "a dry run is validated: a negative weight answers 422", http.StatusUnprocessableEntity)
		}))).Feature()
}

// weighs fails if the answer of a dry run is not the llama with the new weight.
func (v visit) weighs(a answer, request string, want float64) {
	v.t.Helper()
	if got := numberOf(a.object(), "spec", "weight"); fmt.Sprint(got) != fmt.Sprint(want) {
		v.fail(a, fmt.Sprintf("a dry run of %s answers as the request would, with the weight %v", request, want), fmt.Sprintf("the weight is %v", got))
	}
}

func namespaces() types.Feature {
	return features.New("namespaces").
		Assess("one that does not exist", check.Assess(step(func(v visit) {
			a := v.want(v.send(v.ctx, http.MethodPost, llamas("llama-checks-nowhere"), newLlama("homeless", 100, 1.5)),
				"a create in a namespace that does not exist answers 404", http.StatusNotFound)
			if !a.isStatus("NotFound") {
				v.fail(a, "the answer is a Status with the reason NotFound", "the answer is "+a.told())
			}
		}))).
		Assess("one that is being deleted", check.Assess(step(func(v visit) {
			all := v.typed.CoreV1().Namespaces()
			leaving := ours("")
			leaving.GenerateName, leaving.Finalizers = "llama-checks-leaving-", []string{"labs.lva.io/holds"}
			namespace, err := all.Create(v.ctx, &corev1.Namespace{ObjectMeta: leaving}, metav1.CreateOptions{})
			v.OK(v.t, "creating a namespace", err)
			v.t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), requestTimeout)
				defer cancel()
				release := []byte(`{"metadata":{"finalizers":null}}`)
				_, err := all.Patch(ctx, namespace.Name, apitypes.MergePatchType, release, metav1.PatchOptions{})
				v.OK(v.t, "letting the namespace go", err)
			})
			// Also a server that watches namespaces must know one that is new.
			v.make(namespace.Name, newLlama("early", 100, 1.5))
			v.OK(v.t, "deleting a namespace", all.Delete(v.ctx, namespace.Name, metav1.DeleteOptions{}))
			// A server that watches namespaces may take a moment to see that one is being deleted.
			var a answer
			for attempt, began := 0, time.Now(); ; attempt++ {
				late := newLlama(fmt.Sprintf("late-%d", attempt), 100, 1.5)
				a = v.send(v.ctx, http.MethodPost, llamas(namespace.Name), late)
				if a.code != http.StatusCreated || time.Since(began) > namespaceLag {
					break
				}
				v.Pause(v.ctx, v.t, lookAgain)
			}
			const expected = "a create in a namespace that is being deleted answers 403 with the reason Forbidden"
			v.want(a, expected, http.StatusForbidden)
			causes, _, _ := unstructured.NestedSlice(a.object(), "details", "causes")
			if !a.isStatus("Forbidden") || !slices.ContainsFunc(causes, func(cause any) bool {
				object, _ := cause.(map[string]any)
				return textOf(object, "reason") == string(corev1.NamespaceTerminatingCause)
			}) {
				v.fail(a, expected+", and a cause with the reason NamespaceTerminating in its details",
					fmt.Sprintf("the answer is %s, with the causes %v", a.told(), causes))
			}
		}))).Feature()
}

// namespaceLag is how late a server may see that a namespace is being deleted.
const namespaceLag = time.Second

func selectors() types.Feature {
	return features.New("selectors").
		Assess("by labels and fields", check.Assess(step(func(v visit) {
			v.make(here, labelled("s-white", "color", "white", "set", "s"))
			v.make(here, labelled("s-black", "color", "black", "set", "s"))
			v.make(here, labelled("s-none", "set", "s"))
			v.make(there, labelled("s-there", "color", "white", "set", "s"))
			for _, c := range []struct {
				namespace, query string
				want             []string
			}{
				{here, "labelSelector=color=white", []string{"s-white"}},
				{here, "labelSelector=set=s,color in (white,black)", []string{"s-black", "s-white"}},
				{here, "labelSelector=set=s,!color", []string{"s-none"}},
				{here, "labelSelector=set=s,color!=white", []string{"s-black", "s-none"}},
				{"", "labelSelector=color=white,set=s", []string{"s-there", "s-white"}},
				{here, "fieldSelector=metadata.name=s-black", []string{"s-black"}},
				{here, "labelSelector=set=s&fieldSelector=metadata.name!=s-black", []string{"s-none", "s-white"}},
				{"", "labelSelector=set=s&fieldSelector=metadata.namespace=" + there, []string{"s-there"}},
			} {
				if c.namespace == "" && !v.listsAll() {
					continue // that is for another check
				}
				a := v.want(v.send(v.ctx, http.MethodGet, llamas(c.namespace)+"?"+escaped(c.query), nil), "a list with "+c.query+" answers 200", http.StatusOK)
				names := a.names()
				slices.Sort(names)
				if !slices.Equal(names, c.want) {
					v.fail(a, fmt.Sprintf("a list with %s has %v", c.query, c.want), fmt.Sprintf("it has %v", names))
				}
			}
			v.want(v.send(v.ctx, http.MethodGet, llamas(here)+"?fieldSelector=spec.shoes%3D4", nil), "a field selector for a field that is not served answers 400, since a list of all would be wrong", http.StatusBadRequest)
			v.want(v.send(v.ctx, http.MethodGet, llamas(here)+"?labelSelector=%3D%3D%3D", nil), "a label selector that is none answers 400", http.StatusBadRequest)
		}))).Feature()
}

// escaped is a query whose values are escaped.
func escaped(query string) string {
	var parts []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		parts = append(parts, name+"="+url.QueryEscape(value))
	}
	return strings.Join(parts, "&")
}

func paging() types.Feature {
	return features.New("paging").
		Assess("pages", check.Assess(step(func(v visit) {
			var want []string
			for i := range 7 {
				name := fmt.Sprintf("page-%d", i)
				v.make(here, labelled(name, "set", "pages"))
				want = append(want, name)
			}
			var got []string
			next := ""
			for pages := 1; ; pages++ {
				a := v.want(v.send(v.ctx, http.MethodGet, llamas(here)+"?limit=3&labelSelector=set%3Dpages&continue="+url.QueryEscape(next), nil), "a page of a list answers 200", http.StatusOK)
				if len(a.items()) > 3 {
					v.fail(a, "a page has at most as many llamas as its limit, 3", fmt.Sprintf("it has %d", len(a.items())))
				}
				got = append(got, a.names()...)
				next = textOf(a.object(), "metadata", "continue")
				if next == "" {
					break
				}
				if pages == 1 { // between two pages the farm goes on
					v.make(here, labelled("page-0a", "set", "pages"))
				}
				if pages > len(want) {
					v.fail(a, "the last page has no continue", fmt.Sprintf("there is one after %d pages", pages))
				}
			}
			got = slices.DeleteFunc(got, func(name string) bool { return name == "page-0a" }) // who sees it is right, and who does not, too
			if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				v.Fail(v.t, fmt.Sprintf("the pages have %v, each once", want), fmt.Sprintf("they have %v", got))
			}
			v.want(v.send(v.ctx, http.MethodGet, llamas(here)+"?limit=3&continue=nonsense", nil), "a continue that is none answers 400 or 410", http.StatusBadRequest, http.StatusGone)
		}))).Feature()
}
