// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/protocol"
)

func restart() types.Feature {
	return features.New("kill -9").
		Assess("what was acknowledged is there", check.Assess(step(func(v visit) {
			v.keepFarmPod()
			stored := map[string]map[string]any{}
			for _, name := range []string{"r-kept", "r-changed", "r-gone"} {
				stored[name] = v.make(here, newLlama(name, 100, 1.5))
			}
			v.drop(here, "r-gone")
			delete(stored, "r-gone")
			// Of these the storage has long lines, with characters that JSON escapes.
			heavy := newLlama("r-heavy", 100, 1.5)
			heavy["metadata"].(map[string]any)["annotations"] = map[string]any{bigNote: strings.Repeat("<\"\n\u2028ł>", heavyNote)}
			v.make(here, heavy)
			stored["r-heavy"] = v.change(here, "r-heavy", `{"spec":{"weight":77.5}}`)
			for range generatedNames {
				object := newLlama("", 100, 1.5)
				object["metadata"] = map[string]any{"generateName": "r-twin-"}
				made := v.make(here, object)
				stored[nameOf(made)] = made
			}
			held := labelled("r-held", "color", "white")
			held["metadata"].(map[string]any)["finalizers"] = []any{"labs.lva.io/holds"}
			if a := v.send(v.ctx, http.MethodPost, llamas(here), held); a.code == http.StatusCreated && numberOf(a.object(), "metadata", "finalizers") != nil {
				v.t.Cleanup(func() {
					clientsOf(v.ctx).send(context.WithoutCancel(v.ctx), http.MethodPatch, llama(here, "r-held"), `{"metadata":{"finalizers":null}}`, "Content-Type", string(apitypes.MergePatchType))
				})
				v.drop(here, "r-held")
				stored["r-held"] = v.want(v.send(v.ctx, http.MethodGet, llama(here, "r-held"), nil), "a llama with a finalizer stays until the finalizer is removed", http.StatusOK).object()
			} else if a.code == http.StatusCreated {
				stored["r-held"] = a.object()
			}
			// The herd of a new farm does not come back either.
			herd := v.send(v.ctx, http.MethodDelete, llama(carla.namespace, carla.name), nil)
			stored["r-changed"] = v.change(here, "r-changed", `{"spec":{"weight":55.5}}`)
			stored["r-last"] = v.make(here, newLlama("r-last", 100, 1.5))
			before := v.send(v.ctx, http.MethodGet, llamas(here), nil)
			page := v.send(v.ctx, http.MethodGet, llamas(here)+"?limit=2", nil)
			v.OK(v.t, "killing the server", v.Operator.Kill(v.ctx))
			v.start()
			a := v.send(v.ctx, http.MethodGet, llamas(here), nil)
			found := map[string]map[string]any{}
			for _, item := range a.items() {
				found[nameOf(item)] = item
			}
			names := slices.Sorted(maps.Keys(stored))
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, names) {
				v.fail(a, fmt.Sprintf("after kill -9 there are %s: what was created or deleted before stays so", strings.Join(names, ", ")), fmt.Sprintf("there are %s", strings.Join(got, ", ")))
			}
			for _, name := range names {
				was, is := stored[name], found[name]
				if note := textOf(was, "metadata", "annotations", bigNote); note != textOf(is, "metadata", "annotations", bigNote) {
					v.Fail(v.t, fmt.Sprintf("after kill -9 %s has the same annotations as before", name), fmt.Sprintf("one of %d bytes is another one", len(note)))
				}
				if uidOf(is) != uidOf(was) || versionOf(is) != versionOf(was) || numberOf(is, "spec", "weight") != numberOf(was, "spec", "weight") {
					v.fail(a, fmt.Sprintf("after kill -9 %s has the same uid, resourceVersion and spec as before", name),
						fmt.Sprintf("uid %q was %q, resourceVersion %q was %q, weight %v was %v", uidOf(is), uidOf(was), versionOf(is), versionOf(was),
							numberOf(is, "spec", "weight"), numberOf(was, "spec", "weight")))
				}
			}
			for _, was := range before.items() {
				name := nameOf(was)
				if is := found[name]; !reflect.DeepEqual(withoutManagers(was), withoutManagers(is)) {
					v.fail(a, fmt.Sprintf("after kill -9 all of %s is as before: its labels, finalizers, timestamps and all else", name),
						fmt.Sprintf("metadata is %v and was %v", shortened(is["metadata"]), shortened(was["metadata"])))
				}
			}
			if herd.code == http.StatusOK {
				if a := v.send(v.ctx, http.MethodGet, llama(carla.namespace, carla.name), nil); a.code != http.StatusNotFound {
					v.fail(a, "carla was deleted and does not come back with a restart", "carla is there")
				}
			}
			last := versionOf(stored["r-last"])
			if after := v.make(here, newLlama("r-new", 100, 1.5)); !later(versionOf(after), last) {
				v.Fail(v.t, "the resourceVersion goes on after a restart: that of a new write is later than all before",
					fmt.Sprintf("it is %q, and was %q before", versionOf(after), last))
			}
			if next := textOf(page.object(), "metadata", "continue"); next != "" {
				rest := v.want(v.send(v.ctx, http.MethodGet, llamas(here)+"?limit=500&continue="+url.QueryEscape(next), nil),
					"after kill -9 a continue from before answers 200, or 410", http.StatusOK, http.StatusGone)
				if got := slices.Sorted(slices.Values(append(page.names(), rest.names()...))); rest.code == http.StatusOK && !slices.Equal(got, names) {
					v.fail(rest, fmt.Sprintf("a page from before kill -9 and one from after it have %s, each once", strings.Join(names, ", ")), "they have "+strings.Join(got, ", "))
				}
			}
			// More than there were before: a server that counts comes to the same numbers.
			send, again := v.directly(), newLlama("", 100, 1.5)
			again["metadata"] = map[string]any{"generateName": "r-twin-"}
			for _, a := range atOnce(generatedAfter, func(int) answer { return send(http.MethodPost, llamas(here), again) }) {
				if a.code == http.StatusConflict {
					v.fail(a, "generateName gives each llama a name of its own, also after a restart, when there are llamas with generated names", "the answer is "+a.told())
				}
			}
		}))).
		Teardown(check.Teardown(returnHerd)).Feature()
}

