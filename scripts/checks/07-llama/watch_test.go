// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/limited"
)

// event is an event of a watch.
type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

func (e event) String() string {
	if e.Type == "ERROR" {
		return fmt.Sprintf("ERROR %v (%s)", e.Object["code"], textOf(e.Object, "reason"))
	}
	if name := nameOf(e.Object); name != "" {
		return e.Type + " " + name
	}
	return e.Type
}

// watch is a running watch.
type watch struct {
	events chan event
	// ended receives the reason for the end of the watch. Nil is a clean end.
	ended  chan error
	cancel context.CancelFunc
	// refused is the answer if the watch was refused.
	refused *answer
	// sending is closed when the first byte of the first event arrives.
	sending chan struct{}
}

// readAtOnce is closed, for a watch that is read from its beginning.
var readAtOnce = func() chan struct{} {
	read := make(chan struct{})
	close(read)
	return read
}()

// follow begins a watch. query is appended to watch=true.
func (v visit) follow(path, query string, headers ...string) watch {
	return followBy(v.ctx, v.http, v.host, path, query, headers...)
}

func followBy(ctx context.Context, client *http.Client, host, path, query string, headers ...string) watch {
	return followWhen(ctx, client, host, path, query, readAtOnce, headers...)
}

// followWhen begins a watch, and starts to read its events when a channel is closed. Until then it reads at most a
// buffer of the first event.
func followWhen(
	ctx context.Context, client *http.Client, host, path, query string, read <-chan struct{}, headers ...string,
) watch {
	ctx, cancel := context.WithCancel(ctx)
	w := watch{events: make(chan event, 4096), ended: make(chan error, 1), cancel: cancel, sending: make(chan struct{})}
	path += "?watch=true" + query
	a := answer{method: http.MethodGet, path: path}
	request, err := newRequest(ctx, host, http.MethodGet, path, nil, headers...)
	if err != nil {
		cancel()
		a.err = err
		w.refused = &a
		return w
	}
	waiting := time.AfterFunc(requestTimeout, cancel) // limits the time until the answer begins
	response, err := client.Do(request)
	waiting.Stop()
	if err != nil {
		cancel()
		a.err = err
		w.refused = &a
		return w
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		defer response.Body.Close()
		a.read(response)
		w.refused = &a
		return w
	}
	go func() {
		defer response.Body.Close()
		defer close(w.events)
		body := bufio.NewReader(limited.Reader(response.Body, eventsLimit))
		_, _ = body.Peek(1) // the decoder returns the error, too
		close(w.sending)
		select {
		case <-read:
		case <-ctx.Done():
		}
		decoder := json.NewDecoder(body)
		for {
			var e event
			if err := decoder.Decode(&e); err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				w.ended <- err
				return
			}
			w.events <- e
		}
	}()
	return w
}

// eventsLimit is how much a watch may send, in bytes, because an event could be endless. Checks wait for some hundred
// events at most.
const eventsLimit = 16 << 20

// eventPatience is how long an event may take to arrive. It takes some milliseconds, and on a busy machine it can take
// seconds.
const eventPatience = 10 * time.Second

// take returns the next events: count of them, or those until the watch ends or none arrives for a while. It leaves out
// bookmarks.
func (v visit) take(w watch, count int) (events []event) {
	v.t.Helper()
	for len(events) < count {
		select {
		case e, ok := <-w.events:
			if !ok {
				return events
			}
			if e.Type != "BOOKMARK" {
				events = append(events, e)
			}
		case <-time.After(eventPatience):
			return events
		case <-v.ctx.Done():
			return events
		}
	}
	return events
}

// errorIsStatus fails the check unless the object of an ERROR event is a Status, as clients decode it.
func (v visit) errorIsStatus(e event) {
	v.t.Helper()
	if kind, version := textOf(e.Object, "kind"), textOf(e.Object, "apiVersion"); kind != "Status" || version != "v1" {
		v.Fail(v.t, "the object of an ERROR event has the kind Status and the apiVersion v1, "+
			"without which clients can't decode it",
			fmt.Sprintf("its kind is %q and its apiVersion %q", kind, version))
	}
}

func describe(events []event) (words []string) {
	for _, e := range events {
		words = append(words, e.String())
	}
	return words
}

// requireStarted fails the check unless a watch was begun.
func (v visit) requireStarted(w watch) {
	v.t.Helper()
	if w.refused != nil {
		v.fail(*w.refused, "a watch can be begun (200)", "the answer is "+w.refused.summary())
	}
}

// now returns the resourceVersion of a list.
func (v visit) now(namespace string) string {
	v.t.Helper()
	return versionOf(v.want(v.send(v.ctx, http.MethodGet, llamas(namespace), nil),
		"the llamas of a namespace can be listed", http.StatusOK).object())
}

