// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func update() types.Feature {
	return features.New("update").
		Assess("a replace", check.Assess(step(func(v visit) {
			first := v.create(ns, newLlama("eater", 100, 1.5))
			heavier := runtimeCopy(first)
			v.OK(v.t, "setting the weight", unstructured.SetNestedField(heavier, 120.5, "spec", "weight"))
			a := v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), heavier), "a replace answers 200", http.StatusOK)
			second := a.object()
			if numberOf(second, "spec", "weight") != 120.5 || uidOf(second) != uidOf(first) ||
				versionOf(second) == versionOf(first) {
				v.fail(a, "after a replace the weight is the new one, the uid the same, and the resourceVersion another one",
					fmt.Sprintf("the weight is %v, the uid %q was %q, the resourceVersion %q was %q",
						numberOf(second, "spec", "weight"), uidOf(second), uidOf(first), versionOf(second), versionOf(first)))
			}
			a = v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), heavier),
				"a replace with an old resourceVersion answers 409, since the llama has changed meanwhile", http.StatusConflict)
			if !a.isStatus("Conflict") {
				v.fail(a, "the answer is a Status with the reason Conflict", "the answer is "+a.summary())
			}
			other := runtimeCopy(second)
			v.OK(v.t, "setting the uid", unstructured.SetNestedField(other, otherUID, "metadata", "uid"))
			v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), other),
				"a replace with another uid is refused (409 or 422)", http.StatusConflict, http.StatusUnprocessableEntity)
			blind := runtimeCopy(second)
			unstructured.RemoveNestedField(blind, "metadata", "resourceVersion")
			v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), blind),
				"a replace without a resourceVersion answers 422", http.StatusUnprocessableEntity)
			renamed := runtimeCopy(second)
			v.OK(v.t, "setting the name", unstructured.SetNestedField(renamed, "feeder", "metadata", "name"))
			v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), renamed),
				"a replace whose body names another llama than the path answers 400", http.StatusBadRequest)
			for _, c := range []struct{ field, other string }{
				{"metadata.namespace", otherNS},
				{"kind", "Alpaca"},
				{"apiVersion", group + "/v1"},
			} {
				moved := runtimeCopy(second)
				v.OK(v.t, "setting "+c.field, unstructured.SetNestedField(moved, c.other, strings.Split(c.field, ".")...))
				v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), moved),
					"a replace answers 400 if the "+c.field+" of the body is not that of the path", http.StatusBadRequest)
			}
			for _, field := range []string{"weight", "height"} {
				wrong := runtimeCopy(second)
				v.OK(v.t, "setting the "+field, unstructured.SetNestedField(wrong, -5.0, "spec", field))
				v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), wrong),
					"a replace is validated as a create is: a negative "+field+" answers 422", http.StatusUnprocessableEntity)
				v.OK(v.t, "setting the "+field, unstructured.SetNestedField(wrong, "much", "spec", field))
				v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), wrong),
					"a replace is validated as a create is: a string as "+field+" answers 400", http.StatusBadRequest)
			}
			v.discoveryHas("update")
			missing := newLlama("nobody", 100, 1.5)
			missing["metadata"].(map[string]any)["resourceVersion"] = versionOf(second)
			v.about(v.want(v.send(v.ctx, http.MethodPut, llama(ns, "nobody"), missing),
				"a replace of a llama that does not exist answers 404", http.StatusNotFound), "llamas", "nobody")
			if now := v.send(v.ctx, http.MethodGet, llama(ns, "eater"), nil); numberOf(now.object(), "spec", "weight") != 120.5 {
				v.fail(now, "what was refused has changed nothing",
					fmt.Sprintf("the weight is %v and was 120.5", numberOf(now.object(), "spec", "weight")))
			}
			// A client can neither change nor leave out fields that the server has set.
			for _, field := range []string{"uid", "creationTimestamp"} {
				bare := runtimeCopy(v.send(v.ctx, http.MethodGet, llama(ns, "eater"), nil).object())
				unstructured.RemoveNestedField(bare, "metadata", field)
				v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), bare), "a replace without metadata."+field+" answers 200",
					http.StatusOK)
			}
			same := v.send(v.ctx, http.MethodGet, llama(ns, "eater"), nil)
			a = v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), runtimeCopy(same.object())),
				"a replace that changes nothing answers 200", http.StatusOK)
			if is, was := versionOf(a.object()), versionOf(same.object()); is != was {
				v.fail(a, "a replace that changes nothing does not change the resourceVersion, "+
					"or controllers that write the same object wake each other",
					fmt.Sprintf("it is %q, and was %q", is, was))
			}
			// Another check reports a server that refuses it.
			if v.send(v.ctx, http.MethodPost, llamas(ns), newLlama("weightless", 0, 0)).code == http.StatusCreated {
				for _, field := range []string{"weight", "height"} {
					empty := runtimeCopy(v.send(v.ctx, http.MethodGet, llama(ns, "eater"), nil).object())
					v.OK(v.t, "setting the "+field, unstructured.SetNestedField(empty, 0.0, "spec", field))
					v.want(v.send(v.ctx, http.MethodPut, llama(ns, "eater"), empty),
						"a replace with the "+field+" 0 answers 200, since 0 is not negative", http.StatusOK)
				}
			}
			aged := runtimeCopy(v.send(v.ctx, http.MethodGet, llama(ns, "eater"), nil).object())
			v.OK(v.t, "setting the creationTimestamp",
				unstructured.SetNestedField(aged, "2001-02-03T04:05:06Z", "metadata", "creationTimestamp"))
			v.send(v.ctx, http.MethodPut, llama(ns, "eater"), aged) // the server refuses it, or changes nothing
			now := v.send(v.ctx, http.MethodGet, llama(ns, "eater"), nil)
			is, was := textOf(now.object(), "metadata", "creationTimestamp"), textOf(first, "metadata", "creationTimestamp")
			if is != was || uidOf(now.object()) != uidOf(first) {
				v.fail(now, "a replace keeps uid and creationTimestamp, whatever the client sends or leaves out",
					fmt.Sprintf("uid %q was %q, creationTimestamp %q was %q", uidOf(now.object()), uidOf(first), is, was))
			}
		}))).
		Assess("at the same time", check.Assess(step(func(v visit) {
			send := v.directly()
			v.create(ns, newLlama("busy", 100, 1.5))
			stored := v.create(ns, newLlama("wanted", 100, 1.5))
			for range rushRounds {
				replies := v.rush(send, llama(ns, "busy"), func(i int) answer {
					mine := runtimeCopy(stored)
					mine["spec"] = map[string]any{"weight": float64(i + 1), "height": 1.5}
					mine["metadata"].(map[string]any)["labels"] = map[string]any{
						"by": fmt.Sprintf("writer-%d-of-%s", i, versionOf(stored)),
					}
					return send(http.MethodPut, llama(ns, "wanted"), mine)
				})
				won := having(replies, http.StatusOK)
				if len(won) > 1 || len(won) == 0 && len(having(replies, http.StatusConflict)) == len(replies) {
					v.Fail(v.t,
						fmt.Sprintf("of %d replaces with the same resourceVersion at the same time one answers 200, "+
							"and the others 409 Conflict", rushWrites),
						"the answers are "+counted(replies), replies[0].String())
				}
				now := v.send(v.ctx, http.MethodGet, llama(ns, "wanted"), nil)
				if len(won) == 1 && versionOf(now.object()) != versionOf(won[0].object()) ||
					len(won) == 1 && spec(now.object()) != spec(won[0].object()) {
					v.fail(now, "the replace that is answered with 200 is the one that is stored",
						fmt.Sprintf("the answer was %s at %s, and there is %s at %s",
							spec(won[0].object()), versionOf(won[0].object()), spec(now.object()), versionOf(now.object())))
				}
				stored = now.object()
			}
		}))).Feature()
}

