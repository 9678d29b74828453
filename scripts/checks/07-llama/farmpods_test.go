// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
)

func pods(namespace string) string { return resources(namespace, "farmpods") }

// podPatience is how long a namespace may take to get its ServiceAccount, without which no Pod is admitted.
const podPatience = 10 * time.Second

// podLabel is on each Pod, with its name.
const podLabel = "labs.lva.io/pod"

// pod creates a Pod with containers. Their names and images alternate. Nothing has to run.
func (v visit) pod(namespace, name string, containers ...string) {
	v.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podLabel: name}}}
	// A FarmPod shows no init containers.
	pod.Spec.InitContainers = []corev1.Container{{Name: "before", Image: "registry.example/before:1"}}
	for i := 0; i+1 < len(containers); i += 2 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: containers[i], Image: containers[i+1]})
	}
	// On a cluster with nodes, no kubelet starts the Pod.
	pod.Spec.NodeSelector = map[string]string{"labs.lva.io/none": "none"}
	v.eventually("a Pod can be created", podPatience, func() (string, bool) {
		_, err := v.typed.CoreV1().Pods(namespace).Create(v.ctx, pod, metav1.CreateOptions{})
		return fmt.Sprint(err), err == nil
	})
}

// containersOf returns the containers of a FarmPod, as name=image.
func containersOf(object map[string]any) (all []string) {
	found, _, _ := unstructured.NestedSlice(object, "spec", "containers")
	for _, container := range found {
		container, _ := container.(map[string]any)
		all = append(all, textOf(container, "name")+"="+textOf(container, "image"))
	}
	return all
}

// listOf lists FarmPods again until the list is good, for eventPatience at most, and returns the last list. Its callers
// report what is wrong with it.
func (v visit) listOf(namespace, expected string, good func(answer) bool) answer {
	v.t.Helper()
	for began := time.Now(); ; v.Pause(v.ctx, v.t, lookAgain) {
		a := v.want(v.send(v.ctx, http.MethodGet, pods(namespace), nil), expected, http.StatusOK)
		if good(a) || time.Since(began) > eventPatience {
			return a
		}
	}
}

// lacking returns the first name for which a list has no FarmPod with containers. It is empty if there is none.
func lacking(list answer, names []string) string {
	for _, name := range names {
		i := slices.IndexFunc(list.items(), func(item map[string]any) bool { return nameOf(item) == name })
		if i < 0 || len(containersOf(list.items()[i])) == 0 {
			return name
		}
	}
	return ""
}

