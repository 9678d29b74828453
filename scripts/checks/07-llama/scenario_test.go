// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/grading/faults"
)

// scenarioRequests is how many writes the scenario sends if nothing fails.
const scenarioRequests = 12

// pasture is a namespace whose llamas the scenario never touches. They are big: a server that rewrites its whole data
// at each change needs time for that.
const (
	pasture   = "default"
	bigLlamas = 6
	bigSize   = 100_000 // bytes of annotations
	bigNote   = "labs.lva.io/note"
)

// scenario is a day of a farm's accounts: llamas are created, updated, patched and deleted, one by one and all at once,
// while the server is killed from time to time and restarted. Acknowledged writes must be stored, no change may appear
// twice, and a write without an answer is stored as a whole or not at all.
func scenario(v visit) {
	a := newAccounts(v)
	live := v.follow(llamas(""), "&resourceVersion="+a.began)
	defer live.cancel()
	v.requireStarted(live)
	a.create(ns, "t-1")
	a.create(ns, "t-2")
	a.create(otherNS, "t-3")
	a.update(ns, "t-1", 61.5)
	a.patch(ns, "t-2", 62.5)
	a.delete(ns, "t-2")
	a.create(ns, "t-2") // another llama of this name, with another uid
	a.patch(ns, "t-1", 63.5)
	a.deleteAll(ns)
	a.create(ns, "t-4")
	a.update(ns, "t-4", 64.5)
	a.delete(otherNS, "t-3")
	// A kill that is about to happen happens before Pause returns.
	v.Pause(v.ctx, v.t, killPatience)
	v.OK(v.t, "ending the faults", v.Faults.Disarm(v.ctx))
	a.awaitServer()
	a.create(ns, "t-last")
	a.verify()
	a.verifyHistory(live)
}

// killPatience is how long it may take from a change of a file until a kill has begun.
const killPatience = 20 * time.Millisecond

// accounts holds the llamas that must exist, according to the acknowledged writes.
type accounts struct {
	visit
	llamas map[string]map[string]any // by namespace/name
	events []string                  // the changes that a watch from the beginning reports
	began  string                    // the resourceVersion at the beginning
	last   string                    // the last one that was seen
}

// newAccounts returns accounts with the existing llamas and the big ones.
func newAccounts(v visit) *accounts {
	v.t.Helper()
	a := &accounts{visit: v, llamas: map[string]map[string]any{}}
	schedule := v.Schedule()
	v.Arm(v.ctx, v.t, faults.Schedule{}) // a server's remaining writes of an earlier trial do not count
	a.awaitServer()
	for n := range bigLlamas {
		name := fmt.Sprintf("big-%d", n)
		if v.send(v.ctx, http.MethodGet, llama(pasture, name), nil).code == http.StatusOK {
			continue
		}
		object := newLlama(name, 100.5, 1.5)
		object["metadata"].(map[string]any)["annotations"] = map[string]any{
			bigNote: strings.Repeat("llama ", bigSize/len("llama ")),
		}
		v.create(pasture, object)
	}
	found := a.list()
	for _, object := range found.items() {
		a.llamas[keyOf(object)] = object
	}
	a.began = versionOf(found.object())
	a.last = a.began
	v.Arm(v.ctx, v.t, schedule)
	return a
}

func keyOf(object map[string]any) string {
	return textOf(object, "metadata", "namespace") + "/" + nameOf(object)
}

// list lists all llamas.
func (a *accounts) list() answer {
	a.t.Helper()
	return a.want(a.send(a.ctx, http.MethodGet, llamas(""), nil), "a list of all llamas is answered with 200",
		http.StatusOK)
}

func (a *accounts) create(namespace, name string) {
	a.t.Helper()
	object := newLlama(name, 60.5, 1.5)
	a.one("the creation", namespace, name, object, http.StatusCreated, func() answer {
		return a.send(a.ctx, http.MethodPost, llamas(namespace), object)
	})
}

func (a *accounts) update(namespace, name string, weight float64) {
	a.t.Helper()
	object := newLlama(name, weight, 1.5)
	object["metadata"].(map[string]any)["resourceVersion"] = versionOf(a.llamas[namespace+"/"+name])
	a.one("the update", namespace, name, object, http.StatusOK, func() answer {
		return a.send(a.ctx, http.MethodPut, llama(namespace, name), object)
	})
}