// How many llamas get generated names before and after a restart, and how often a text is repeated in an annotation: 240 kB, and more as JSON.
const (
	generatedNames = 3
	generatedAfter = 32
	heavyNote      = 24_000
)

// withoutManagers is a llama without its managedFields.
func withoutManagers(object map[string]any) map[string]any {
	object = runtimeCopy(object)
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	return object
}

// shortened is the beginning of what there is.
func shortened(object any) string {
	const shown = 300
	text := fmt.Sprint(object)
	if len(text) > shown {
		text = text[:shown] + " …"
	}
	return text
}

// history fails the check unless a watch from a resourceVersion of before a kill sends these changes, or says that it is too old.
func (v visit) history(from string, want []string) {
	v.t.Helper()
	w := v.follow(llamas(here), "&resourceVersion="+from)
	defer w.cancel()
	if w.refused != nil {
		v.want(*w.refused, "after kill -9 a watch from a resourceVersion from before answers 200, or 410", http.StatusOK, http.StatusGone)
		return
	}
	events := v.take(w, len(want))
	if len(events) > 0 && events[0].Type == "ERROR" && fmt.Sprint(events[0].Object["code"]) == "410" {
		return
	}
	v.saw(events, "after kill -9 a watch from a resourceVersion from before answers 410, or sends", want)
}

// returnHerd creates the llama that restart deleted, since checks that may run after it expect the herd of a new farm.
func returnHerd(ctx context.Context, c *check.Check) error {
	if err := ensureStarted(ctx, c); err != nil {
		return err
	}
	clientsOf(ctx).send(ctx, http.MethodPost, llamas(carla.namespace), newLlama(carla.name, carla.weight, carla.height))
	return nil // a farm that cannot create carla fails the check of that
}

// informerPatience is for an informer to come back: client-go waits longer after each failure. A Pod is away for longer than a process:
// then client-go waits up to a minute.
func (v visit) informerPatience() time.Duration {
	if v.Server.Service != "" {
		return time.Minute
	}
	return 12 * time.Second
}

func informer() types.Feature {
	return features.New("informer").
		Assess("in sync through a restart and a kill", check.Assess(step(func(v visit) {
			factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(v.dynamic, 0, here, nil)
			store := factory.ForResource(llamaResource).Informer()
			stop := make(chan struct{})
			defer factory.Shutdown()
			defer close(stop)
			v.make(here, newLlama("n-1", 100, 1.5))
			v.make(here, newLlama("n-2", 100, 1.5))
			factory.Start(stop)
			v.eventually("client-go's informer lists the llamas", eventPatience, func() (string, bool) { return "it has not", store.HasSynced() })
			v.OK(v.t, "stopping the server", v.Operator.Stop(v.ctx))
			v.start()
			from := v.now(here)
			v.make(here, newLlama("n-3", 100, 1.5))
			v.drop(here, "n-1")
			v.OK(v.t, "killing the server", v.Operator.Kill(v.ctx))
			v.start()
			v.history(from, []string{"ADDED n-3", "DELETED n-1"})
			v.change(here, "n-2", `{"spec":{"weight":42.5}}`)
			a := v.send(v.ctx, http.MethodGet, llamas(here), nil)
			var want []string
			for _, item := range a.items() {
				want = append(want, nameOf(item)+" at "+versionOf(item))
			}
			slices.Sort(want)
			v.eventually(fmt.Sprintf("after a restart and a kill an informer has what a list has: %v", want), v.informerPatience(), func() (string, bool) {
				got := known(store.GetStore())
				return fmt.Sprintf("it has %v", got), slices.Equal(got, want)
			})
		}))).
		Teardown(check.Teardown(ensureStarted)).Feature()
}