func watched() types.Feature {
	return features.New("watch").
		Assess("each change once", check.Assess(step(func(v visit) {
			from := v.now(ns)
			query := "&resourceVersion=" + from
			all, white := v.follow(llamas(ns), query), v.follow(llamas(ns), query+"&labelSelector=color%3Dwhite")
			black := v.follow(llamas(ns), query+"&fieldSelector=metadata.name%3Dw-black")
			defer black.cancel()
			v.requireStarted(black)
			tables, metadata := v.follow(llamas(ns), query, "Accept", acceptTable),
				v.follow(llamas(ns), query, "Accept", acceptPartial)
			defer tables.cancel()
			defer metadata.cancel()
			defer all.cancel()
			defer white.cancel()
			v.requireStarted(all)
			v.requireStarted(white)
			created := []map[string]any{
				v.create(ns, labelled("w-white", "color", "white")),
				v.create(ns, labelled("w-black", "color", "black")),
			}
			selects := v.selectsByName("w-black") // another check reports that it does not
			v.create(otherNS, labelled("w-there", "color", "white"))
			v.change(ns, "w-white", `{"spec":{"weight":77.5}}`)
			v.change(ns, "w-white", `{"metadata":{"labels":{"color":"grey"}}}`)
			v.change(ns, "w-black", `{"metadata":{"labels":{"color":"white"}}}`)
			v.drop(ns, "w-white")
			v.drop(ns, "w-black")
			wantAll := []string{
				"ADDED w-white", "ADDED w-black", "MODIFIED w-white", "MODIFIED w-white",
				"MODIFIED w-black", "DELETED w-white", "DELETED w-black",
			}
			wantWhite := []string{"ADDED w-white", "MODIFIED w-white", "DELETED w-white", "ADDED w-black", "DELETED w-black"}
			v.saw(v.take(all, len(wantAll)), "a watch on a namespace sends", wantAll)
			v.saw(v.take(white, len(wantWhite)), "a watch with the label selector color=white sends "+
				"(what no longer matches is DELETED, what now does is ADDED)", wantWhite)
			wantBlack := []string{"ADDED w-black", "MODIFIED w-black", "DELETED w-black"}
			if selects {
				v.saw(v.take(black, len(wantBlack)),
					"a watch with the field selector metadata.name=w-black, as kubectl delete has it, sends", wantBlack)
			}
			// Other checks test the forms of a list.
			served := func(accept, kind string) bool {
				return textOf(v.send(v.ctx, http.MethodGet, llamas(ns), nil, "Accept", accept).object(), "kind") == kind
			}
			if served(acceptTable, "Table") {
				v.tables(tables, "w-white")
			}
			if metadata.refused == nil && served(acceptMetadata, "PartialObjectMetadataList") {
				for _, e := range v.take(metadata, 1) {
					if textOf(e.Object, "kind") != "PartialObjectMetadata" || nameOf(e.Object) != "w-white" {
						v.Fail(v.t, "in a watch of a client that asks for metadata alone, each event has a PartialObjectMetadata",
							fmt.Sprintf("the first has the kind %q and the name %q", textOf(e.Object, "kind"), nameOf(e.Object)))
					}
				}
			}
			shoes := v.follow(llamas(ns), query+"&fieldSelector=spec.shoes%3D4")
			defer shoes.cancel()
			if shoes.refused == nil || shoes.refused.code != http.StatusBadRequest {
				v.Fail(v.t, "a watch with a field selector for a field that is not served answers 400", "it does not")
			}
			late := v.follow(llamas(ns), query)
			defer late.cancel()
			v.requireStarted(late)
			events := v.take(late, len(wantAll))
			v.saw(events, "a watch that begins later, from the same resourceVersion, sends", wantAll)
			v.rising(from, events)
			v.haveLlamas(events, created)
			v.discoveryHas("watch")
			v.tryWithdrawnRight()
		}))).
		Assess("without a resourceVersion, and of all namespaces", check.Assess(step(func(v visit) {
			if !v.listsAll() {
				return // another check reports that
			}
			v.create(ns, labelled("w-first", "set", "w"))
			w := v.follow(llamas(""), "&labelSelector=set%3Dw")
			defer w.cancel()
			v.requireStarted(w)
			v.create(otherNS, labelled("w-second", "set", "w"))
			want := []string{"ADDED w-first", "ADDED w-second"}
			v.saw(v.take(w, len(want)), "a watch without a resourceVersion sends what exists as ADDED, and continues", want)
			zero := v.follow(llamas(""), "&resourceVersion=0&labelSelector=set%3Dw")
			defer zero.cancel()
			v.requireStarted(zero)
			v.saw(inOrder(v.take(zero, len(want))), "a watch with resourceVersion=0 sends what exists as ADDED", want)
		}))).
		Assess("a llama that a finalizer holds", check.Assess(step(func(v visit) {
			from := v.now(ns)
			held := newLlama("w-held", 100, 1.5)
			held["metadata"].(map[string]any)["finalizers"] = []any{"labs.lva.io/holds"}
			created := v.send(v.ctx, http.MethodPost, llamas(ns), held)
			if created.code != http.StatusCreated || numberOf(created.object(), "metadata", "finalizers") == nil {
				return // the server does not accept finalizers
			}
			v.drop(ns, "w-held")
			v.change(ns, "w-held", `{"metadata":{"finalizers":null}}`)
			v.create(ns, newLlama("w-next", 100, 1.5))
			w := v.follow(llamas(ns), "&resourceVersion="+from)
			defer w.cancel()
			v.requireStarted(w)
			var seen []event
			for len(seen) < heldEvents {
				events := v.take(w, 1)
				if len(events) == 0 || nameOf(events[0].Object) == "w-next" {
					break
				}
				seen = append(seen, events[0])
			}
			marked := len(seen) > 1 && seen[1].Type == "MODIFIED" &&
				textOf(seen[1].Object, "metadata", "deletionTimestamp") != ""
			if !marked || seen[0].String() != "ADDED w-held" || seen[len(seen)-1].String() != "DELETED w-held" ||
				slices.ContainsFunc(seen[1:len(seen)-1], func(e event) bool { return e.Type != "MODIFIED" }) {
				v.Fail(v.t, "a watch sends ADDED for a llama with a finalizer, "+
					"MODIFIED with a deletionTimestamp when it is deleted, and DELETED when the finalizer is removed",
					"it sends "+strings.Join(append(describe(seen), "nothing more of it"), ", "))
			}
		}))).
		Assess("a client that reads slowly", check.Assess(step(visit.slowlyRead))).Feature()
}

