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
			claimed := newLlama("claimed", 99.5, 1.25)
			claimed["metadata"].(map[string]any)["uid"] = otherUID
			claimed["metadata"].(map[string]any)["creationTimestamp"] = "2001-02-03T04:05:06Z"
			if claims := v.make(here, claimed); uidOf(claims) == otherUID || textOf(claims, "metadata", "creationTimestamp") == "2001-02-03T04:05:06Z" {
				v.Fail(v.t, "the server sets uid and creationTimestamp of a new llama, whatever the client sends",
					fmt.Sprintf("they are those of the client: uid %q, creationTimestamp %q", uidOf(claims), textOf(claims, "metadata", "creationTimestamp")))
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
		Assess("at the same time", check.Assess(step(func(v visit) {
			send := v.directly()
			v.make(here, newLlama("busy", 99.5, 1.25))
			for round := range rushRounds {
				name := fmt.Sprintf("rush-%d", round)
				made := v.rush(send, llama(here, "busy"), func(int) answer { return send(http.MethodPost, llamas(here), newLlama(name, 99.5, 1.25)) })
				if n := len(having(made, http.StatusCreated)); n > 1 || n == 0 && len(having(made, http.StatusConflict)) == len(made) {
					v.Fail(v.t, fmt.Sprintf("of %d creates of one name at the same time one answers 201, and the others 409 AlreadyExists", rushWrites),
						"the answers are "+counted(made), made[0].String())
				}
				for _, a := range made {
					if a.code == http.StatusConflict && !a.isStatus("AlreadyExists") {
						v.fail(a, "the answer is a Status with the reason AlreadyExists", "the answer is "+a.told())
					}
				}
			}
			generated := newLlama("", 99.5, 1.25)
			generated["metadata"] = map[string]any{"generateName": "herd-"}
			made := atOnce(rushWrites, func(int) answer { return send(http.MethodPost, llamas(here), generated) })
			if n := len(having(made, http.StatusConflict)); n > 0 {
				v.Fail(v.t, fmt.Sprintf("each of %d creates with the same generateName at the same time gets a name of its own", rushWrites), "the answers are "+counted(made))
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
			v.want(v.send(v.ctx, http.MethodPost, llamas(here), newLlama("light", 99.5, -0.25)), "a create with a negative height answers 422", http.StatusUnprocessableEntity)
			for _, text := range [][2]any{{"heavy", 1.25}, {99.5, "1.25"}} {
				v.want(v.send(v.ctx, http.MethodPost, llamas(here), newLlama("wordy", text[0], text[1])), "a create with a string instead of a number answers 400", http.StatusBadRequest)
			}
			alpaca := newLlama("alpaca", 99.5, 1.25)
			alpaca["kind"] = "Alpaca"
			v.want(v.send(v.ctx, http.MethodPost, llamas(here), alpaca), "a create whose body is of another kind than the path answers 400", http.StatusBadRequest)
			v.want(v.send(v.ctx, http.MethodPost, llamas(here), newLlama("Not_A_Name", 99.5, 1.25)), "a create with a name that is none (RFC 1123) answers 422", http.StatusUnprocessableEntity)
			v.want(v.send(v.ctx, http.MethodPost, llamas(here), `{"apiVersion":"`+groupVersion+`","kind":"Llama","metadata":`), "a create with a body that is no JSON answers 400", http.StatusBadRequest)
			// The names of fields are case-sensitive.
			for _, field := range []string{"wool", "Weight", "HEIGHT"} {
				odd := newLlama("odd", 99.5, 1.25)
				odd["spec"].(map[string]any)[field] = 7
				v.want(v.send(v.ctx, http.MethodPost, llamas(here)+"?fieldValidation=Strict", odd),
					"a create with fieldValidation=Strict and a field that the kind does not have, spec."+field+", answers 400", http.StatusBadRequest)
				a := v.send(v.ctx, http.MethodPost, llamas(here)+"?fieldValidation=Ignore", odd)
				if a.code == http.StatusCreated && (numberOf(a.object(), "spec", "weight") != 99.5 || numberOf(a.object(), "spec", "height") != 1.25) {
					v.fail(a, "a field that the kind does not have, spec."+field+", sets no other field", "the answer has "+spec(a.object()))
				}
				v.send(v.ctx, http.MethodDelete, llama(here, "odd"), nil)
			}
			stray := newLlama("stray", 99.5, 1.25)
			stray["metadata"].(map[string]any)["namespace"] = there
			v.want(v.send(v.ctx, http.MethodPost, llamas(here), stray), "a create whose body names another namespace than the path answers 400", http.StatusBadRequest)
		}))).Feature()
}

// otherUID is one that no llama has.
const otherUID = "11111111-2222-3333-4444-555555555555"

// How many requests write the same llama at the same time, beside how many that write another one, and how often.
const (
	rushWrites = 16
	rushOthers = 4
	rushRounds = 5
)

// rush sends requests at the same time, and meanwhile patches another llama: so a server has something to wait for.
func (v visit) rush(send func(method, path string, body any, headers ...string) answer, busy string, ask func(i int) answer) []answer {
	v.t.Helper()
	answers := atOnce(rushWrites+rushOthers, func(i int) answer {
		if i < rushOthers {
			return send(http.MethodPatch, busy, fmt.Sprintf(`{"metadata":{"labels":{"at":"%d-%d"}}}`, i, time.Now().UnixNano()), "Content-Type", string(apitypes.MergePatchType))
		}
		return ask(i - rushOthers)
	})
	return answers[rushOthers:]
}

// having are the answers with this code.
func having(answers []answer, code int) (found []answer) {
	for _, a := range answers {
		if a.err == nil && a.code == code {
			found = append(found, a)
		}
	}
	return found
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
			v.OK(v.t, "setting the uid", unstructured.SetNestedField(other, otherUID, "metadata", "uid"))
			v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), other), "a replace with another uid is refused (409 or 422)", http.StatusConflict, http.StatusUnprocessableEntity)
			blind := runtimeCopy(second)
			unstructured.RemoveNestedField(blind, "metadata", "resourceVersion")
			v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), blind), "a replace without a resourceVersion answers 422", http.StatusUnprocessableEntity)
			renamed := runtimeCopy(second)
			v.OK(v.t, "setting the name", unstructured.SetNestedField(renamed, "feeder", "metadata", "name"))
			v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), renamed), "a replace whose body names another llama than the path answers 400", http.StatusBadRequest)
			wrong := runtimeCopy(second)
			v.OK(v.t, "setting the weight", unstructured.SetNestedField(wrong, -5.0, "spec", "weight"))
			v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), wrong), "a replace is validated as a create is: a negative weight answers 422", http.StatusUnprocessableEntity)
			missing := newLlama("nobody", 100, 1.5)
			missing["metadata"].(map[string]any)["resourceVersion"] = versionOf(second)
			v.want(v.send(v.ctx, http.MethodPut, llama(here, "nobody"), missing), "a replace of a llama that does not exist answers 404", http.StatusNotFound)
			if now := v.send(v.ctx, http.MethodGet, llama(here, "eater"), nil); numberOf(now.object(), "spec", "weight") != 120.5 {
				v.fail(now, "what was refused has changed nothing", fmt.Sprintf("the weight is %v and was 120.5", numberOf(now.object(), "spec", "weight")))
			}
			// What the server has set, a client can neither change nor leave out.
			for _, field := range []string{"uid", "creationTimestamp"} {
				bare := runtimeCopy(v.send(v.ctx, http.MethodGet, llama(here, "eater"), nil).object())
				unstructured.RemoveNestedField(bare, "metadata", field)
				v.want(v.send(v.ctx, http.MethodPut, llama(here, "eater"), bare), "a replace without metadata."+field+" answers 200", http.StatusOK)
			}
			aged := runtimeCopy(v.send(v.ctx, http.MethodGet, llama(here, "eater"), nil).object())
			v.OK(v.t, "setting the creationTimestamp", unstructured.SetNestedField(aged, "2001-02-03T04:05:06Z", "metadata", "creationTimestamp"))
			v.send(v.ctx, http.MethodPut, llama(here, "eater"), aged) // which is refused, or changes nothing
			now := v.send(v.ctx, http.MethodGet, llama(here, "eater"), nil)
			if is, was := textOf(now.object(), "metadata", "creationTimestamp"), textOf(first, "metadata", "creationTimestamp"); is != was || uidOf(now.object()) != uidOf(first) {
				v.fail(now, "a replace keeps uid and creationTimestamp, whatever the client sends or leaves out", fmt.Sprintf("uid %q was %q, creationTimestamp %q was %q", uidOf(now.object()), uidOf(first), is, was))
			}
		}))).
		Assess("at the same time", check.Assess(step(func(v visit) {
			send := v.directly()
			v.make(here, newLlama("busy", 100, 1.5))
			stored := v.make(here, newLlama("wanted", 100, 1.5))
			for range rushRounds {
				made := v.rush(send, llama(here, "busy"), func(i int) answer {
					mine := runtimeCopy(stored)
					mine["spec"] = map[string]any{"weight": float64(i + 1), "height": 1.5}
					mine["metadata"].(map[string]any)["labels"] = map[string]any{"by": fmt.Sprintf("writer-%d-of-%s", i, versionOf(stored))}
					return send(http.MethodPut, llama(here, "wanted"), mine)
				})
				won := having(made, http.StatusOK)
				if len(won) > 1 || len(won) == 0 && len(having(made, http.StatusConflict)) == len(made) {
					v.Fail(v.t, fmt.Sprintf("of %d replaces with the same resourceVersion at the same time one answers 200, and the others 409 Conflict", rushWrites),
						"the answers are "+counted(made), made[0].String())
				}
				now := v.send(v.ctx, http.MethodGet, llama(here, "wanted"), nil)
				if len(won) == 1 && versionOf(now.object()) != versionOf(won[0].object()) || len(won) == 1 && spec(now.object()) != spec(won[0].object()) {
					v.fail(now, "the replace that is answered with 200 is the one that is stored", fmt.Sprintf("the answer was %s at %s, and there is %s at %s",
						spec(won[0].object()), versionOf(won[0].object()), spec(now.object()), versionOf(now.object())))
				}
				stored = now.object()
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
			send(apitypes.MergePatchType, `{"metadata":{"uid":"`+otherUID+`"}}`) // which is refused, or changes nothing
			absent := v.send(v.ctx, http.MethodPatch, llama(here, "nobody"), `{"spec":{"weight":1}}`, "Content-Type", string(apitypes.MergePatchType))
			v.want(absent, "a patch of a llama that does not exist answers 404", http.StatusNotFound)
			v.want(send("application/shears+json", `{"spec":{"weight":1}}`), "a patch of a type that nobody serves answers 415", http.StatusUnsupportedMediaType)
			// It changes nothing, since a server of built-in types, as one on k8s.io/apiserver is, may serve it.
			v.want(send(apitypes.StrategicMergePatchType, `{"spec":{"weight":91}}`), "a strategic merge patch answers 415, or 200 where it is served", http.StatusUnsupportedMediaType, http.StatusOK)
			if now := v.send(v.ctx, http.MethodGet, llama(here, "patched"), nil); fmt.Sprint(numberOf(now.object(), "spec", "weight")) != "91" {
				v.fail(now, "what was refused has changed nothing", fmt.Sprintf("the weight is %v and was 91", numberOf(now.object(), "spec", "weight")))
			} else if uidOf(now.object()) != uidOf(first) {
				v.fail(now, "a patch cannot change the uid", fmt.Sprintf("it is %q, and was %q", uidOf(now.object()), uidOf(first)))
			}
		}))).
		Assess("at the same time", check.Assess(step(func(v visit) {
			send := v.directly()
			v.make(here, newLlama("busy", 100, 1.5))
			v.make(here, newLlama("shared", 100, 1.5))
			made := v.rush(send, llama(here, "busy"), func(i int) answer {
				return send(http.MethodPatch, llama(here, "shared"), fmt.Sprintf(`{"metadata":{"labels":{"patch-%d":"yes"}}}`, i), "Content-Type", string(apitypes.MergePatchType))
			})
			now := v.send(v.ctx, http.MethodGet, llama(here, "shared"), nil)
			labels, _, _ := unstructured.NestedStringMap(now.object(), "metadata", "labels")
			for i, a := range made {
				if name := fmt.Sprintf("patch-%d", i); a.code == http.StatusOK && labels[name] == "" {
					v.fail(now, fmt.Sprintf("of %d merge patches at the same time none undoes another one: each label is there whose patch was answered with 200", rushWrites),
						fmt.Sprintf("the label %s is missing, and there are %d", name, len(labels)))
				}
			}
			if len(having(made, http.StatusOK)) == 0 {
				v.Fail(v.t, fmt.Sprintf("%d merge patches of different labels at the same time are answered with 200", rushWrites), "the answers are "+counted(made))
			}
		}))).
		Assess("fields that the kind does not have", check.Assess(step(func(v visit) {
			first := v.make(here, newLlama("strict", 100, 1.5))
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
					{"create", http.MethodPost, llamas(here), fresh},
					{"replace", http.MethodPut, llama(here, "strict"), odd(path...)},
					{"merge patch", http.MethodPatch, llama(here, "strict"), merge},
				} {
					headers := []string{"Content-Type", "application/json"}
					refused := []int{http.StatusBadRequest}
					if c.method == http.MethodPatch {
						headers[1] = string(apitypes.MergePatchType)
						refused = append(refused, http.StatusUnprocessableEntity) // as k8s.io/apiserver does
					}
					v.want(v.send(v.ctx, c.method, c.path+"?fieldValidation=Strict", c.body, headers...),
						fmt.Sprintf("a %s with fieldValidation=Strict and a field that the kind does not have, %s, answers 400", c.verb, field), refused...)
					a := v.send(v.ctx, c.method, c.path+"?fieldValidation=Warn&dryRun=All", c.body, headers...)
					if a.code != http.StatusOK && a.code != http.StatusCreated || !strings.Contains(strings.Join(a.header.Values("Warning"), " "), path[len(path)-1]) {
						v.fail(a, fmt.Sprintf("a %s with fieldValidation=Warn and a field that the kind does not have, %s, succeeds, and its header Warning names the field", c.verb, field),
							fmt.Sprintf("the answer is %s, with the Warning %q", a.told(), a.header.Values("Warning")))
					}
				}
			}
			if now := v.send(v.ctx, http.MethodGet, llama(here, "strict"), nil); versionOf(now.object()) != versionOf(first) {
				v.fail(now, "what was refused has changed nothing", fmt.Sprintf("the resourceVersion is %q and was %q", versionOf(now.object()), versionOf(first)))
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
				"uid":             `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"` + otherUID + `"}}`,
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
			marked := textOf(a.object(), "metadata", "deletionTimestamp")
			// put sends the llama as it is, but for its deletionTimestamp, and for its finalizers unless they are kept.
			put := func(timestamp string, keep bool) answer {
				object := runtimeCopy(v.send(v.ctx, http.MethodGet, llama(here, "held"), nil).object())
				unstructured.RemoveNestedField(object, "metadata", "deletionTimestamp")
				unstructured.RemoveNestedField(object, "metadata", "deletionGracePeriodSeconds")
				if !keep {
					unstructured.RemoveNestedField(object, "metadata", "finalizers")
				}
				if timestamp != "" {
					v.OK(v.t, "setting the deletionTimestamp", unstructured.SetNestedField(object, timestamp, "metadata", "deletionTimestamp"))
				}
				return v.send(v.ctx, http.MethodPut, llama(here, "held"), object)
			}
			still := func(expected string) {
				v.t.Helper()
				now := v.send(v.ctx, http.MethodGet, llama(here, "held"), nil)
				if is := textOf(now.object(), "metadata", "deletionTimestamp"); is != marked {
					v.fail(now, expected, fmt.Sprintf("its deletionTimestamp is %q and was %q, and the answer is %s", is, marked, now.told()))
				}
			}
			// Each is done without effect on the deletion, or refused.
			put("", true)
			still("an update cannot take back a deletion: a llama that is being deleted keeps its deletionTimestamp")
			v.send(v.ctx, http.MethodPatch, llama(here, "held"), `{"metadata":{"deletionTimestamp":null}}`, "Content-Type", string(apitypes.MergePatchType))
			still("a patch cannot take back a deletion: a llama that is being deleted keeps its deletionTimestamp")
			v.send(v.ctx, http.MethodDelete, llama(here, "held")+rehearse, nil)
			still("a dry run of a delete changes nothing")
			v.send(v.ctx, http.MethodDelete, llama(here, "held"), nil)
			still("a second delete of a llama with a finalizer does not remove it")
			v.want(put("", false), "an update can remove a finalizer", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(here, "held"), nil),
				"a llama that is being deleted is gone when an update removes its last finalizer, also one without a deletionTimestamp: 404", http.StatusNotFound)
			marked = ""
			v.make(here, held)
			put("2001-02-03T04:05:06Z", true)
			still("only a delete sets a deletionTimestamp: an update that has one deletes nothing")
			v.want(v.send(v.ctx, http.MethodDelete, llama(here, "held"), nil), "a delete of a llama with a finalizer answers 200 or 202", http.StatusOK, http.StatusAccepted)
			v.want(release(v.ctx), "a finalizer can be removed by a merge patch", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(here, "held"), nil), "a llama that is being deleted is gone when its last finalizer is removed: 404", http.StatusNotFound)
		}))).
		Assess("many", check.Assess(step(func(v visit) {
			v.make(here, labelled("old-1", "age", "old"))
			v.make(here, labelled("old-2", "age", "old"))
			v.make(here, labelled("young", "age", "young"))
			v.make(there, labelled("old-elsewhere", "age", "old"))
			other := `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"` + otherUID + `"}}`
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
			v.want(v.send(v.ctx, http.MethodDelete, llamas(here)+"?fieldSelector=spec.shoes%3D4", nil),
				"a deletecollection with a field selector for a field that is not served answers 400, and deletes nothing", http.StatusBadRequest)
			v.make(here, newLlama("chosen", 100, 1.5))
			if v.selectsByName("chosen") { // or that is for another check
				v.want(v.send(v.ctx, http.MethodDelete, llamas(here)+"?fieldSelector=metadata.name%3Dchosen", nil), "a deletecollection with a field selector answers 200", http.StatusOK)
				if a := v.send(v.ctx, http.MethodGet, llamas(here), nil); slices.Contains(a.names(), "chosen") || !slices.Contains(a.names(), "young") {
					v.fail(a, "a deletecollection with the field selector metadata.name=chosen removes chosen alone", fmt.Sprintf("there are %v", a.names()))
				}
			}
			if output, ok, err := v.kubectl("", "delete", "llamas", "--all", "-n", here, "--timeout=5s"); ok && err != nil {
				v.Fail(v.t, "kubectl delete llamas --all removes all, and sees that they are gone", "it prints: "+strings.TrimSpace(output))
			}
		}))).Feature()
}