func farmPods() types.Feature {
	return features.New("FarmPods").
		Assess("show the Pods", check.Assess(step(func(v visit) {
			v.pod(ns, "shearer", "main", "registry.example/shears:1", "helper", "registry.example/broom:2")
			v.pod(otherNS, "driver", "main", "registry.example/truck:3")
			want := []string{"main=registry.example/shears:1", "helper=registry.example/broom:2"}
			var a answer
			v.eventually("GET of the FarmPod farm-shearer answers 200", eventPatience, func() (string, bool) {
				a = v.send(v.ctx, http.MethodGet, pods(ns)+"/farm-shearer", nil)
				return "the answer is " + a.summary(), a.code == http.StatusOK
			})
			if got := containersOf(a.object()); textOf(a.object(), "kind") != "FarmPod" ||
				nameOf(a.object()) != "farm-shearer" || !slices.Equal(got, want) {
				v.fail(a, fmt.Sprintf("it is a FarmPod farm-shearer, "+
					"whose spec.containers have the Pod's names and images: %v", want),
					fmt.Sprintf("it is a %s %s with %v", textOf(a.object(), "kind"), nameOf(a.object()), got))
			}
			v.metadataOf("shearer", a)
			for namespace, names := range map[string][]string{ns: {"farm-shearer"}, "": {"farm-shearer", "farm-driver"}} {
				// A server that watches the Pods sees the second one later.
				const listed = "FarmPods can be listed, in a namespace and in all"
				a := v.listOf(namespace, listed, func(a answer) bool { return lacking(a, names) == "" })
				if name := lacking(a, names); name != "" {
					v.fail(a, fmt.Sprintf("the list has %s with its containers", name), fmt.Sprintf("it has %v", a.names()))
				}
				if namespace == ns && slices.Contains(a.names(), "farm-driver") {
					v.fail(a, "a list of a namespace has only the FarmPods of this namespace", fmt.Sprintf("it has %v", a.names()))
				}
			}
		}))).
		Assess("in a Table, and selected by their names", check.Assess(step(func(v visit) {
			v.row(pods(ns)+"/farm-shearer", "farm-shearer", []column{
				{"Name", "farm-shearer"},
				{"Containers", 2},
				{"Images", []string{"registry.example/shears:1", "registry.example/broom:2"}},
				{"Age", nil},
			})
			v.pod(ns, "shepherd", "main", "registry.example/crook:1")
			v.listOf(ns, "FarmPods can be listed", func(a answer) bool { return lacking(a, []string{"farm-shepherd"}) == "" })
			for _, c := range []struct {
				query string
				want  []string
			}{
				{"fieldSelector=metadata.name=farm-shearer", []string{"farm-shearer"}},
				{"fieldSelector=metadata.name=shearer", []string{}},
				{"fieldSelector=metadata.name!=farm-shearer", []string{"farm-shepherd"}},
				{"labelSelector=" + podLabel + "=shearer", []string{"farm-shearer"}},
				{"labelSelector=" + podLabel + "!=shearer", []string{"farm-shepherd"}},
				{"fieldSelector=metadata.name=farm-shearer,metadata.namespace=" + ns, []string{"farm-shearer"}},
				{"fieldSelector=metadata.namespace=" + otherNS, []string{}},
			} {
				a := v.want(v.send(v.ctx, http.MethodGet, pods(ns)+"?"+escaped(c.query), nil),
					"a list of FarmPods with a selector answers 200", http.StatusOK)
				if !slices.Equal(a.names(), c.want) {
					v.fail(a, fmt.Sprintf("a list with the selector %s has %v", c.query, c.want), fmt.Sprintf("it has %v", a.names()))
				}
			}
		}))).
		Assess("in pages, and as metadata alone", check.Assess(step(visit.farmPodForms))).
		Assess("each with a uid of its own", check.Assess(step(visit.farmPodUIDs))).
		Assess("and are read-only", check.Assess(step(func(v visit) {
			a := v.want(v.send(v.ctx, http.MethodGet, pods(ns)+"/farm-nobody", nil),
				"GET of a FarmPod without a Pod answers 404", http.StatusNotFound)
			if !a.isStatus("NotFound") {
				v.fail(a, "the answer is a Status with the reason NotFound", "the answer is "+a.summary())
			}
			v.about(a, "farmpods", "farm-nobody")
			v.want(v.send(v.ctx, http.MethodGet, pods(ns)+"/shearer", nil),
				"GET of a FarmPod whose name does not begin with farm- answers 404", http.StatusNotFound)
			body := map[string]any{
				"apiVersion": groupVersion,
				"kind":       "FarmPod",
				"metadata":   map[string]any{"name": "farm-made"},
			}
			v.want(v.send(v.ctx, http.MethodPost, pods(ns), body), "FarmPods are read-only: a create answers 405",
				http.StatusMethodNotAllowed)
			v.want(v.send(v.ctx, http.MethodDelete, pods(ns)+"/farm-shearer", nil),
				"FarmPods are read-only: a delete answers 405", http.StatusMethodNotAllowed)
			v.want(v.send(v.ctx, http.MethodDelete, pods(ns), nil),
				"FarmPods are read-only: a deletecollection answers 405", http.StatusMethodNotAllowed)
			body["metadata"] = map[string]any{"name": "farm-shearer"}
			v.want(v.send(v.ctx, http.MethodPut, pods(ns)+"/farm-shearer", body),
				"FarmPods are read-only: an update answers 405", http.StatusMethodNotAllowed)
			v.want(v.send(v.ctx, http.MethodPatch, pods(ns)+"/farm-shearer", `{"metadata":{"labels":{"a":"b"}}}`,
				"Content-Type", string(apitypes.MergePatchType)),
				"FarmPods are read-only: a patch answers 405", http.StatusMethodNotAllowed)
			if _, err := v.typed.CoreV1().Pods(ns).Get(v.ctx, "shearer", metav1.GetOptions{}); err != nil {
				v.Fail(v.t, "FarmPods are read-only: the Pod shearer is still there after all these requests", err.Error())
			}
		}))).
		Assess("in discovery, and with the same uid for ever", check.Assess(step(func(v visit) {
			a := v.send(v.ctx, http.MethodGet, root, nil)
			for _, found := range resourcesIn(a) {
				if textOf(found, "name") == "farmpods" {
					v.described(a, found, "farmpods", "FarmPod", "farmpod", "fp", []string{"get", "list", "watch"})
				}
			}
			if v.kept.farmPodUID == "" {
				return // the server was not restarted, or had no FarmPods before
			}
			a = v.want(v.send(v.ctx, http.MethodGet, pods(pens)+"/"+keptFarmPod, nil),
				"the FarmPod "+keptFarmPod+" is there after a restart of the server", http.StatusOK)
			if uidOf(a.object()) != v.kept.farmPodUID {
				v.fail(a, "the uid of a FarmPod never changes, also when the server is restarted",
					fmt.Sprintf("it is %q, and was %q before a restart", uidOf(a.object()), v.kept.farmPodUID))
			}
		}))).Feature()
}

