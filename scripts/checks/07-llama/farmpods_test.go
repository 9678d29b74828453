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

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/faults"
)

func pods(namespace string) string { return resources(namespace, "farmpods") }

// podPatience is for a namespace to get its ServiceAccount, without which no Pod is admitted.
const podPatience = 10 * time.Second

// pod makes a Pod with containers, name and image in turn. Nothing has to run.
func (v visit) pod(namespace, name string, containers ...string) {
	v.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := 0; i+1 < len(containers); i += 2 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: containers[i], Image: containers[i+1]})
	}
	// On a cluster with nodes no kubelet begins with it.
	pod.Spec.NodeSelector = map[string]string{"labs.lva.io/none": "none"}
	v.eventually("a Pod can be created", podPatience, func() (string, bool) {
		_, err := v.typed.CoreV1().Pods(namespace).Create(v.ctx, pod, metav1.CreateOptions{})
		return fmt.Sprint(err), err == nil
	})
}

// containers are those of a FarmPod, as name=image.
func containersOf(object map[string]any) (all []string) {
	found, _, _ := unstructured.NestedSlice(object, "spec", "containers")
	for _, container := range found {
		container, _ := container.(map[string]any)
		all = append(all, textOf(container, "name")+"="+textOf(container, "image"))
	}
	return all
}

// listOf lists FarmPods again until the list is good, for eventPatience at most, and returns the last one: what is wrong
// with it is for others to say.
func (v visit) listOf(namespace, expected string, good func(answer) bool) answer {
	v.t.Helper()
	for began := time.Now(); ; v.Pause(v.ctx, v.t, lookAgain) {
		a := v.want(v.send(v.ctx, http.MethodGet, pods(namespace), nil), expected, http.StatusOK)
		if good(a) || time.Since(began) > eventPatience {
			return a
		}
	}
}

// lacking is the first of the names of which a list has no FarmPod with containers; empty: it has all.
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
			v.pod(here, "shearer", "main", "registry.example/shears:1", "helper", "registry.example/broom:2")
			v.pod(there, "driver", "main", "registry.example/truck:3")
			want := []string{"main=registry.example/shears:1", "helper=registry.example/broom:2"}
			var a answer
			v.eventually("GET of the FarmPod farm-shearer answers 200", eventPatience, func() (string, bool) {
				a = v.send(v.ctx, http.MethodGet, pods(here)+"/farm-shearer", nil)
				return "the answer is " + a.told(), a.code == http.StatusOK
			})
			if got := containersOf(a.object()); textOf(a.object(), "kind") != "FarmPod" || nameOf(a.object()) != "farm-shearer" || !slices.Equal(got, want) {
				v.fail(a, fmt.Sprintf("it is a FarmPod farm-shearer, whose spec.containers have the Pod's names and images: %v", want),
					fmt.Sprintf("it is a %s %s with %v", textOf(a.object(), "kind"), nameOf(a.object()), got))
			}
			for namespace, names := range map[string][]string{here: {"farm-shearer"}, "": {"farm-shearer", "farm-driver"}} {
				// A server that watches the Pods hears of the second one later.
				const listed = "FarmPods can be listed, in a namespace and in all"
				a := v.listOf(namespace, listed, func(a answer) bool { return lacking(a, names) == "" })
				if name := lacking(a, names); name != "" {
					v.fail(a, fmt.Sprintf("the list has %s with its containers", name), fmt.Sprintf("it has %v", a.names()))
				}
				if namespace == here && slices.Contains(a.names(), "farm-driver") {
					v.fail(a, "a list of a namespace has only the FarmPods of this namespace", fmt.Sprintf("it has %v", a.names()))
				}
			}
		}))).
		Assess("in a Table, and selected by their names", check.Assess(step(func(v visit) {
			v.row(pods(here)+"/farm-shearer", "farm-shearer", []column{
				{"Name", "farm-shearer"},
				{"Containers", 2},
				{"Images", []string{"registry.example/shears:1", "registry.example/broom:2"}},
				{"Age", nil},
			})
			for name, want := range map[string][]string{"farm-shearer": {"farm-shearer"}, "shearer": {}} {
				a := v.want(v.send(v.ctx, http.MethodGet, pods(here)+"?fieldSelector=metadata.name%3D"+name, nil), "a list of FarmPods with a field selector answers 200", http.StatusOK)
				if !slices.Equal(a.names(), want) {
					v.fail(a, fmt.Sprintf("a list with the field selector metadata.name=%s has %v", name, want), fmt.Sprintf("it has %v", a.names()))
				}
			}
		}))).
		Assess("and are read-only", check.Assess(step(func(v visit) {
			a := v.want(v.send(v.ctx, http.MethodGet, pods(here)+"/farm-nobody", nil), "GET of a FarmPod without a Pod answers 404", http.StatusNotFound)
			if !a.isStatus("NotFound") {
				v.fail(a, "the answer is a Status with the reason NotFound", "the answer is "+a.told())
			}
			v.about(a, "farmpods", "farm-nobody")
			v.want(v.send(v.ctx, http.MethodGet, pods(here)+"/shearer", nil), "GET of a FarmPod whose name does not begin with farm- answers 404", http.StatusNotFound)
			body := map[string]any{"apiVersion": groupVersion, "kind": "FarmPod", "metadata": map[string]any{"name": "farm-made"}}
			v.want(v.send(v.ctx, http.MethodPost, pods(here), body), "FarmPods are read-only: a create answers 405", http.StatusMethodNotAllowed)
			v.want(v.send(v.ctx, http.MethodDelete, pods(here)+"/farm-shearer", nil), "FarmPods are read-only: a delete answers 405", http.StatusMethodNotAllowed)
		}))).Feature()
}

