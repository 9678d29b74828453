// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
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
)

func restart() types.Feature {
	return features.New("kill -9").
		Assess("what was acknowledged is there", check.Assess(step(func(v visit) {
			v.buildManifests()
			v.keepFarmPod()
			stored := v.storeAll()
			// The first llamas of a new farm do not come back either.
			herd := v.send(v.ctx, http.MethodDelete, llama(carla.namespace, carla.name), nil)
			stored.set(v.change(ns, "r-changed", `{"spec":{"weight":55.5}}`))
			stored.set(v.create(ns, newLlama("r-last", 100, 1.5)))
			// A deletion has a resourceVersion, too, and here it is the last one of all.
			v.create(ns, newLlama("r-brief", 100, 1.5))
			v.drop(ns, "r-brief")
			before := map[string]answer{
				ns:      v.send(v.ctx, http.MethodGet, llamas(ns), nil),
				otherNS: v.send(v.ctx, http.MethodGet, llamas(otherNS), nil),
			}
			page := v.send(v.ctx, http.MethodGet, llamas(ns)+"?limit=2", nil)
			v.tryWithdrawnRightLate()
			v.OK(v.t, "killing the server", v.Operator.Kill(v.ctx))
			v.startWithDelay()
			for _, namespace := range []string{ns, otherNS} {
				v.storedIn(namespace, stored, before[namespace])
			}
			if herd.code == http.StatusOK {
				if a := v.send(v.ctx, http.MethodGet, llama(carla.namespace, carla.name), nil); a.code != http.StatusNotFound {
					v.fail(a, "carla was deleted and does not come back with a restart", "carla is there")
				}
			}
			last := versionOf(before[ns].object())
			if now := v.send(v.ctx, http.MethodGet, llamas(ns), nil); earlier(versionOf(now.object()), last) {
				v.fail(now, "after a restart the resourceVersion continues: "+
					"that of a list is not earlier than that of the last change, a deletion",
					fmt.Sprintf("it is %q, and was %q before", versionOf(now.object()), last))
			}
			if after := v.create(ns, newLlama("r-new", 100, 1.5)); !newerVersion(versionOf(after), last) {
				v.Fail(v.t, "the resourceVersion continues after a restart: that of a new write is later than all before",
					fmt.Sprintf("it is %q, and was %q before", versionOf(after), last))
			}
			if next := textOf(page.object(), "metadata", "continue"); next != "" {
				rest := v.want(v.send(v.ctx, http.MethodGet, llamas(ns)+"?limit=500&continue="+url.QueryEscape(next), nil),
					"after kill -9 a continue from before answers 200, or 410", http.StatusOK, http.StatusGone)
				names := stored.names(ns)
				if got := slices.Sorted(slices.Values(append(page.names(), rest.names()...))); rest.code == http.StatusOK &&
					!slices.Equal(got, names) {
					v.fail(rest, fmt.Sprintf("a page from before kill -9 and one from after it have %s, each once", shortNames(names)),
						"they have "+shortNames(got))
				}
			}
			// Create more than before: a server that counts reaches the same numbers again.
			send, again := v.directly(), newLlama("", 100, 1.5)
			again["metadata"] = map[string]any{"generateName": "r-twin-"}
			for _, a := range atOnce(generatedAfter, func(int) answer { return send(http.MethodPost, llamas(ns), again) }) {
				if a.code == http.StatusConflict {
					v.fail(a, "generateName gives each llama a name of its own, also after a restart, "+
						"when there are llamas with generated names", "the answer is "+a.summary())
				}
			}
		}))).
		Assess("a Pod's folder outlives it", check.Assess(step(visit.keepsStorage))).
		Teardown(check.Teardown(returnHerd)).Feature()
}

// stored holds the acknowledged llamas, by namespace/name.
type stored map[string]map[string]any

func (s stored) set(object map[string]any) { s[keyOf(object)] = object }

// names returns the names of the llamas in a namespace.
func (s stored) names(namespace string) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if keyNamespace, name, _ := strings.Cut(key, "/"); keyNamespace == namespace {
			names = append(names, name)
		}
	}
	return names
}

