// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/limited"
)

// event is one of a watch.
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

// watch is a watch that goes on.
type watch struct {
	events chan event
	// ended is sent why it has: nil is a clean end.
	ended  chan error
	cancel context.CancelFunc
	// refused is the answer of a watch that was not begun.
	refused *answer
}

// follow begins a watch. Query is what comes after watch=true.
func (v visit) follow(path, query string, headers ...string) watch {
	return followBy(v.ctx, v.http, v.host, path, query, headers...)
}

func followBy(ctx context.Context, client *http.Client, host, path, query string, headers ...string) watch {
	ctx, cancel := context.WithCancel(ctx)
	w := watch{events: make(chan event, 4096), ended: make(chan error, 1), cancel: cancel}
	path += "?watch=true" + query
	a := answer{method: http.MethodGet, path: path}
	request, err := newRequest(ctx, host, http.MethodGet, path, nil, headers...)
	if err != nil {
		a.err = err
		w.refused = &a
		return w
	}
	waiting := time.AfterFunc(requestTimeout, cancel) // until the answer begins
	response, err := client.Do(request)
	waiting.Stop()
	if err != nil {
		a.err = err
		w.refused = &a
		return w
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		a.read(response)
		w.refused = &a
		return w
	}
	go func() {
		defer response.Body.Close()
		defer close(w.events)
		decoder := json.NewDecoder(limited.Reader(response.Body, eventsLimit))
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

// eventsLimit is how much a watch may send, in bytes: an event could be without end. Some hundred events are the most
// that a check waits for.
const eventsLimit = 16 << 20

// eventPatience is for an event to come, which takes some milliseconds. On a busy machine it can take seconds.
const eventPatience = 10 * time.Second

// take is the next events: as many, or until the watch ends or none comes for a while. Bookmarks are left out.
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

func told(events []event) (words []string) {
	for _, e := range events {
		words = append(words, e.String())
	}
	return words
}

// begun fails the check unless a watch was begun.
func (v visit) begun(w watch) {
	v.t.Helper()
	if w.refused != nil {
		v.fail(*w.refused, "a watch can be begun (200)", "the answer is "+w.refused.told())
	}
}

// now is the resourceVersion of a list.
func (v visit) now(namespace string) string {
	v.t.Helper()
	return versionOf(v.want(v.send(v.ctx, http.MethodGet, llamas(namespace), nil), "the llamas of a namespace can be listed", http.StatusOK).object())
}

func watched() types.Feature {
	return features.New("watch").
		Assess("each change once", check.Assess(step(func(v visit) {
			from := v.now(here)
			query := "&resourceVersion=" + from
			all, white := v.follow(llamas(here), query), v.follow(llamas(here), query+"&labelSelector=color%3Dwhite")
			black := v.follow(llamas(here), query+"&fieldSelector=metadata.name%3Dw-black")
			defer black.cancel()
			v.begun(black)
			tables, metadata := v.follow(llamas(here), query, "Accept", acceptTable), v.follow(llamas(here), query, "Accept", acceptPartial)
			defer tables.cancel()
			defer metadata.cancel()
			defer all.cancel()
			defer white.cancel()
			v.begun(all)
			v.begun(white)
			v.make(here, labelled("w-white", "color", "white"))
			v.make(here, labelled("w-black", "color", "black"))
			selects := v.selectsByName("w-black") // or that is for another check
			v.make(there, labelled("w-there", "color", "white"))
			v.change(here, "w-white", `{"spec":{"weight":77.5}}`)
			v.change(here, "w-white", `{"metadata":{"labels":{"color":"grey"}}}`)
			v.change(here, "w-black", `{"metadata":{"labels":{"color":"white"}}}`)
			v.drop(here, "w-white")
			v.drop(here, "w-black")
			wantAll := []string{
				"ADDED w-white", "ADDED w-black", "MODIFIED w-white", "MODIFIED w-white", "MODIFIED w-black", "DELETED w-white", "DELETED w-black",
			}
			wantWhite := []string{"ADDED w-white", "MODIFIED w-white", "DELETED w-white", "ADDED w-black", "DELETED w-black"}
			v.saw(v.take(all, len(wantAll)), "a watch on a namespace sends", wantAll)
			v.saw(v.take(white, len(wantWhite)), "a watch with the label selector color=white sends (what no longer matches is DELETED, what now does is ADDED)", wantWhite)
			wantBlack := []string{"ADDED w-black", "MODIFIED w-black", "DELETED w-black"}
			if selects {
				v.saw(v.take(black, len(wantBlack)), "a watch with the field selector metadata.name=w-black, as kubectl delete has it, sends", wantBlack)
			}
			// The forms of a list are for other checks.
			served := func(accept, kind string) bool {
				return textOf(v.send(v.ctx, http.MethodGet, llamas(here), nil, "Accept", accept).object(), "kind") == kind
			}
			if served(acceptTable, "Table") {
				v.tables(tables, "w-white")
			}
			if metadata.refused == nil && served(acceptMetadata, "PartialObjectMetadataList") {
				for _, e := range v.take(metadata, 1) {
					if textOf(e.Object, "kind") != "PartialObjectMetadata" || nameOf(e.Object) != "w-white" {
						v.Fail(v.t, "in a watch of a client that asks for metadata alone, each event has a PartialObjectMetadata", fmt.Sprintf("the first has the kind %q and the name %q", textOf(e.Object, "kind"), nameOf(e.Object)))
					}
				}
			}
			shoes := v.follow(llamas(here), query+"&fieldSelector=spec.shoes%3D4")
			defer shoes.cancel()
			if shoes.refused == nil || shoes.refused.code != http.StatusBadRequest {
				v.Fail(v.t, "a watch with a field selector for a field that is not served answers 400", "it does not")
			}
			late := v.follow(llamas(here), query)
			defer late.cancel()
			v.begun(late)
			events := v.take(late, len(wantAll))
			v.saw(events, "a watch that begins later, from the same resourceVersion, sends", wantAll)
			v.rising(from, events)
		}))).
		Assess("without a resourceVersion, and of all namespaces", check.Assess(step(func(v visit) {
			if !v.listsAll() {
				return // that is for another check
			}
			v.make(here, labelled("w-first", "set", "w"))
			w := v.follow(llamas(""), "&labelSelector=set%3Dw")
			defer w.cancel()
			v.begun(w)
			v.make(there, labelled("w-second", "set", "w"))
			want := []string{"ADDED w-first", "ADDED w-second"}
			v.saw(v.take(w, len(want)), "a watch without a resourceVersion sends what exists as ADDED, and goes on", want)
		}))).Feature()
}

// acceptPartial asks for the metadata of objects alone.
const acceptPartial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// tables fails the check unless the first event of a watch has a Table with a row for an object, as kubectl get -w reads it.
func (v visit) tables(w watch, name string) {
	v.t.Helper()
	v.begun(w)
	for _, e := range v.take(w, 1) {
		rows, _, _ := unstructured.NestedSlice(e.Object, "rows")
		var cells []any
		if len(rows) > 0 {
			row, _ := rows[0].(map[string]any)
			cells, _, _ = unstructured.NestedSlice(row, "cells")
		}
		if textOf(e.Object, "kind") != "Table" || len(rows) != 1 || len(cells) != 4 || cells[0] != name {
			v.Fail(v.t, "in a watch of a client that asks for a Table, each event has a Table of one row", fmt.Sprintf("the first has the kind %q, and %d rows with the cells %v", textOf(e.Object, "kind"), len(rows), cells))
		}
	}
}

func (v visit) saw(events []event, expected string, want []string) {
	v.t.Helper()
	if got := told(events); !slices.Equal(got, want) {
		v.Fail(v.t, expected+" "+strings.Join(want, ", "), "it sends "+strings.Join(append(got, "nothing more"), ", "))
	}
}

// rising fails the check unless each event has a later resourceVersion than the one before.
func (v visit) rising(from string, events []event) {
	v.t.Helper()
	last := from
	for _, e := range events {
		if !later(versionOf(e.Object), last) {
			v.Fail(v.t, "each event's resourceVersion is later than that of the event before, also that of DELETED: a watch goes on from it",
				fmt.Sprintf("%s has %q after %q", e, versionOf(e.Object), last))
		}
		last = versionOf(e.Object)
	}
}

// later says whether a resourceVersion comes after another. They are decimal numbers since Kubernetes 1.35; others can only differ.
func later(version, than string) bool {
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	if errA != nil || errB != nil {
		return version != "" && version != than
	}
	return a > b
}

func bookmarks() types.Feature {
	return features.New("bookmarks").
		Assess("before the end", check.Assess(step(func(v visit) {
			var seen []event
			// A server may need more than a second for it.
			for _, seconds := range []int{1, 4} {
				patience := time.Duration(seconds) * time.Second
				began := time.Now()
				w := v.follow(llamas(here),
					fmt.Sprintf("&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%d", v.now(here), seconds))
				v.begun(w)
				// The watch does not send it. On a busy machine it may be created too late for the bookmark.
				elsewhere := v.make(there, newLlama(fmt.Sprintf("elsewhere-%d", seconds), 100, 1.5))
				inTime := time.Since(began) < patience/2
				sent, ended := until(w, time.Duration(seconds)*time.Second+watchEndPatience)
				seen = append(seen, sent...)
				w.cancel()
				if !ended {
					v.Fail(v.t, "a watch ends by itself when its timeoutSeconds are over",
						fmt.Sprintf("one with timeoutSeconds=%d still went on %s later; it had sent %s",
							seconds, watchEndPatience, english.Plural(len(sent), "event", "")))
				}
				i := len(seen) - 1
				for i >= 0 && seen[i].Type != "BOOKMARK" {
					i--
				}
				if i >= 0 && inTime && later(versionOf(elsewhere), versionOf(seen[i].Object)) && versionOf(seen[i].Object) != "" {
					if seconds > 1 {
						v.Fail(v.t, "the last BOOKMARK of a watch has the resourceVersion up to which the server has looked at all changes, also at those that the watch does not send",
							fmt.Sprintf("it has %q, and 2 s or more before the end a llama of another namespace got %q", versionOf(seen[i].Object), versionOf(elsewhere)))
					}
					continue // perhaps only for this once
				}
				if i >= 0 {
					e := seen[i]
					if versionOf(e.Object) == "" || textOf(e.Object, "kind") != "Llama" {
						v.Fail(v.t, "a BOOKMARK is a Llama with nothing but a resourceVersion", fmt.Sprintf("its kind is %q and its resourceVersion %q", textOf(e.Object, "kind"), versionOf(e.Object)))
					}
					return
				}
			}
			v.Fail(v.t, "a watch with allowWatchBookmarks=true sends a BOOKMARK before its timeoutSeconds end",
				fmt.Sprintf("watches of 1 and 4 seconds sent %s and no BOOKMARK", english.Plural(len(seen), "event", "")))
		}))).Feature()
}

// watchEndPatience is how much later than its timeoutSeconds a watch may end.
const watchEndPatience = 10 * time.Second

// until are the events of a watch until it ends by itself. After a while it is not waited for any longer.
func until(w watch, limit time.Duration) (events []event, ended bool) {
	over := time.After(limit)
	for {
		select {
		case e, ok := <-w.events:
			if !ok {
				return events, true
			}
			events = append(events, e)
		case <-over:
			return events, false
		}
	}
}

func initialEvents() types.Feature {
	return features.New("initial events").
		Assess("served or refused", check.Assess(step(func(v visit) {
			v.make(here, labelled("i-1", "set", "i"))
			v.make(here, labelled("i-2", "set", "i"))
			w := v.follow(llamas(here), "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=set%3Di&timeoutSeconds=5")
			defer w.cancel()
			if w.refused != nil {
				if w.refused.code >= 400 && w.refused.code < 500 && w.refused.isStatus("") {
					return // client-go lists instead
				}
				v.fail(*w.refused, "a watch with sendInitialEvents=true is served, or refused with a Status of 400 to 499", "the answer is "+w.refused.told())
			}
			const expected = "a watch with sendInitialEvents=true sends ADDED i-1, ADDED i-2, and then a BOOKMARK with the annotation k8s.io/initial-events-end: \"true\""
			var seen []string
			for {
				select {
				case e, ok := <-w.events:
					if ok && e.Type != "BOOKMARK" {
						seen = append(seen, e.String())
						continue
					}
					annotations, _ := numberOf(e.Object, "metadata", "annotations").(map[string]any)
					slices.Sort(seen)
					if !ok || annotations["k8s.io/initial-events-end"] != "true" {
						v.Fail(v.t, expected, fmt.Sprintf("it sends %v and then no such BOOKMARK", seen))
					}
					if !slices.Equal(seen, []string{"ADDED i-1", "ADDED i-2"}) {
						v.Fail(v.t, expected, fmt.Sprintf("it sends %v before the BOOKMARK", seen))
					}
					return
				case <-time.After(eventPatience):
					v.Fail(v.t, expected, fmt.Sprintf("it sends %v and then no such BOOKMARK", seen))
				}
			}
		}))).Feature()
}

// quietWatches are watches that select none of the changes that follow.
func (v visit) quietWatches(from string) map[string]watch {
	v.t.Helper()
	all := map[string]watch{}
	for what, query := range map[string]string{
		"of another namespace":  "",
		"with a label selector": "&labelSelector=set%3Dquiet",
		"with a field selector": "&fieldSelector=metadata.name%3Dquiet",
	} {
		namespace := here
		if query == "" {
			namespace = there
		}
		w := v.follow(llamas(namespace), query+"&resourceVersion="+from)
		v.t.Cleanup(w.cancel)
		v.begun(w)
		all[what] = w
	}
	return all
}

// stillFollow fails the check unless watches that had nothing to send during many changes send the next change that they select. If
// one was too slow for so many writers at the same time, which is no mistake, it gets the same changes again, one after the other.
func (v visit) stillFollow(quiet map[string]watch) {
	v.t.Helper()
	for attempt := 1; ; attempt++ {
		v.make(here, labelled("quiet", "set", "quiet"))
		v.make(there, labelled("quiet", "set", "quiet"))
		wrong, observed := "", ""
		for what, w := range quiet {
			// Another event is for the checks of selectors.
			if events := v.take(w, 1); len(events) == 0 || events[0].Type == "ERROR" {
				wrong, observed = what, strings.Join(append(told(events), "nothing more"), ", ")
			}
		}
		if wrong == "" {
			return
		}
		if attempt > 1 {
			v.Fail(v.t, "a watch "+wrong+" that selects none of many changes does not become too old: it sends the next change that it selects, ADDED quiet", "it sends "+observed)
		}
		v.drop(here, "quiet")
		v.drop(there, "quiet")
		quiet = v.quietWatches(v.now(here))
		for i := range changesUntilGone / 2 {
			v.change(here, "restless", fmt.Sprintf(`{"spec":{"weight":%d}}`, i+1))
		}
	}
}

// changesUntilGone are more changes than a history may have: see the task.
const changesUntilGone = 320

func gone() types.Feature {
	return features.New("too old").
		Assess("no change is missed silently", check.Assess(step(func(v visit) {
			v.make(here, newLlama("restless", 100, 1.5))
			from := v.now(here)
			quiet := v.quietWatches(from)
			// Several at a time: each patches its own llama, so that they don't wait for each other.
			const writers = 8
			var group sync.WaitGroup
			failed := make(chan answer, writers)
			for n := range writers {
				name := fmt.Sprintf("restless-%d", n)
				v.make(here, newLlama(name, 100, 1.5))
				group.Go(func() {
					for i := range changesUntilGone / writers {
						a := v.send(v.ctx, http.MethodPatch, llama(here, name), fmt.Sprintf(`{"spec":{"weight":%d}}`, i+1), "Content-Type", "application/merge-patch+json")
						if a.code != http.StatusOK {
							failed <- a
							return
						}
					}
				})
			}
			group.Wait()
			select {
			case a := <-failed:
				v.fail(a, "a llama can be patched many times", "the answer is "+a.told())
			default:
			}
			v.stillFollow(quiet)
			changes := writers + writers*(changesUntilGone/writers) + 1
			w := v.follow(llamas(here), "&resourceVersion="+from)
			defer w.cancel()
			if w.refused != nil {
				if w.refused.code == http.StatusGone {
					return
				}
				v.fail(*w.refused, "a watch from a resourceVersion that is too old answers 410 Gone", "the answer is "+w.refused.told())
			}
			count := 0
			for {
				select {
				case e, ok := <-w.events:
					if ok && e.Type == "ERROR" {
						if code := fmt.Sprint(e.Object["code"]); code != "410" {
							v.Fail(v.t, "the ERROR event of a watch that is too old is a Status with the code 410", "its code is "+code)
						}
						return
					}
					if ok {
						count++
					}
					if count == changes {
						return // it has forgotten nothing, and that is right as well
					}
					if ok {
						continue
					}
				case <-time.After(eventPatience):
				}
				v.Fail(v.t, fmt.Sprintf("a watch from a resourceVersion before %d changes sends all of them, or says 410 Gone", changes),
					fmt.Sprintf("it sends %d events and no error: whoever watches never learns of the others", count))
			}
		}))).Feature()
}