// metadataOf fails the check unless a FarmPod has the labels and the resourceVersion of its Pod, and its own uid.
func (v visit) metadataOf(name string, a answer) {
	v.t.Helper()
	v.eventually("a FarmPod has the labels and the resourceVersion of its Pod", eventPatience, func() (string, bool) {
		a = v.send(v.ctx, http.MethodGet, pods(ns)+"/farm-"+name, nil)
		pod, err := v.typed.CoreV1().Pods(ns).Get(v.ctx, name, metav1.GetOptions{})
		v.OK(v.t, "reading a Pod", err)
		labels, _, _ := unstructured.NestedStringMap(a.object(), "metadata", "labels")
		return fmt.Sprintf("farm-%s has the resourceVersion %q and the labels %v, and the Pod %q and %v",
				name, versionOf(a.object()), labels, pod.ResourceVersion, pod.Labels),
			versionOf(a.object()) == pod.ResourceVersion && maps.Equal(labels, pod.Labels)
	})
	pod, err := v.typed.CoreV1().Pods(ns).Get(v.ctx, name, metav1.GetOptions{})
	v.OK(v.t, "reading a Pod", err)
	again := v.send(v.ctx, http.MethodGet, pods(ns)+"/farm-"+name, nil)
	is, was := textOf(again.object(), "metadata", "creationTimestamp"), pod.CreationTimestamp.UTC().Format(time.RFC3339)
	if is != "" && is != was {
		v.fail(again, "the creationTimestamp of a FarmPod is that of its Pod",
			fmt.Sprintf("it is %q, and that of the Pod %q", is, was))
	}
	if uid := uidOf(a.object()); uid == "" || uid == string(pod.UID) || uid != uidOf(again.object()) {
		v.fail(again, "a FarmPod has a uid of its own, which is the same in each answer",
			fmt.Sprintf("it is %q, then %q, and that of the Pod is %q", uid, uidOf(again.object()), pod.UID))
	}
}

// pens is a namespace whose Pod exists until the end of the run. keptFarmPod is the FarmPod of this Pod.
const (
	pens        = "llama-checks-pens"
	keptPod     = "kept"
	keptFarmPod = "farm-" + keptPod
)

// keepFarmPod records the uid of a FarmPod, for a comparison after a restart. Other checks report missing FarmPods.
func (v visit) keepFarmPod() {
	v.t.Helper()
	path := pods(pens) + "/" + keptFarmPod
	if v.send(v.ctx, http.MethodGet, path, nil).isStatus("NotFound") {
		v.pod(pens, keptPod, "main", "registry.example/kept:1")
	}
	for began := time.Now(); time.Since(began) < keptPatience; v.Pause(v.ctx, v.t, lookAgain) {
		if a := v.send(v.ctx, http.MethodGet, path, nil); a.code == http.StatusOK {
			v.kept.farmPodUID = uidOf(a.object())
			return
		} else if a.code != http.StatusNotFound {
			return
		}
	}
}

