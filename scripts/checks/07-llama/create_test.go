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
			a := v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama("born", 99.5, 1.25)),
				"a create answers 201", http.StatusCreated)
			object := a.object()
			if _, err := time.Parse(time.RFC3339, textOf(object, "metadata", "creationTimestamp")); err != nil ||
				uidOf(object) == "" || versionOf(object) == "" {
				v.fail(a, "the answer has the llama's uid, creationTimestamp and resourceVersion",
					fmt.Sprintf("uid is %q, creationTimestamp %q, resourceVersion %q",
						uidOf(object), textOf(object, "metadata", "creationTimestamp"), versionOf(object)))
			}
			if textOf(object, "metadata", "namespace") != ns {
				v.fail(a, "metadata.namespace is that of the path",
					fmt.Sprintf("it is %q", textOf(object, "metadata", "namespace")))
			}
			claimed := newLlama("claimed", 99.5, 1.25)
			claimed["metadata"].(map[string]any)["uid"] = otherUID
			claimed["metadata"].(map[string]any)["creationTimestamp"] = "2001-02-03T04:05:06Z"
			if claims := v.create(ns, claimed); uidOf(claims) == otherUID ||
				textOf(claims, "metadata", "creationTimestamp") == "2001-02-03T04:05:06Z" {
				v.Fail(v.t, "the server sets uid and creationTimestamp of a new llama, whatever the client sends",
					fmt.Sprintf("they are those of the client: uid %q, creationTimestamp %q",
						uidOf(claims), textOf(claims, "metadata", "creationTimestamp")))
			}
			dated := newLlama("dated", 99.5, 1.25)
			dated["metadata"].(map[string]any)["resourceVersion"] = otherVersion
			if a := v.send(v.ctx, http.MethodPost, llamas(ns), dated); a.code == http.StatusCreated &&
				versionOf(a.object()) == otherVersion {
				v.fail(a, "the server sets the resourceVersion of a new llama, whatever the client sends",
					"it is the one that the client sent, "+otherVersion)
			}
			v.discoveryHas("create")
			again := v.want(v.send(v.ctx, http.MethodGet, llama(ns, "born"), nil), "a llama that was created can be read",
				http.StatusOK)
			if uidOf(again.object()) != uidOf(object) || versionOf(again.object()) != versionOf(object) {
				v.fail(again, "a llama reads back with the uid and the resourceVersion of the create's answer",
					fmt.Sprintf("uid %q became %q, resourceVersion %q became %q",
						uidOf(object), uidOf(again.object()), versionOf(object), versionOf(again.object())))
			}
		}))).
		Assess("generateName", check.Assess(step(func(v visit) {
			generated := newLlama("", 99.5, 1.25)
			generated["metadata"] = map[string]any{"generateName": "twin-"}
			first, second := v.create(ns, generated), v.create(ns, generated)
			if !strings.HasPrefix(nameOf(first), "twin-") || nameOf(first) == "twin-" || nameOf(first) == nameOf(second) {
				v.Fail(v.t, "generateName gives each llama a name of its own, which begins with it",
					fmt.Sprintf("the names are %q and %q", nameOf(first), nameOf(second)))
			}
			generated["metadata"] = map[string]any{"generateName": "twin-", "name": "only-child"}
			if named := v.create(ns, generated); nameOf(named) != "only-child" {
				v.Fail(v.t, "a create with a name and a generateName uses the name, only-child", "the name is "+nameOf(named))
			}
		}))).
		Assess("at the same time", check.Assess(step(func(v visit) {
			send := v.directly()
			v.create(ns, newLlama("busy", 99.5, 1.25))
			for round := range rushRounds {
				name := fmt.Sprintf("rush-%d", round)
				replies := v.rush(send, llama(ns, "busy"), func(int) answer {
					return send(http.MethodPost, llamas(ns), newLlama(name, 99.5, 1.25))
				})
				if n := len(having(replies, http.StatusCreated)); n > 1 ||
					n == 0 && len(having(replies, http.StatusConflict)) == len(replies) {
					v.Fail(v.t, fmt.Sprintf("of %d creates of one name at the same time "+
						"one answers 201, and the others 409 AlreadyExists", rushWrites),
						"the answers are "+counted(replies), replies[0].String())
				}
				for _, a := range replies {
					if a.code == http.StatusConflict && !a.isStatus("AlreadyExists") {
						v.fail(a, "the answer is a Status with the reason AlreadyExists", "the answer is "+a.summary())
					}
				}
			}
			generated := newLlama("", 99.5, 1.25)
			generated["metadata"] = map[string]any{"generateName": "herd-"}
			replies := atOnce(rushWrites, func(int) answer { return send(http.MethodPost, llamas(ns), generated) })
			if n := len(having(replies, http.StatusConflict)); n > 0 {
				v.Fail(v.t,
					fmt.Sprintf("each of %d creates with the same generateName at the same time gets a name of its own", rushWrites),
					"the answers are "+counted(replies))
			}
		}))).
		Assess("valid extremes", check.Assess(step(func(v visit) {
			for i, c := range limitNumbers {
				name := fmt.Sprintf("limit-%d", i)
				v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama(name, c.weight, c.height)),
					fmt.Sprintf("a create with the weight %v and the height %v answers 201, since neither is negative",
						c.weight, c.height), http.StatusCreated)
			}
			v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama(longName, 99.5, 1.25)),
				fmt.Sprintf("a create with a name of %d characters, the longest valid name, answers 201",
					len(longName)), http.StatusCreated)
		}))).
		Assess("what is wrong is refused", check.Assess(step(func(v visit) {
			v.create(ns, newLlama("taken", 99.5, 1.25))
			a := v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama("taken", 99.5, 1.25)),
				"a second create with the same name answers 409", http.StatusConflict)
			if !a.isStatus("AlreadyExists") {
				v.fail(a, "the answer is a Status with the reason AlreadyExists", "the answer is "+a.summary())
			}
			invalid := v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama("light", -1, 1.25)),
				"a create with a negative weight answers 422", http.StatusUnprocessableEntity)
			if !invalid.isStatus("Invalid") {
				v.fail(invalid, "the answer is a Status with the reason Invalid", "the answer is "+invalid.summary())
			}
			v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama("light", 99.5, -0.25)),
				"a create with a negative height answers 422", http.StatusUnprocessableEntity)
			for _, c := range []limitNumber{{-smallNumber, 1.25}, {99.5, -smallNumber}} {
				v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama("light", c.weight, c.height)),
					fmt.Sprintf("a create with the weight %v and the height %v answers 422, "+
						"since one of them is negative", c.weight, c.height),
					http.StatusUnprocessableEntity)
			}
			for _, text := range [][2]any{{"heavy", 1.25}, {99.5, "1.25"}} {
				v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama("wordy", text[0], text[1])),
					"a create with a string instead of a number answers 400", http.StatusBadRequest)
			}
			for field, other := range map[string]string{"kind": "Alpaca", "apiVersion": group + "/v1"} {
				alpaca := newLlama("alpaca", 99.5, 1.25)
				alpaca[field] = other
				v.want(v.send(v.ctx, http.MethodPost, llamas(ns), alpaca),
					"a create answers 400 if the "+field+" of the body is not that of the path", http.StatusBadRequest)
			}
			for _, name := range []string{"Not_A_Name", "UPPER", "-begins", "ends-", "with/slash", longName + "a", ""} {
				v.want(v.send(v.ctx, http.MethodPost, llamas(ns), newLlama(name, 99.5, 1.25)),
					fmt.Sprintf("a create with the name %q, which is not valid (RFC 1123), answers 422",
						shortened(name)), http.StatusUnprocessableEntity)
			}
			v.want(v.send(v.ctx, http.MethodPost, llamas(ns), `{"apiVersion":"`+groupVersion+`","kind":"Llama","metadata":`),
				"a create with a body that is no JSON answers 400", http.StatusBadRequest)
			// The names of fields are case-sensitive.
			for _, field := range []string{"wool", "Weight", "HEIGHT"} {
				odd := newLlama("odd", 99.5, 1.25)
				odd["spec"].(map[string]any)[field] = 7
				v.want(v.send(v.ctx, http.MethodPost, llamas(ns)+"?fieldValidation=Strict", odd),
					"a create with fieldValidation=Strict and a field that the kind does not have, spec."+field+", answers 400",
					http.StatusBadRequest)
				a := v.send(v.ctx, http.MethodPost, llamas(ns)+"?fieldValidation=Ignore", odd)
				if a.code == http.StatusCreated &&
					(numberOf(a.object(), "spec", "weight") != 99.5 || numberOf(a.object(), "spec", "height") != 1.25) {
					v.fail(a, "a field that the kind does not have, spec."+field+", sets no other field",
						"the answer has "+spec(a.object()))
				}
				v.send(v.ctx, http.MethodDelete, llama(ns, "odd"), nil)
			}
			stray := newLlama("stray", 99.5, 1.25)
			stray["metadata"].(map[string]any)["namespace"] = otherNS
			v.want(v.send(v.ctx, http.MethodPost, llamas(ns), stray),
				"a create whose body names another namespace than the path answers 400", http.StatusBadRequest)
		}))).Feature()
}

