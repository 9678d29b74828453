// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
)

func farmPodWatch() types.Feature {
	return features.New("a watch on FarmPods").
		Assess("follows the Pods", check.Assess(step(func(v visit) {
			// A server that watches the Pods may see only now that those of the previous check are gone.
			empty := func(a answer) bool { return len(a.names()) == 0 }
			from := versionOf(v.listOf(ns, "FarmPods can be listed", empty).object())
			const selected = "&fieldSelector=metadata.name%3D"
			follow := func(path, query string) watch {
				w := v.follow(path, query+"&resourceVersion="+from)
				v.t.Cleanup(w.cancel)
				v.requireStarted(w)
				return w
			}
			w := follow(pods(ns), "")
			tables := v.follow(pods(ns), "&resourceVersion="+from, "Accept", acceptTable)
			v.t.Cleanup(tables.cancel)
			// Each of these watches must see only farm-visited, or farm-last.
			visited := map[string]watch{
				"with the field selector metadata.name=farm-visited": follow(pods(ns), selected+"farm-visited"),
				"with a label selector for it":                       follow(pods(ns), "&labelSelector="+podLabel+"%3Dvisited"),
				"of all namespaces with its name and namespace": follow(pods(""),
					selected+"farm-visited%2Cmetadata.namespace%3D"+ns),
			}
			last := map[string]watch{
				"with the field selector metadata.name=farm-last": follow(pods(ns), selected+"farm-last"),
				"with the field selector metadata.name!=farm-visited": follow(pods(ns),
					"&fieldSelector=metadata.name%21%3Dfarm-visited"),
			}
			// visited is the name of the Pod, and not of its FarmPod.
			silent := follow(pods(ns), selected+"visited")
			v.pod(ns, "visited", "main", "registry.example/one:1")
			_, err := v.typed.CoreV1().Pods(ns).Patch(v.ctx, "visited", apitypes.StrategicMergePatchType,
				[]byte(`{"spec":{"containers":[{"name":"main","image":"registry.example/two:2"}]}}`), metav1.PatchOptions{})
			v.OK(v.t, "changing a Pod's image", err)
			v.OK(v.t, "deleting a Pod",
				v.typed.CoreV1().Pods(ns).Delete(v.ctx, "visited", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
			v.visitedIn(w, "")
			// Another check reports a server without tables.
			if textOf(v.send(v.ctx, http.MethodGet, pods(ns), nil, "Accept", acceptTable).object(), "kind") == "Table" {
				v.tables(tables, "farm-visited")
			}
			for how, w := range visited {
				v.visitedIn(w, " "+how)
			}
			v.pod(ns, "last", "main", "registry.example/last:1")
			for how, w := range last {
				if events := v.take(w, 1); len(events) == 0 || events[0].String() != "ADDED farm-last" {
					v.Fail(v.t, "a watch on FarmPods "+how+" sends ADDED farm-last first",
						"it sends "+strings.Join(append(describe(events), "nothing more"), ", "))
				}
			}
			// This watch would have seen everything that the others have seen.
			select {
			case e, ok := <-silent.events:
				if ok && e.Type != "BOOKMARK" {
					v.Fail(v.t, "a watch on FarmPods with the field selector metadata.name=visited, which is the Pod sends nothing",
						"it sends "+e.String())
				}
			default:
			}
		}))).
		Assess("and begins with those that exist", check.Assess(step(func(v visit) {
			w := v.follow(pods(ns), "&labelSelector="+podLabel+"%3Dlast")
			v.t.Cleanup(w.cancel)
			v.requireStarted(w)
			v.saw(v.take(w, 1), "a watch on FarmPods without a resourceVersion sends what exists as",
				[]string{"ADDED farm-last"})
			v.sendsInitialEvents(pods(ns), podLabel+"%3Dlast", "ADDED farm-last")
			v.sendsInitialEvents(pods(ns), podLabel+"%3Dnone")
		}))).
		Assess("and ends with a Status", check.Assess(step(visit.endsWithStatus))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// brokenPatience is how long a watch may take to end after the end of the watch on Pods that it follows. A slower one
// is not judged.
const brokenPatience = 3 * time.Second

// endsWithStatus fails the check if a watch on FarmPods ends with an ERROR event that has no Status when the server's
// own watch on Pods breaks off. The watch may also end without such an event, or continue.
func (v visit) endsWithStatus() {
	v.t.Helper()
	w := v.follow(pods(ns), "")
	v.t.Cleanup(w.cancel)
	v.requireStarted(w)
	v.OK(v.t, "breaking off the server's watches", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
		{Kind: faults.Break, Class: faults.Read, Service: faults.API, At: 1},
	}}))
	// The watches break off when this makes the server read Pods. A server that lists Pods from a cache reads nothing, and
	// its watch continues.
	v.send(v.ctx, http.MethodGet, pods(ns), nil)
	events, _ := until(w, brokenPatience)
	if i := slices.IndexFunc(events, func(e event) bool { return e.Type == "ERROR" }); i >= 0 {
		v.errorIsStatus(events[i])
	}
}

// visitedIn fails the check unless a watch reports the Pod visited from its creation to its deletion.
func (v visit) visitedIn(w watch, where string) {
	v.t.Helper()
	var seen []string
	changed := false
	expected := "a watch on FarmPods" + where + " sends ADDED farm-visited, " +
		"MODIFIED farm-visited with the new image, and DELETED farm-visited"
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
}