// selectsByName says whether a list with a field selector has one llama alone.
func (v visit) selectsByName(name string) bool {
	return slices.Equal(v.send(v.ctx, http.MethodGet, llamas(here)+"?fieldSelector=metadata.name%3D"+name, nil).names(), []string{name})
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
			// kubectl delete --dry-run=server sends it in the body.
			const options = `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`
			v.want(v.send(v.ctx, http.MethodDelete, llama(here, "unchanged"), options), "a delete with dryRun in its DeleteOptions answers 200", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(here, "unchanged"), nil), "a delete with dryRun in its DeleteOptions deletes nothing", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodDelete, llamas(here), options), "a deletecollection with dryRun in its DeleteOptions answers 200", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodGet, llama(here, "unchanged"), nil), "a deletecollection with dryRun in its DeleteOptions deletes nothing", http.StatusOK)
			v.want(v.send(v.ctx, http.MethodDelete, llama(here, "rehearsed")+rehearse, nil), "a dry run of a delete of a llama that does not exist answers 404", http.StatusNotFound)
			a = v.want(v.send(v.ctx, http.MethodGet, llama(here, "unchanged"), nil), "after dry runs the llama is still there", http.StatusOK)
			if versionOf(a.object()) != versionOf(first) {
				v.fail(a, "dry runs change nothing", fmt.Sprintf("the resourceVersion %q was %q, and the weight is %v", versionOf(a.object()), versionOf(first), numberOf(a.object(), "spec", "weight")))
			}
			v.want(v.send(v.ctx, http.MethodPost, llamas(here)+rehearse, newLlama("light", -1, 1.5)), "a dry run is validated: a negative weight answers 422", http.StatusUnprocessableEntity)
			// Without a dry run these are for other checks.
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
				rehearsed := v.send(v.ctx, c.method, llama(here, "unchanged")+rehearse, c.body)
				if rehearsed.code == http.StatusConflict {
					continue
				}
				if v.send(v.ctx, c.method, llama(here, "unchanged"), c.body).code == http.StatusConflict {
					v.fail(rehearsed, "a dry run of "+c.what+" answers 409, as without a dry run", "the answer is "+rehearsed.told())
				}
				break
			}
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
		}))).
		Assess("of each form, and of all namespaces", check.Assess(step(func(v visit) {
			// Their order is another one where the name of a namespace, or of a llama, is followed by a separator: here is the beginning
			// of there.
			var want, wantHere []string
			for _, name := range []string{"b", "b-1", "b.1", "b1", "a-z", "c"} {
				v.make(here, labelled(name, "set", "forms"))
				wantHere = append(wantHere, here+"/"+name)
			}
			want = append(want, wantHere...)
			for _, name := range []string{"a", "b", "b-1", "z"} {
				v.make(there, labelled(name, "set", "forms"))
				want = append(want, there+"/"+name)
			}
			slices.Sort(want)
			slices.Sort(wantHere)
			all, send := v.listsAll(), v.directly()
			for _, form := range []struct{ what, accept string }{
				{"a list", "application/json"}, {"a Table", acceptTable}, {"a PartialObjectMetadataList", acceptMetadata},
			} {
				for _, limit := range []int{1, 4} {
					v.pages(send, here, form.what, form.accept, limit, wantHere)
					if all {
						v.pages(send, "", form.what, form.accept, limit, want)
					}
				}
			}
		}))).
		Assess("of one state", check.Assess(step(func(v visit) {
			for i := range 5 {
				v.make(here, labelled(fmt.Sprintf("s-%d", i), "set", "state"))
			}
			const path = "?limit=2&labelSelector=set%3Dstate"
			first := v.want(v.send(v.ctx, http.MethodGet, llamas(here)+path, nil), "a page of a list answers 200", http.StatusOK)
			v.make(here, labelled("s-2a", "set", "state"))
			v.drop(here, "s-3")
			v.change(here, "s-4", `{"metadata":{"labels":{"set":"other"}}}`)
			names := first.names()
			for next, a := textOf(first.object(), "metadata", "continue"), first; next != ""; next = textOf(a.object(), "metadata", "continue") {
				a = v.want(v.send(v.ctx, http.MethodGet, llamas(here)+path+"&continue="+url.QueryEscape(next), nil), "a page of a list answers 200", http.StatusOK)
				if versionOf(a.object()) != versionOf(first.object()) {
					v.fail(a, "all pages of a list have the same resourceVersion", fmt.Sprintf("it is %q, and that of the first page %q", versionOf(a.object()), versionOf(first.object())))
				}
				if names = append(names, a.names()...); len(names) > 20 {
					break
				}
			}
			if want := []string{"s-0", "s-1", "s-2", "s-3", "s-4"}; !slices.Equal(slices.Sorted(slices.Values(names)), want) {
				v.Fail(v.t, fmt.Sprintf("all pages show the state at the resourceVersion of the first one: %v, although meanwhile s-2a was created, s-3 deleted, and s-4 is no longer selected", want),
					fmt.Sprintf("they have %v", names))
			}
		}))).Feature()
}