// otherUID and otherVersion are a uid and a resourceVersion of no llama.
const (
	otherUID     = "11111111-2222-3333-4444-555555555555"
	otherVersion = "1234567890123"
)

// limitNumber is a pair of a weight and a height.
type limitNumber struct{ weight, height float64 }

// smallNumber is a positive number close to 0.
const smallNumber = 1e-9

// limitNumbers are the least valid numbers, since 0 is not negative, and longName is the longest valid name.
var (
	limitNumbers = []limitNumber{{0, 1.25}, {99.5, 0}, {0, 0}, {smallNumber, 1.25}, {99.5, smallNumber}}
	longName     = strings.Repeat("a", 253)
)

// discoveryHas fails the check unless discovery has a verb for llamas.
func (v visit) discoveryHas(verb string) {
	v.t.Helper()
	a := v.send(v.ctx, http.MethodGet, root, nil)
	for _, resource := range resourcesIn(a) {
		verbs, _, _ := unstructured.NestedStringSlice(resource, "verbs")
		if textOf(resource, "name") == "llamas" && !slices.Contains(verbs, verb) {
			v.fail(a, "discovery lists the verb "+verb+" for llamas, since the server serves it",
				fmt.Sprintf("they have %v", verbs))
		}
	}
}

// These constants are how many requests write the same llama at the same time, how many write another one, and how
// often.
const (
	rushWrites = 16
	rushOthers = 4
	rushRounds = 5
)