// storeAll creates llamas that are difficult for a storage, changes some of them, and deletes others.
func (v visit) storeAll() stored {
	v.t.Helper()
	all := stored{}
	for _, name := range []string{"r-kept", "r-changed", "r-gone"} {
		all.set(v.create(ns, newLlama(name, 100, 1.5)))
	}
	v.drop(ns, "r-gone")
	delete(all, ns+"/r-gone")
	// This one has the same name as one in another namespace, and numbers and a name that a self-made format may not be
	// able to store.
	all.set(v.create(otherNS, newLlama("r-kept", 44.5, 2.5)))
	for i, number := range exactly {
		a := v.send(v.ctx, http.MethodPost, llamas(otherNS),
			newLlama(fmt.Sprintf("r-exact.%d", i), number, exactly[len(exactly)-1-i]))
		if a.code == http.StatusCreated { // another check reports a failure
			all.set(a.object())
		}
	}
	// Another check reports a server that refuses it.
	if a := v.send(v.ctx, http.MethodPost, llamas(ns), newLlama(longName, 100, 1.5)); a.code == http.StatusCreated {
		all.set(a.object())
	}
	v.storeHeavy(all)
	for range generatedNames {
		object := newLlama("", 100, 1.5)
		object["metadata"] = map[string]any{"generateName": "r-twin-"}
		all.set(v.create(ns, object))
	}
	held := labelled("r-held", "color", "white")
	held["metadata"].(map[string]any)["finalizers"] = []any{"labs.lva.io/holds"}
	if a := v.send(v.ctx, http.MethodPost, llamas(ns), held); a.code == http.StatusCreated &&
		numberOf(a.object(), "metadata", "finalizers") != nil {
		v.t.Cleanup(func() {
			clientsOf(v.ctx).send(context.WithoutCancel(v.ctx), http.MethodPatch, llama(ns, "r-held"),
				`{"metadata":{"finalizers":null}}`, "Content-Type", string(apitypes.MergePatchType))
		})
		v.drop(ns, "r-held")
		all.set(v.want(v.send(v.ctx, http.MethodGet, llama(ns, "r-held"), nil),
			"a llama with a finalizer stays until the finalizer is removed", http.StatusOK).object())
	} else if a.code == http.StatusCreated {
		all.set(a.object())
	}
	return all
}

// storeHeavy creates a large llama with characters that JSON escapes, and changes it so often that a storage that
// appends changes has to write a snapshot.
func (v visit) storeHeavy(all stored) {
	v.t.Helper()
	heavy := newLlama("r-heavy", 100, 1.5)
	heavy["metadata"].(map[string]any)["annotations"] = map[string]any{
		bigNote: strings.Repeat("<\"\n\u2028ł>", heavyNote),
	}
	v.create(ns, heavy)
	send := v.directly()
	for i := range heavyChanges {
		a := send(http.MethodPatch, llama(ns, "r-heavy"), fmt.Sprintf(`{"spec":{"weight":%d}}`, 70+i),
			"Content-Type", string(apitypes.MergePatchType))
		v.want(a, "a merge patch changes a llama", http.StatusOK)
	}
	all.set(v.change(ns, "r-heavy", `{"spec":{"weight":77.5}}`))
}

// storedIn fails the check unless a namespace has, after a kill, everything that was acknowledged before.
func (v visit) storedIn(namespace string, all stored, before answer) {
	v.t.Helper()
	a := v.send(v.ctx, http.MethodGet, llamas(namespace), nil)
	found := map[string]map[string]any{}
	for _, item := range a.items() {
		found[nameOf(item)] = item
	}
	names := all.names(namespace)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, names) {
		v.fail(a, fmt.Sprintf("after kill -9 there are %s: acknowledged creates and deletes are not lost", shortNames(names)),
			fmt.Sprintf("there are %s", shortNames(got)))
	}
	for _, name := range names {
		was, is := all[namespace+"/"+name], found[name]
		if note := textOf(was, "metadata", "annotations", bigNote); note != textOf(is, "metadata", "annotations", bigNote) {
			v.Fail(v.t, fmt.Sprintf("after kill -9 %s has the same annotations as before", name),
				fmt.Sprintf("one of %d bytes is another one", len(note)))
		}
		if uidOf(is) != uidOf(was) || versionOf(is) != versionOf(was) || spec(is) != spec(was) {
			v.fail(a, fmt.Sprintf("after kill -9 %s has the same uid, resourceVersion and spec as before", shortened(name)),
				fmt.Sprintf("uid %q was %q, resourceVersion %q was %q, %s was %s",
					uidOf(is), uidOf(was), versionOf(is), versionOf(was), spec(is), spec(was)))
		}
	}
	for _, was := range before.items() {
		name := nameOf(was)
		if is := found[name]; !reflect.DeepEqual(withoutManagers(was), withoutManagers(is)) {
			v.fail(a, fmt.Sprintf("after kill -9 %s is unchanged, with its labels, finalizers and timestamps", shortened(name)),
				fmt.Sprintf("metadata is %v and was %v", shortened(is["metadata"]), shortened(was["metadata"])))
		}
	}
}

// shortNames lists names, and shortens longName.
func shortNames(names []string) string {
	var short []string
	for _, name := range names {
		short = append(short, strings.Replace(name, longName, longName[:10]+"…", 1))
	}
	return strings.Join(short, ", ")
}

// These constants are how many llamas get generated names before and after a restart, how often a text is repeated in
// an annotation (240 kB, and more as JSON), and how many changes of such a llama exceed 8 MiB.
const (
	generatedNames = 3
	generatedAfter = 32
	heavyNote      = 24_000
	heavyChanges   = 9
)