func (a *accounts) patch(namespace, name string, weight float64) {
	a.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"weight":%v}}`, weight)
	a.one("the patch", namespace, name, newLlama(name, weight, 1.5), http.StatusOK, func() answer {
		return a.send(a.ctx, http.MethodPatch, llama(namespace, name), patch, "Content-Type", string(types.MergePatchType))
	})
}

func (a *accounts) delete(namespace, name string) {
	a.t.Helper()
	a.one("the deletion", namespace, name, nil, http.StatusOK, func() answer {
		return a.send(a.ctx, http.MethodDelete, llama(namespace, name), nil)
	})
}

// one sends a write of one llama until it is done. wanted is the llama with its new spec. Nil: it is deleted.
func (a *accounts) one(write, namespace, name string, wanted map[string]any, code int, send func() answer) {
	a.t.Helper()
	key := namespace + "/" + name
	what := write + " of " + key
	for {
		sent := a.try(send)
		if acknowledged(sent) {
			a.want(sent, what+" is answered with success", code, http.StatusAccepted)
			a.enter(what, key, wanted, sent)
			return
		}
		a.awaitServer()
		a.verify(key)
		found := a.send(a.ctx, http.MethodGet, llama(namespace, name), nil)
		if a.stored(what, key, wanted, found) {
			a.enter(what, key, wanted, found)
			return
		}
	}
}

// try sends a write, during which the server may be killed.
func (a *accounts) try(send func() answer) (sent answer) {
	a.t.Helper()
	a.Sending(a.ctx, a.t, func() { sent = send() })
	return sent
}

// acknowledged reports whether the server itself has answered a write, and not the API server in its place.
func acknowledged(a answer) bool { return a.err == nil && a.code < http.StatusInternalServerError }

// stored reports whether an unanswered write was carried out. A partial write fails the check.
func (a *accounts) stored(what, key string, wanted map[string]any, found answer) bool {
	a.t.Helper()
	expected := what + ", which was not answered before the server was killed, is done as a whole or not at all"
	before, now := a.llamas[key], found.object()
	switch {
	case found.code == http.StatusNotFound && wanted == nil:
		return true
	case found.code == http.StatusNotFound && before == nil:
		return false
	case found.code == http.StatusNotFound:
		a.fail(found, "what was acknowledged is there after a kill", key+" is gone")
	case found.code != http.StatusOK:
		a.fail(found, expected, "afterwards a get is answered with "+found.summary())
	case before != nil && versionOf(now) == versionOf(before):
		a.same(key, before, now, found)
		return false
	case wanted == nil || spec(now) != spec(wanted):
		a.fail(found, expected, fmt.Sprintf("%s is at resourceVersion %s with %s", key, versionOf(now), spec(now)))
	case before != nil && uidOf(now) != uidOf(before):
		a.fail(found, "a llama keeps its uid", fmt.Sprintf("the uid of %s is %q and was %q", key, uidOf(now), uidOf(before)))
	}
	return true
}

// spec returns the spec of a llama in words.
func spec(object map[string]any) string {
	return fmt.Sprintf("weight %v and height %v", numberOf(object, "spec", "weight"), numberOf(object, "spec", "height"))
}

// enter records a write that was carried out, and requires that resourceVersions increase.
func (a *accounts) enter(what, key string, wanted map[string]any, written answer) {
	a.t.Helper()
	before := a.llamas[key]
	if wanted == nil {
		delete(a.llamas, key)
		a.events = append(a.events, "DELETED "+key)
		return
	}
	now := written.object()
	if !newerVersion(versionOf(now), a.last) {
		a.fail(written, "resourceVersions go on: that of a write is later than all before, also after a kill",
			fmt.Sprintf("that of %s is %q, and there was %q before", what, versionOf(now), a.last))
	}
	a.last, a.llamas[key] = versionOf(now), now
	if before == nil {
		a.events = append(a.events, "ADDED "+key)
	} else {
		a.events = append(a.events, "MODIFIED "+key)
	}
}

// deleteAll deletes the llamas of a namespace. If there is no answer, each of them is deleted or unchanged.
func (a *accounts) deleteAll(namespace string) {
	a.t.Helper()
	var keys []string
	for key := range a.llamas {
		if strings.HasPrefix(key, namespace+"/") {
			keys = append(keys, key)
		}
	}
	for {
		sent := a.try(func() answer { return a.send(a.ctx, http.MethodDelete, llamas(namespace), nil) })
		left := map[string]map[string]any{}
		if acknowledged(sent) {
			a.want(sent, "all llamas of a namespace can be deleted", http.StatusOK)
		} else {
			a.awaitServer()
			a.verify(keys...)
			left = byKey(a.list())
		}
		for _, key := range keys {
			if now, ok := left[key]; ok {
				a.same(key, a.llamas[key], now, sent)
			} else if a.llamas[key] != nil {
				a.enter("the deletion", key, nil, sent)
			}
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return left[key] == nil })
		if len(keys) == 0 {
			return
		}
	}
}

func byKey(list answer) map[string]map[string]any {
	found := map[string]map[string]any{}
	for _, object := range list.items() {
		found[keyOf(object)] = object
	}
	return found
}

// awaitServer waits until the server answers again.
func (a *accounts) awaitServer() {
	a.t.Helper()
	a.answers("the server answers after it was killed and started again")
}

// same fails the check unless a llama is unchanged.
func (a *accounts) same(key string, was, now map[string]any, found answer) {
	a.t.Helper()
	if uidOf(was) != uidOf(now) || versionOf(was) != versionOf(now) || spec(was) != spec(now) {
		a.fail(found, key+" has the same uid, resourceVersion and spec as when it was acknowledged, also after a kill",
			fmt.Sprintf("uid %q was %q, resourceVersion %q was %q, %s was %s",
				uidOf(now), uidOf(was), versionOf(now), versionOf(was), spec(now), spec(was)))
	}
}

// verify fails the check unless a list has everything that was acknowledged, once. The state of the keys in unknown is
// currently unknown.
func (a *accounts) verify(unknown ...string) {
	a.t.Helper()
	list := a.list()
	found := byKey(list)
	if len(found) != len(list.items()) {
		a.fail(list, "a list has each llama once, also after a kill",
			fmt.Sprintf("it has %d, of %d names", len(list.items()), len(found)))
	}
	if version := versionOf(list.object()); newerVersion(a.last, version) {
		a.fail(list, "resourceVersions go on after a kill: that of a list is not before those of what was acknowledged",
			fmt.Sprintf("it is %q, and there was %q before", version, a.last))
	}
	for _, key := range slices.Sorted(maps.Keys(a.llamas)) {
		if slices.Contains(unknown, key) {
			continue
		}
		if found[key] == nil {
			a.fail(list, "what was acknowledged is there after a kill", key+" is gone")
		}
		a.same(key, a.llamas[key], found[key], list)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if a.llamas[key] == nil && !slices.Contains(unknown, key) {
			a.fail(list, "what was deleted, and what was never created, is not there after a kill", key+" is there")
		}
	}
}

// verifyHistory fails the check unless a watch from the beginning reports each change once, and an existing watch has
// seen no others. A server may have forgotten the changes before the kill, if it reports that (410).
func (a *accounts) verifyHistory(live watch) {
	a.t.Helper()
	again := a.follow(llamas(""), "&resourceVersion="+a.began)
	defer again.cancel()
	if again.refused != nil && again.refused.code == http.StatusGone {
		return
	}
	a.requireStarted(again)
	seen := a.take(again, len(a.events))
	if len(seen) > 0 && seen[0].Type == "ERROR" {
		if code, _ := seen[0].Object["code"].(float64); code == http.StatusGone {
			return
		}
	}
	got, want := ordered(changes(seen)), ordered(a.events)
	if !slices.Equal(got, want) {
		a.Fail(a.t, "a watch from before the kill tells of each change once, or answers 410: "+strings.Join(want, ", "),
			"it tells of "+strings.Join(got, ", "))
	}
	last := a.began
	for _, e := range seen {
		if !newerVersion(versionOf(e.Object), last) {
			a.Fail(a.t, "the resourceVersions of a watch's events increase, also over a kill",
				fmt.Sprintf("%s is at %q, after %q", e, versionOf(e.Object), last))
		}
		last = versionOf(e.Object)
	}
	live.cancel()
	if err := <-live.ended; err != nil {
		a.t.Logf("the watch that was there has ended: %v", err) // ended by us, or by a kill
	}
	n := 0
	for e := range live.events {
		if e.Type == "BOOKMARK" || e.Type == "ERROR" {
			continue
		}
		if n >= len(seen) || e.String() != seen[n].String() || versionOf(e.Object) != versionOf(seen[n].Object) {
			a.Fail(a.t, "what a watch has told of before the kill has happened afterwards, too",
				fmt.Sprintf("%s at %s is not in the history", e, versionOf(e.Object)))
		}
		n++
	}
}

// changes returns events as lines, with the namespaces of their llamas.
func changes(events []event) (lines []string) {
	for _, e := range events {
		lines = append(lines, e.Type+" "+keyOf(e.Object))
	}
	return lines
}

// ordered sorts consecutive deletions, because the server chooses the order in which it deletes a collection.
func ordered(events []string) []string {
	events = slices.Clone(events)
	for from := 0; from < len(events); from++ {
		to := from
		for to < len(events) && strings.HasPrefix(events[to], "DELETED ") {
			to++
		}
		slices.Sort(events[from:to])
		from = max(from, to-1)
	}
	return events
}