// runtimeCopy returns a deep copy. For nil it returns an empty object.
func runtimeCopy(object map[string]any) map[string]any {
	if object == nil {
		return map[string]any{}
	}
	return (&unstructured.Unstructured{Object: object}).DeepCopy().Object
}

func patch() types.Feature {
	return features.New("patch").
		Assess("merge and JSON", check.Assess(step(func(v visit) {
			first := v.create(ns, labelled("patched", "color", "white"))
			send := func(kind apitypes.PatchType, body string) answer {
				return v.send(v.ctx, http.MethodPatch, llama(ns, "patched"), body, "Content-Type", string(kind))
			}
			a := v.want(send(apitypes.MergePatchType,
				`{"metadata":{"labels":{"color":null,"shorn":"yes"}},"spec":{"weight":90.25}}`),
				"a merge patch answers 200", http.StatusOK)
			labels, _, _ := unstructured.NestedStringMap(a.object(), "metadata", "labels")
			if numberOf(a.object(), "spec", "weight") != 90.25 || numberOf(a.object(), "spec", "height") != 1.5 ||
				!maps.Equal(labels, map[string]string{"shorn": "yes"}) {
				v.fail(a, "the merge patch sets the weight to 90.25, "+
					"adds a label, removes the one that is null, and leaves the height at 1.5",
					fmt.Sprintf("the weight is %v, the height %v, the labels %v",
						numberOf(a.object(), "spec", "weight"), numberOf(a.object(), "spec", "height"), labels))
			}
			if versionOf(a.object()) == versionOf(first) || uidOf(a.object()) != uidOf(first) {
				v.fail(a, "a patch changes the resourceVersion and keeps the uid",
					fmt.Sprintf("the resourceVersion %q was %q, the uid %q was %q",
						versionOf(a.object()), versionOf(first), uidOf(a.object()), uidOf(first)))
			}
			a = v.want(send(apitypes.JSONPatchType,
				`[{"op":"test","path":"/spec/weight","value":90.25},{"op":"replace","path":"/spec/weight","value":91}]`),
				"a JSON patch answers 200", http.StatusOK)
			if weight := fmt.Sprint(numberOf(a.object(), "spec", "weight")); weight != "91" {
				v.fail(a, "the JSON patch sets the weight to 91", "it is "+weight)
			}
			v.want(send(apitypes.JSONPatchType,
				`[{"op":"test","path":"/spec/weight","value":1},{"op":"remove","path":"/metadata/labels"}]`),
				"a JSON patch whose test does not hold is refused (422, 409 or 400)",
				http.StatusUnprocessableEntity, http.StatusConflict, http.StatusBadRequest)
			v.want(send(apitypes.MergePatchType,
				fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{"weight":1}}`, versionOf(first))),
				"a merge patch that names an old resourceVersion answers 409", http.StatusConflict)
			for _, field := range []string{"weight", "height"} {
				v.want(send(apitypes.MergePatchType, `{"spec":{"`+field+`":-3}}`),
					"the result of a merge patch is validated: a negative "+field+" answers 422", http.StatusUnprocessableEntity)
				v.want(send(apitypes.JSONPatchType, `[{"op":"replace","path":"/spec/`+field+`","value":-3}]`),
					"the result of a JSON patch is validated: a negative "+field+" answers 422", http.StatusUnprocessableEntity)
				v.want(send(apitypes.MergePatchType, `{"spec":{"`+field+`":"much"}}`),
					"the result of a merge patch is validated: a string as "+field+" is refused (400 or 422)",
					http.StatusBadRequest, http.StatusUnprocessableEntity)
			}
			v.discoveryHas("patch")
			before := v.send(v.ctx, http.MethodGet, llama(ns, "patched"), nil).object()
			a = v.want(send(apitypes.MergePatchType, `{"spec":{"weight":91}}`),
				"a patch that changes nothing answers 200", http.StatusOK)
			if is, was := versionOf(a.object()), versionOf(before); is != was {
				v.fail(a, "a patch that changes nothing does not change the resourceVersion, "+
					"or controllers that write the same object wake each other",
					fmt.Sprintf("it is %q, and was %q", is, was))
			}
			// The server refuses each of these bodies, or ignores the field.
			for _, body := range []string{
				`{"metadata":{"uid":"` + otherUID + `"}}`,
				`{"metadata":{"name":"renamed"}}`,
				`{"metadata":{"namespace":"` + otherNS + `"}}`,
				`{"metadata":{"creationTimestamp":"2001-02-03T04:05:06Z"}}`, `{"kind":"Alpaca"}`, `{"apiVersion":"v1"}`,
			} {
				send(apitypes.MergePatchType, body)
			}
			after := v.send(v.ctx, http.MethodGet, llama(ns, "patched"), nil)
			for _, path := range [][]string{
				{"kind"},
				{"apiVersion"},
				{"metadata", "name"},
				{"metadata", "namespace"},
				{"metadata", "uid"},
				{"metadata", "creationTimestamp"},
			} {
				if is, was := textOf(after.object(), path...), textOf(before, path...); is != was {
					v.fail(after, "a patch cannot change kind, apiVersion, name, namespace, uid or creationTimestamp",
						fmt.Sprintf("%s is %q, and was %q", strings.Join(path, "."), is, was))
				}
			}
			for _, path := range []string{llama(ns, "renamed"), llama(otherNS, "patched")} {
				v.want(v.send(v.ctx, http.MethodGet, path, nil),
					"a patch cannot give a llama another name or namespace: 404 for "+path, http.StatusNotFound)
			}
			a = v.want(send(apitypes.JSONPatchType,
				`[{"op":"add","path":"/metadata/labels/labs.lva.io~1shed","value":"north"}]`),
				"a JSON patch can add a label", http.StatusOK)
			if value := textOf(a.object(), "metadata", "labels", "labs.lva.io/shed"); value != "north" {
				v.fail(a, "~1 in the path of a JSON patch stands for a slash: labs.lva.io~1shed adds the label labs.lva.io/shed",
					fmt.Sprintf("its value is %q", value))
			}
			absent := v.send(v.ctx, http.MethodPatch, llama(ns, "nobody"), `{"spec":{"weight":1}}`,
				"Content-Type", string(apitypes.MergePatchType))
			v.about(v.want(absent,
				"a patch of a llama that does not exist answers 404", http.StatusNotFound), "llamas", "nobody")
			v.want(send("application/shears+json", `{"spec":{"weight":1}}`),
				"a patch of a type that nobody serves answers 415", http.StatusUnsupportedMediaType)
			// The patch changes nothing, because a server of built-in types, such as one based on k8s.io/apiserver, may serve
			// it.
			v.want(send(apitypes.StrategicMergePatchType, `{"spec":{"weight":91}}`),
				"a strategic merge patch answers 415, or 200 where it is served", http.StatusUnsupportedMediaType, http.StatusOK)
			if now := v.send(v.ctx, http.MethodGet,
				llama(ns, "patched"), nil); fmt.Sprint(numberOf(now.object(), "spec", "weight")) != "91" {
				v.fail(now, "what was refused has changed nothing",
					fmt.Sprintf("the weight is %v and was 91", numberOf(now.object(), "spec", "weight")))
			} else if uidOf(now.object()) != uidOf(first) {
				v.fail(now, "a patch cannot change the uid", fmt.Sprintf("it is %q, and was %q", uidOf(now.object()), uidOf(first)))
			}
		}))).
		Assess("at the same time", check.Assess(step(func(v visit) {
			send := v.directly()
			v.create(ns, newLlama("busy", 100, 1.5))
			v.create(ns, newLlama("shared", 100, 1.5))
			replies := v.rush(send, llama(ns, "busy"), func(i int) answer {
				return send(http.MethodPatch, llama(ns, "shared"), fmt.Sprintf(`{"metadata":{"labels":{"patch-%d":"yes"}}}`, i),
					"Content-Type", string(apitypes.MergePatchType))
			})
			now := v.send(v.ctx, http.MethodGet, llama(ns, "shared"), nil)
			labels, _, _ := unstructured.NestedStringMap(now.object(), "metadata", "labels")
			for i, a := range replies {
				if name := fmt.Sprintf("patch-%d", i); a.code == http.StatusOK && labels[name] == "" {
					v.fail(now, fmt.Sprintf("of %d merge patches at the same time none undoes another one: "+
						"each label is there whose patch was answered with 200", rushWrites),
						fmt.Sprintf("the label %s is missing, and there are %d", name, len(labels)))
				}
			}
			if len(having(replies, http.StatusOK)) == 0 {
				v.Fail(v.t, fmt.Sprintf("%d merge patches of different labels at the same time are answered with 200", rushWrites),
					"the answers are "+counted(replies))
			}
		}))).
		Assess("fields that the kind does not have", check.Assess(step(func(v visit) {
			first := v.create(ns, newLlama("strict", 100, 1.5))
			odd := func(path ...string) map[string]any {
				object := runtimeCopy(first)
				v.OK(v.t, "setting a field", unstructured.SetNestedField(object, int64(7), path...))
				return object
			}
			for _, path := range [][]string{{"wool"}, {"spec", "wool"}, {"spec", "Weight"}, {"metadata", "wool"}} {
				field := strings.Join(path, ".")
				fresh := odd(path...)
				fresh["metadata"] = map[string]any{"name": "strict-new"}
				if path[0] == "metadata" {
					fresh["metadata"].(map[string]any)["wool"] = 7
				}
				merge := map[string]any{}
				v.OK(v.t, "setting a field", unstructured.SetNestedField(merge, int64(7), path...))
				for _, c := range []struct {
					verb, method, path string
					body               any
				}{
					{"create", http.MethodPost, llamas(ns), fresh},
					{"replace", http.MethodPut, llama(ns, "strict"), odd(path...)},
					{"merge patch", http.MethodPatch, llama(ns, "strict"), merge},
				} {
					headers := []string{"Content-Type", "application/json"}
					refused := []int{http.StatusBadRequest}
					if c.method == http.MethodPatch {
						headers[1] = string(apitypes.MergePatchType)
						refused = append(refused, http.StatusUnprocessableEntity) // as k8s.io/apiserver does
					}
					v.want(v.send(v.ctx, c.method, c.path+"?fieldValidation=Strict", c.body, headers...),
						fmt.Sprintf("a %s with fieldValidation=Strict and a field that the kind does not have, %s, answers 400",
							c.verb, field),
						refused...)
					a := v.send(v.ctx, c.method, c.path+"?fieldValidation=Warn&dryRun=All", c.body, headers...)
					if a.code != http.StatusOK && a.code != http.StatusCreated ||
						!strings.Contains(strings.Join(a.header.Values("Warning"), " "), path[len(path)-1]) {
						v.fail(a, fmt.Sprintf("a %s with fieldValidation=Warn and a field that the kind does not have, %s, succeeds, "+
							"and its header Warning names the field", c.verb, field),
							fmt.Sprintf("the answer is %s, with the Warning %q", a.summary(), a.header.Values("Warning")))
					}
				}
			}
			if now := v.send(v.ctx, http.MethodGet, llama(ns, "strict"), nil); versionOf(now.object()) != versionOf(first) {
				v.fail(now, "what was refused has changed nothing",
					fmt.Sprintf("the resourceVersion is %q and was %q", versionOf(now.object()), versionOf(first)))
			}
		}))).
		Assess("server-side apply is served, or clearly refused", check.Assess(step(func(v visit) {
			body := fmt.Sprintf(`{"apiVersion":%q,"kind":"Llama","metadata":{"name":"applied"},"spec":{"weight":1,"height":1}}`,
				groupVersion)
			v.want(v.send(v.ctx, http.MethodPatch, llama(ns, "applied")+"?fieldManager=checks", body,
				"Content-Type", string(apitypes.ApplyYAMLPatchType)),
				"server-side apply works (200 or 201) or answers 415",
				http.StatusOK, http.StatusCreated, http.StatusUnsupportedMediaType)
		}))).
		Assess("kubectl apply", check.Assess(step(func(v visit) {
			for _, weight := range []string{"80.5", "81.5"} {
				text := fmt.Sprintf("apiVersion: %s\nkind: Llama\nmetadata: {name: by-kubectl, namespace: %s}\n"+
					"spec: {weight: %s, height: 1.5}\n", groupVersion, ns, weight)
				output, ok, err := v.kubectl(text, "apply", "-f", "-")
				if !ok {
					return
				}
				if err != nil {
					v.Fail(v.t, "kubectl apply creates a llama, and changes it the second time",
						"it prints: "+strings.TrimSpace(output))
				}
			}
			if now := v.send(v.ctx, http.MethodGet,
				llama(ns, "by-kubectl"), nil); numberOf(now.object(), "spec", "weight") != 81.5 {
				v.fail(now, "after kubectl apply the weight is 81.5",
					fmt.Sprintf("it is %v", numberOf(now.object(), "spec", "weight")))
			}
		}))).Feature()
}