// known is what an informer has.
func known(store cache.Store) (objects []string) {
	for _, object := range store.List() {
		if o, ok := object.(metav1.Object); ok {
			objects = append(objects, o.GetName()+" at "+o.GetResourceVersion())
		}
	}
	slices.Sort(objects)
	return objects
}

// shutdownDelay is for how long a server is to serve after SIGTERM.
const shutdownDelay = time.Second

// readiness is an answer of /readyz.
type readiness struct {
	asked  time.Time
	answer answer
}

// endPatience is for a server to end after SIGTERM.
const endPatience = 10 * time.Second

func graceful() types.Feature {
	return features.New("SIGTERM").
		Assess("watches end in good order", check.Assess(step(func(v visit) {
			w := v.follow(llamas(here), "&resourceVersion="+v.now(here))
			defer w.cancel()
			v.begun(w)
			v.make(here, newLlama("g-1", 100, 1.5))
			v.saw(v.take(w, 1), "a watch sends", []string{"ADDED g-1"})
			began := time.Now()
			failure, err := v.Operator.End(v.ctx)
			v.OK(v.t, "stopping the server", err)
			if took := time.Since(began); took > endPatience {
				v.Fail(v.t, fmt.Sprintf("after SIGTERM the server ends within %s, also while somebody watches", endPatience), fmt.Sprintf("it took %s", took.Round(time.Second/10)))
			}
			const expected = "at SIGTERM the server ends each watch as an answer ends, and not in the middle of it"
			select {
			case err := <-w.ended:
				if err != nil {
					v.Fail(v.t, expected, "the connection broke: "+err.Error())
				}
			case <-time.After(eventPatience):
				v.Fail(v.t, expected, "the watch did not end")
			}
			if failure != "" {
				v.Fail(v.t, "after SIGTERM the server ends with exit code 0", failure)
			}
		}))).
		Assess("after a delay", check.Assess(step(func(v visit) {
			err := v.Operator.StartAs(v.ctx, protocol.Start{Flags: []string{"--shutdown-delay-duration=" + shutdownDelay.String()}})
			if errors.Is(err, check.ErrNoSuchFlag) || errors.Is(err, check.ErrNotAdjustable) {
				return // the flag is optional
			}
			v.OK(v.t, "starting the server with a delay", err)
			p, ok := v.proxy()
			if !ok {
				return
			}
			v.eventually("the server answers after it was started with --shutdown-delay-duration", startPatience, func() (string, bool) {
				a := p.send(v.ctx, http.MethodGet, llamas(here), nil, admin...)
				return "the answer is " + a.told(), a.code == http.StatusOK
			})
			w := followBy(v.ctx, p.client, p.host, llamas(here), "", admin...)
			defer w.cancel()
			v.begun(w)
			stopped := make(chan error, 1)
			// SIGTERM comes later than this. So what is seen before began+shutdownDelay is seen before the delay is over.
			began := time.Now()
			go func() { stopped <- v.Operator.Stop(v.ctx) }()
			expected := fmt.Sprintf("with --shutdown-delay-duration=%s the server serves all requests for %s after SIGTERM, ", shutdownDelay, shutdownDelay)
			var ready []readiness
			for time.Since(began) < shutdownDelay {
				a := p.send(v.ctx, http.MethodGet, llamas(here), nil, admin...)
				asked := time.Now()
				readyz := p.send(v.ctx, http.MethodGet, "/readyz", nil, admin...)
				again := followBy(v.ctx, p.client, p.host, llamas(here), "&resourceVersion=0", admin...)
				again.cancel()
				ended := false
				for seen := true; seen && !ended; {
					select {
					case _, ok := <-w.events:
						ended = !ok
					default:
						seen = false
					}
				}
				if after := time.Since(began); after < shutdownDelay {
					switch {
					case a.code != http.StatusOK:
						v.fail(a, expected+"also lists", fmt.Sprintf("after %s the answer is %s", after.Round(time.Millisecond), a.told()))
					case again.refused != nil:
						v.fail(*again.refused, expected+"also new watches", fmt.Sprintf("after %s the answer is %s", after.Round(time.Millisecond), again.refused.told()))
					case ended:
						v.Fail(v.t, expected+"also the watches that have begun before", fmt.Sprintf("a watch ended %s after it", after.Round(time.Millisecond)))
					}
				}
				ready = append(ready, readiness{asked, readyz})
				v.Pause(v.ctx, v.t, lookAgain)
			}
			v.OK(v.t, "stopping the server", <-stopped)
			end := time.Now()
			// SIGTERM came at end-shutdownDelay, or before.
			var late []readiness
			for _, r := range ready {
				if r.asked.After(end.Add(-shutdownDelay / 2)) {
					late = append(late, r)
				}
			}
			if len(late) > 2 && !slices.ContainsFunc(ready, func(r readiness) bool { return r.answer.code != http.StatusOK }) {
				v.fail(late[len(late)-1].answer, "after SIGTERM /readyz fails, so that no new requests are sent to this server", fmt.Sprintf("each of %d answers is 200 OK", len(ready)))
			}
		}))).
		Teardown(check.Teardown(ensureStarted)).Feature()
}