// withoutManagers returns a llama without its managedFields.
func withoutManagers(object map[string]any) map[string]any {
	object = runtimeCopy(object)
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	return object
}

// shortened returns the beginning of an object as text.
func shortened(object any) string {
	const shown = 300
	text := fmt.Sprint(object)
	if len(text) > shown {
		text = text[:shown] + " …"
	}
	return text
}

// history fails the check unless a watch from a resourceVersion before a kill sends these changes, or reports that the
// version is too old.
func (v visit) history(from string, want []string) {
	v.t.Helper()
	w := v.follow(llamas(ns), "&resourceVersion="+from)
	defer w.cancel()
	if w.refused != nil {
		v.want(*w.refused, "after kill -9 a watch from a resourceVersion from before answers 200, or 410",
			http.StatusOK, http.StatusGone)
		return
	}
	events := v.take(w, len(want))
	if len(events) > 0 && events[0].Type == "ERROR" && fmt.Sprint(events[0].Object["code"]) == "410" {
		return
	}
	v.saw(events, "after kill -9 a watch from a resourceVersion from before answers 410, or sends", want)
}

// returnHerd creates the llamas that checks have deleted, since checks that may run after them expect the herd of a new
// farm.
func returnHerd(ctx context.Context, c *check.Check) error {
	if err := ensureStarted(ctx, c); err != nil {
		return err
	}
	for _, one := range []herdLlama{carla, pedro} {
		clientsOf(ctx).send(ctx, http.MethodPost, llamas(one.namespace), newLlama(one.name, one.weight, one.height))
	}
	return nil // the check create reports a farm that cannot create them
}

// informerPatience is how long an informer may take to reconnect: client-go waits longer after each failure, up to a
// minute. The longer a restart takes, as on a busy machine and in a Pod, the more of its attempts fail.
const informerPatience = time.Minute

func informer() types.Feature {
	return features.New("informer").
		Assess("in sync through a restart and a kill", check.Assess(step(func(v visit) {
			factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(v.dynamic, 0, ns, nil)
			store := factory.ForResource(llamaResource).Informer()
			stop := make(chan struct{})
			defer factory.Shutdown()
			defer close(stop)
			v.create(ns, newLlama("n-1", 100, 1.5))
			v.create(ns, newLlama("n-2", 100, 1.5))
			factory.Start(stop)
			v.eventually("client-go's informer lists the llamas", eventPatience, func() (string, bool) {
				return "it has not", store.HasSynced()
			})
			before := v.send(v.ctx, http.MethodGet, llamas(ns), nil)
			v.OK(v.t, "stopping the server", v.Operator.Stop(v.ctx))
			v.start()
			if a := v.send(v.ctx, http.MethodGet, llamas(ns), nil); !slices.Equal(atVersions(a), atVersions(before)) {
				v.fail(a, fmt.Sprintf("after a restart the llamas are the same: %v", atVersions(before)),
					fmt.Sprintf("there are %v", atVersions(a)))
			}
			v.deleteNamespaceEarly() // for the check available
			from := v.now(ns)
			v.create(ns, newLlama("n-3", 100, 1.5))
			v.drop(ns, "n-1")
			v.OK(v.t, "killing the server", v.Operator.Kill(v.ctx))
			v.start()
			v.history(from, []string{"ADDED n-3", "DELETED n-1"})
			v.change(ns, "n-2", `{"spec":{"weight":42.5}}`)
			a := v.send(v.ctx, http.MethodGet, llamas(ns), nil)
			if names := slices.Sorted(slices.Values(a.names())); !slices.Equal(names, []string{"n-2", "n-3"}) {
				v.fail(a, "after a second kill there are n-2 and n-3, and no llama that was deleted before",
					fmt.Sprintf("there are %v", names))
			}
			want := atVersions(a)
			v.eventually(fmt.Sprintf("after a restart and a kill an informer has what a list has: %v", want),
				informerPatience, func() (string, bool) {
					got := known(store.GetStore())
					return fmt.Sprintf("it has %v", got), slices.Equal(got, want)
				})
		}))).
		Teardown(check.Teardown(ensureStarted)).Feature()
}

// atVersions returns the llamas of a list, with their resourceVersions.
func atVersions(a answer) (objects []string) {
	for _, item := range a.items() {
		objects = append(objects, nameOf(item)+" at "+versionOf(item))
	}
	slices.Sort(objects)
	return objects
}

// known returns the objects that an informer has.
func known(store cache.Store) (objects []string) {
	for _, object := range store.List() {
		if o, ok := object.(metav1.Object); ok {
			objects = append(objects, o.GetName()+" at "+o.GetResourceVersion())
		}
	}
	slices.Sort(objects)
	return objects
}