// heldEvents is more than a watch sends for a llama that a finalizer holds.
const heldEvents = 6

// haveLlamas fails the check unless each event of the check watch has its llama in the state of that moment, with its
// uid and weight.
func (v visit) haveLlamas(events []event, created []map[string]any) {
	v.t.Helper()
	for i, e := range events {
		for _, object := range created {
			if nameOf(object) != nameOf(e.Object) {
				continue
			}
			if textOf(e.Object, "kind") != "Llama" || textOf(e.Object, "apiVersion") != groupVersion ||
				uidOf(e.Object) != uidOf(object) {
				v.Fail(v.t, "each event of a watch, even DELETED, has the complete llama: kind, apiVersion and uid",
					fmt.Sprintf("%s has the kind %q, the apiVersion %q and the uid %q, which was %q",
						e, textOf(e.Object, "kind"), textOf(e.Object, "apiVersion"), uidOf(e.Object), uidOf(object)))
			}
		}
		if want := eventWeights[i]; fmt.Sprint(numberOf(e.Object, "spec", "weight")) != want {
			v.Fail(v.t,
				"each event of a watch has the llama as it was after that change, and DELETED as it was before the deletion",
				fmt.Sprintf("the weight in event %d, %s, is %v and not %s", i+1, e, numberOf(e.Object, "spec", "weight"), want))
		}
	}
}

// eventWeights are the weights in the events of the check watch.
var eventWeights = []string{"100.5", "100.5", "77.5", "77.5", "100.5", "77.5", "100.5"}

// earlier reports whether one resourceVersion is known to be earlier than another. They are decimal numbers.
func earlier(version, than string) bool {
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	return errA == nil && errB == nil && a < b
}

// inOrder sorts events, which may come in any order, by the names of their llamas.
func inOrder(events []event) []event {
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(nameOf(a.Object), nameOf(b.Object)) })
	return events
}

// acceptPartial requests only the metadata of objects.
const acceptPartial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// tables fails the check unless the first event of a watch has a Table with a row for an object, as kubectl get -w
// reads it.
func (v visit) tables(w watch, name string) {
	v.t.Helper()
	v.requireStarted(w)
	for _, e := range v.take(w, 1) {
		rows, _, _ := unstructured.NestedSlice(e.Object, "rows")
		var cells []any
		if len(rows) > 0 {
			row, _ := rows[0].(map[string]any)
			cells, _, _ = unstructured.NestedSlice(row, "cells")
		}
		if textOf(e.Object, "kind") != "Table" || len(rows) != 1 || len(cells) != 4 || cells[0] != name {
			v.Fail(v.t, "in a watch of a client that asks for a Table, each event has a Table of one row",
				fmt.Sprintf("the first has the kind %q, and %d rows with the cells %v", textOf(e.Object, "kind"), len(rows), cells))
		}
	}
}

func (v visit) saw(events []event, expected string, want []string) {
	v.t.Helper()
	if got := describe(events); !slices.Equal(got, want) {
		v.Fail(v.t, expected+" "+strings.Join(want, ", "), "it sends "+strings.Join(append(got, "nothing more"), ", "))
	}
}

// rising fails the check unless each event has a later resourceVersion than the one before.
func (v visit) rising(from string, events []event) {
	v.t.Helper()
	last := from
	for _, e := range events {
		if !newerVersion(versionOf(e.Object), last) {
			v.Fail(v.t, "each event's resourceVersion is later than that of the event before, also that of DELETED: "+
				"a watch continues from it",
				fmt.Sprintf("%s has %q after %q", e, versionOf(e.Object), last))
		}
		last = versionOf(e.Object)
	}
}

// newerVersion reports whether one resourceVersion is newer than another. They are decimal numbers since Kubernetes
// 1.35. Others can only differ.
func newerVersion(version, than string) bool {
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	if errA != nil || errB != nil {
		return version != "" && version != than
	}
	return a > b
}