// acceptMetadata asks for the metadata of a list alone.
const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// pages fails the check unless the pages of a list, in the form that a client accepts, have each of these llamas once.
func (v visit) pages(
	send func(method, path string, body any, headers ...string) answer, namespace, what, accept string, limit int, want []string,
) {
	v.t.Helper()
	var got []string
	next := ""
	for range len(want) + 1 {
		path := fmt.Sprintf("%s?limit=%d&labelSelector=set%%3Dforms&continue=%s", llamas(namespace), limit, url.QueryEscape(next))
		a := v.want(send(http.MethodGet, path, nil, "Accept", accept), "a page of "+what+" answers 200", http.StatusOK)
		items := a.items()
		rows, _, _ := unstructured.NestedSlice(a.object(), "rows")
		for _, row := range rows {
			row, _ := row.(map[string]any)
			object, _ := row["object"].(map[string]any)
			items = append(items, object)
		}
		if len(items) > limit {
			v.fail(a, fmt.Sprintf("a page of %s has at most as many llamas as its limit, %d", what, limit), fmt.Sprintf("it has %d", len(items)))
		}
		for _, item := range items {
			got = append(got, keyOf(item))
		}
		if next = textOf(a.object(), "metadata", "continue"); next == "" {
			break
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		of := "the namespace " + namespace
		if namespace == "" {
			of = "all namespaces"
		}
		v.Fail(v.t, fmt.Sprintf("the pages of %s of %s, with limit=%d and continue, have %v, each once", what, of, limit, want), fmt.Sprintf("they have %v", got))
	}
}
