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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func restart() types.Feature {
	return features.New("kill -9").
		Assess("what was acknowledged is there", check.Assess(step(func(v visit) {
			stored := map[string]map[string]any{}
			for _, name := range []string{"r-kept", "r-changed", "r-gone"} {
				stored[name] = v.make(here, newLlama(name, 100, 1.5))
			}
			v.drop(here, "r-gone")
			delete(stored, "r-gone")
			// The herd of a new farm does not come back either.
			herd := v.send(v.ctx, http.MethodDelete, llama(carla.namespace, carla.name), nil)
			stored["r-changed"] = v.change(here, "r-changed", `{"spec":{"weight":55.5}}`)
			stored["r-last"] = v.make(here, newLlama("r-last", 100, 1.5))
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
				if uidOf(is) != uidOf(was) || versionOf(is) != versionOf(was) || numberOf(is, "spec", "weight") != numberOf(was, "spec", "weight") {
					v.fail(a, fmt.Sprintf("after kill -9 %s has the same uid, resourceVersion and spec as before", name),
						fmt.Sprintf("uid %q was %q, resourceVersion %q was %q, weight %v was %v", uidOf(is), uidOf(was), versionOf(is), versionOf(was),
							numberOf(is, "spec", "weight"), numberOf(was, "spec", "weight")))
				}
			}
			if herd.code == http.StatusOK {
				if a := v.send(v.ctx, http.MethodGet, llama(carla.namespace, carla.name), nil); a.code != http.StatusNotFound {
					v.fail(a, "carla was deleted and does not come back with a restart", "carla is there")
				}
			}
			before := versionOf(stored["r-last"])
			if after := v.make(here, newLlama("r-new", 100, 1.5)); !later(versionOf(after), before) {
				v.Fail(v.t, "the resourceVersion goes on after a restart: that of a new write is later than all before",
					fmt.Sprintf("it is %q, and was %q before", versionOf(after), before))
			}
		}))).
		Teardown(check.Teardown(returnHerd)).Feature()
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
			v.make(here, newLlama("n-3", 100, 1.5))
			v.drop(here, "n-1")
			v.OK(v.t, "killing the server", v.Operator.Kill(v.ctx))
			v.start()
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
			v.OK(v.t, "stopping the server", v.Operator.Stop(v.ctx))
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
		}))).
		Teardown(check.Teardown(ensureStarted)).Feature()
}