// allowed waits until the API server knows of a user's right.
func (v visit) allowed(user, group, resource, verb string) {
	v.t.Helper()
	v.eventually("the right takes effect", grantPatience, func() (string, bool) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: here, Group: group, Resource: resource, Verb: verb},
		}}
		answer, err := v.typed.AuthorizationV1().SubjectAccessReviews().Create(v.ctx, review, metav1.CreateOptions{})
		return fmt.Sprintf("%v", err), err == nil && answer.Status.Allowed
	})
}

func deputy() types.Feature {
	const visitor = "visitor"
	return features.New("the confused deputy").
		Assess("does not lend its rights, and serves who may", check.Assess(step(func(v visit) {
			v.pod(here, "secretive", "main", "registry.example/secret:1")
			v.grant(visitor, "", group, "farmpods", "get", "list", "watch")
			v.allowed(visitor, group, "farmpods", "get")
			for _, c := range []struct{ verb, path string }{
				{"get", pods(here) + "/farm-secretive"},
				{"list", pods(here)},
				{"list", pods("")},
				{"watch", pods(here) + "?watch=true&timeoutSeconds=1"},
			} {
				a := v.send(v.ctx, http.MethodGet, c.path, nil, "Impersonate-User", visitor)
				if a.code != http.StatusForbidden {
					v.fail(a, fmt.Sprintf("who may %s FarmPods, but not Pods, gets 403: the server must not lend its own rights", c.verb), "the answer is "+a.told())
				}
			}
			v.grant(visitor, here, "", "pods", "get", "list", "watch")
			v.allowed(visitor, "", "pods", "list")
			for _, path := range []string{pods(here), pods(here) + "/farm-secretive"} {
				v.eventually("who may read FarmPods and Pods gets them", grantPatience, func() (string, bool) {
					a := v.send(v.ctx, http.MethodGet, path, nil, "Impersonate-User", visitor)
					return "the answer is " + a.told(), a.code == http.StatusOK
				})
			}
		}))).Feature()
}

func farmPodWatch() types.Feature {
	return features.New("a watch on FarmPods").
		Assess("follows the Pods", check.Assess(step(func(v visit) {
			// A server that watches the Pods may hear only now that those of the check before are gone.
			empty := func(a answer) bool { return len(a.names()) == 0 }
			from := versionOf(v.listOf(here, "FarmPods can be listed", empty).object())
			w := v.follow(pods(here), "&resourceVersion="+from)
			defer w.cancel()
			v.begun(w)
			v.pod(here, "visited", "main", "registry.example/one:1")
			_, err := v.typed.CoreV1().Pods(here).Patch(v.ctx, "visited", apitypes.StrategicMergePatchType,
				[]byte(`{"spec":{"containers":[{"name":"main","image":"registry.example/two:2"}]}}`), metav1.PatchOptions{})
			v.OK(v.t, "changing a Pod's image", err)
			v.OK(v.t, "deleting a Pod", v.typed.CoreV1().Pods(here).Delete(v.ctx, "visited", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
			var seen []string
			changed := false
			const expected = "a watch on FarmPods sends ADDED farm-visited, MODIFIED farm-visited with the new image, and DELETED farm-visited"
			for {
				events := v.take(w, 1)
				if len(events) == 0 {
					v.Fail(v.t, expected, "it sends "+strings.Join(append(seen, "nothing more"), ", "))
				}
				e := events[0]
				seen = append(seen, e.String())
				if e.Type == "MODIFIED" && slices.Contains(containersOf(e.Object), "main=registry.example/two:2") {
					changed = true
				}
				if e.Type == "ERROR" || e.Type == "DELETED" {
					if seen[0] != "ADDED farm-visited" || !changed || e.String() != "DELETED farm-visited" {
						v.Fail(v.t, expected, "it sends "+strings.Join(seen, ", "))
					}
					return
				}
			}
		}))).Feature()
}

func podsUnreadable() types.Feature {
	return features.New("when Pods can't be read").
		Assess("the answer is a Status", check.Assess(step(func(v visit) {
			ask, headers := v.send, []string(nil)
			if p, ok := v.proxy(); ok {
				ask, headers = p.send, admin // the API server hides a broken connection behind an answer of its own
			}
			v.pod(here, "hidden", "main", "registry.example/hidden:1")
			v.eventually("the list of FarmPods has farm-hidden", eventPatience, func() (string, bool) {
				a := v.send(v.ctx, http.MethodGet, pods(here), nil)
				return fmt.Sprintf("the answer is %s, and has %v", a.told(), a.names()), slices.Contains(a.names(), "farm-hidden")
			})
			v.OK(v.t, "letting reads fail", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{{Kind: faults.Unavailable, Class: faults.Read, Service: faults.API}}}))
			for _, path := range []string{pods(here), pods(here) + "/farm-hidden"} {
				a := ask(v.ctx, http.MethodGet, path, nil, headers...)
				broken := a.err != nil || strings.Contains(string(a.body), "error trying to reach service")
				if broken || a.code >= 400 && !a.isStatus("") {
					v.fail(a, "while the server can't read Pods, it answers FarmPods with a Status (or from what it knows), and does not crash", "the answer is "+a.told())
				}
				if a.code == http.StatusNotFound || a.code == http.StatusOK && !strings.Contains(string(a.body), "farm-hidden") {
					v.fail(a, "while the server can't read Pods, it does not answer as if there were none", "the answer is "+a.told()+", without farm-hidden")
				}
			}
			v.OK(v.t, "letting reads succeed", v.Faults.Disarm(v.ctx))
			v.eventually("when Pods can be read again, FarmPods are served", startPatience, func() (string, bool) {
				a := v.send(v.ctx, http.MethodGet, pods(here), nil)
				return "the answer is " + a.told(), a.code == http.StatusOK
			})
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}