// rush sends requests at the same time, and patches another llama in the meantime, so that a server has something to
// wait for.
func (v visit) rush(
	send func(method, path string, body any, headers ...string) answer, busy string, ask func(i int) answer,
) []answer {
	v.t.Helper()
	answers := atOnce(rushWrites+rushOthers, func(i int) answer {
		if i < rushOthers {
			return send(http.MethodPatch, busy, fmt.Sprintf(`{"metadata":{"labels":{"at":"%d-%d"}}}`, i, time.Now().UnixNano()),
				"Content-Type", string(apitypes.MergePatchType))
		}
		return ask(i - rushOthers)
	})
	return answers[rushOthers:]
}

// having returns the answers with this code.
func having(answers []answer, code int) (found []answer) {
	for _, a := range answers {
		if a.err == nil && a.code == code {
			found = append(found, a)
		}
	}
	return found
}

func namespaces() types.Feature {
	return features.New("namespaces").
		Assess("one that does not exist", check.Assess(step(func(v visit) {
			a := v.want(v.send(v.ctx, http.MethodPost, llamas("llama-checks-nowhere"), newLlama("homeless", 100, 1.5)),
				"a create in a namespace that does not exist answers 404", http.StatusNotFound)
			if !a.isStatus("NotFound") {
				v.fail(a, "the answer is a Status with the reason NotFound", "the answer is "+a.summary())
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
			// Even a server that watches namespaces must know a new one.
			v.create(namespace.Name, newLlama("early", 100, 1.5))
			v.want(v.send(v.ctx, http.MethodPost, llamas("llama-checks-nowhere")+rehearse, newLlama("homeless", 100, 1.5)),
				"a dry run of a create in a namespace that does not exist answers 404", http.StatusNotFound)
			v.OK(v.t, "deleting a namespace", all.Delete(v.ctx, namespace.Name, metav1.DeleteOptions{}))
			// A server that watches namespaces may need a moment to see a deletion.
			var a answer
			for attempt, began := 0, time.Now(); ; attempt++ {
				late := newLlama(fmt.Sprintf("late-%d", attempt), 100, 1.5)
				last := time.Since(began) > namespaceLag
				a = v.send(v.ctx, http.MethodPost, llamas(namespace.Name), late)
				if a.code != http.StatusCreated || last {
					break
				}
				v.Pause(v.ctx, v.t, lookAgain)
			}
			const expected = "a create in a namespace that is being deleted answers 403 with the reason Forbidden"
			v.want(a, expected, http.StatusForbidden)
			causes, _, _ := unstructured.NestedSlice(a.object(), "details", "causes")
			generated := newLlama("", 100, 1.5)
			generated["metadata"] = map[string]any{"generateName": "late-"}
			for what, b := range map[string]answer{
				"a dry run of it": v.send(v.ctx, http.MethodPost, llamas(namespace.Name)+rehearse,
					newLlama("late", 100, 1.5)),
				"one with generateName": v.send(v.ctx, http.MethodPost, llamas(namespace.Name), generated),
			} {
				v.want(b, expected+", and so does "+what, http.StatusForbidden)
			}
			if !a.isStatus("Forbidden") || !slices.ContainsFunc(causes, func(cause any) bool {
				object, _ := cause.(map[string]any)
				return textOf(object, "reason") == string(corev1.NamespaceTerminatingCause)
			}) {
				v.fail(a, expected+", and a cause with the reason NamespaceTerminating in its details",
					fmt.Sprintf("the answer is %s, with the causes %v", a.summary(), causes))
			}
		}))).Feature()
}

// namespaceLag is how long a server may take to see that a namespace is being deleted. The task page allows a second,
// and a busy machine may need more.
const namespaceLag = 5 * time.Second