// keptPatience is how long a server that watches Pods may take to see one. Without FarmPods this wait is in vain.
const keptPatience = time.Second

// allowed waits until the API server knows of a user's right.
func (v visit) allowed(user, group, resource, verb string) {
	v.t.Helper()
	v.allowedTo(user, authorizationv1.ResourceAttributes{Namespace: ns, Group: group, Resource: resource, Verb: verb})
}

func (v visit) allowedTo(user string, what authorizationv1.ResourceAttributes) {
	v.t.Helper()
	v.eventually("the right takes effect", grantPatience, func() (string, bool) {
		review := &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &what},
		}
		answer, err := v.typed.AuthorizationV1().SubjectAccessReviews().Create(v.ctx, review, metav1.CreateOptions{})
		return fmt.Sprintf("%v", err), err == nil && answer.Status.Allowed
	})
}

func deputy() types.Feature {
	const visitor = "visitor"
	by := func(user string) []string { return []string{"Impersonate-User", user} }
	return features.New("the confused deputy").
		Assess("does not lend its rights, and serves who may", check.Assess(step(func(v visit) {
			v.pod(ns, "secretive", "main", "registry.example/secret:1")
			v.pod(ns, "discreet", "main", "registry.example/secret:2")
			v.grant(visitor, "", group, "farmpods", "get", "list", "watch")
			v.allowed(visitor, group, "farmpods", "get")
			for _, c := range []struct{ verb, path string }{
				{"get", pods(ns) + "/farm-secretive"},
				{"list", pods(ns)},
				{"list", pods("")},
				{"list", pods(ns) + "?fieldSelector=metadata.name%3Dfarm-secretive"},
				{"watch", pods(ns) + "?watch=true&timeoutSeconds=1"},
				{"watch", pods("") + "?watch=true&timeoutSeconds=1"},
			} {
				a := v.send(v.ctx, http.MethodGet, c.path, nil, by(visitor)...)
				if a.code != http.StatusForbidden {
					v.fail(a,
						fmt.Sprintf("who may %s FarmPods, but not Pods, gets 403: the server must not lend its own rights", c.verb),
						"the answer is "+a.summary())
				}
			}
			v.grant(visitor, ns, "", "pods", "get", "list", "watch")
			v.allowed(visitor, "", "pods", "list")
			for _, path := range []string{pods(ns), pods(ns) + "/farm-secretive"} {
				v.eventually("who may read FarmPods and Pods gets them", grantPatience, func() (string, bool) {
					a := v.send(v.ctx, http.MethodGet, path, nil, by(visitor)...)
					return "the answer is " + a.summary(), a.code == http.StatusOK
				})
			}
			for _, path := range []string{
				pods(otherNS), pods(""), pods(otherNS) + "?watch=true&timeoutSeconds=1", pods(otherNS) + "/farm-secretive",
			} {
				v.want(v.send(v.ctx, http.MethodGet, path, nil, by(visitor)...),
					"a user who may read the Pods of one namespace gets 403 for the FarmPods of others", http.StatusForbidden)
			}
		}))).
		Assess("verb by verb", check.Assess(step(func(v visit) {
			var all []rbacv1.Subject
			verbs := []string{"get", "list", "watch"}
			user := func(verb string) string { return "pods-" + verb }
			for _, verb := range verbs {
				all = append(all, subject("User", user(verb)))
				may := rule("", "pods", verb)
				if verb == "get" {
					may.ResourceNames = []string{"secretive"}
				}
				v.bind("llama-checks-"+user(verb), ns, []rbacv1.Subject{subject("User", user(verb))}, may)
			}
			v.bind("llama-checks-each-verb", "", all, rule(group, "farmpods", verbs...))
			for _, verb := range verbs {
				v.allowed(user(verb), group, "farmpods", verb)
				v.allowedTo(user(verb), authorizationv1.ResourceAttributes{
					Namespace: ns, Resource: "pods", Verb: verb, Name: map[string]string{"get": "secretive"}[verb],
				})
			}
			from := versionOf(v.want(v.send(v.ctx, http.MethodGet, pods(ns), nil),
				"FarmPods can be listed", http.StatusOK).object())
			for _, may := range verbs {
				for verb, path := range map[string]string{
					"get": pods(ns) + "/farm-secretive", "list": pods(ns),
					"watch": pods(ns) + "?watch=true&timeoutSeconds=1&resourceVersion=" + from,
				} {
					if verb == may && verb == "watch" {
						w := v.follow(pods(ns), "&timeoutSeconds=1&resourceVersion="+from, by(user(may))...)
						w.cancel()
						if w.refused != nil {
							v.fail(*w.refused,
								"a user who may watch FarmPods and Pods can watch FarmPods, also without the right to list Pods",
								"the answer is "+w.refused.summary())
						}
						continue
					}
					a := v.send(v.ctx, http.MethodGet, path, nil, by(user(may))...)
					if verb == may && a.code != http.StatusOK {
						v.fail(a, fmt.Sprintf("a user who may %s FarmPods and Pods can %s FarmPods", verb, verb),
							"the answer is "+a.summary())
					}
					if verb != may && a.code != http.StatusForbidden {
						v.fail(a, fmt.Sprintf("a user who may %s FarmPods, but of Pods has only the right to %s, gets 403: "+
							"the server asks for the same verb on Pods", verb, may), "the answer is "+a.summary())
					}
				}
			}
			v.want(v.send(v.ctx, http.MethodGet, pods(ns)+"/farm-discreet", nil, by(user("get"))...),
				"a user who may get only the Pod secretive (resourceNames) gets 403 for the FarmPod of another one",
				http.StatusForbidden)
		}))).Feature()
}

func podsUnreadable() types.Feature {
	return features.New("when Pods can't be read").
		Assess("the answer is a Status", check.Assess(step(func(v visit) {
			ask, headers := v.send, []string(nil)
			if p, ok := v.proxy(); ok {
				ask, headers = p.send, admin // the API server hides a broken connection behind its own answer
			}
			v.pod(ns, "hidden", "main", "registry.example/hidden:1")
			v.eventually("the list of FarmPods has farm-hidden", eventPatience, func() (string, bool) {
				a := v.send(v.ctx, http.MethodGet, pods(ns), nil)
				return fmt.Sprintf("the answer is %s, and has %v", a.summary(), a.names()),
					slices.Contains(a.names(), "farm-hidden")
			})
			v.OK(v.t, "letting reads fail", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
				{Kind: faults.Unavailable, Class: faults.Read, Service: faults.API},
			}}))
			for _, path := range []string{pods(ns), pods(ns) + "/farm-hidden"} {
				a := ask(v.ctx, http.MethodGet, path, nil, headers...)
				broken := a.err != nil || strings.Contains(string(a.body), "error trying to reach service")
				if broken || a.code >= 400 && !a.isStatus("") {
					v.fail(a,
						"while the server can't read Pods, it answers FarmPods with a Status (or from what it knows), and does not crash",
						"the answer is "+a.summary())
				}
				if a.code >= http.StatusBadRequest && a.code < http.StatusInternalServerError && a.code != http.StatusNotFound {
					v.fail(a, "while the server can't read Pods, its answer is 503 (or another one of 500 or more), "+
						"since that is not the user's fault", "the answer is "+a.summary())
				}
				if a.code == http.StatusNotFound || a.code == http.StatusOK && !strings.Contains(string(a.body), "farm-hidden") {
					v.fail(a, "while the server can't read Pods, it does not answer as if there were none",
						"the answer is "+a.summary()+", without farm-hidden")
				}
			}
			w := followBy(v.ctx, v.http, v.host, pods(ns), "&timeoutSeconds=1")
			w.cancel()
			v.failsAsServerError(w.refused)
			v.OK(v.t, "letting reads succeed", v.Faults.Disarm(v.ctx))
			v.eventually("when Pods can be read again, FarmPods are served", startPatience, func() (string, bool) {
				a := v.send(v.ctx, http.MethodGet, pods(ns), nil)
				return "the answer is " + a.summary(), a.code == http.StatusOK
			})
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}
