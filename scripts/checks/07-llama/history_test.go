// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func bookmarks() types.Feature {
	return features.New("bookmarks").
		Assess("before the end", check.Assess(step(func(v visit) {
			var seen []event
			// A server may need more than a second for a bookmark.
			for _, seconds := range []int{1, 4} {
				patience := time.Duration(seconds) * time.Second
				began := time.Now()
				w := v.follow(llamas(ns),
					fmt.Sprintf("&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%d", v.now(ns), seconds))
				v.requireStarted(w)
				// This watch does not request bookmarks, and ends at the same time.
				unasked := v.follow(llamas(ns), fmt.Sprintf("&resourceVersion=%s&timeoutSeconds=%d", v.now(ns), seconds))
				v.requireStarted(unasked)
				// The watch does not send it. On a busy machine it may be created too late for the bookmark.
				elsewhere := v.create(otherNS, newLlama(fmt.Sprintf("elsewhere-%d", seconds), 100, 1.5))
				inTime := time.Since(began) < patience/2
				sent, ended := until(w, time.Duration(seconds)*time.Second+watchEndPatience)
				seen = append(seen, sent...)
				w.cancel()
				if took := time.Since(began); took < patience {
					v.Fail(v.t, "a watch does not end before its timeoutSeconds are over",
						fmt.Sprintf("one with timeoutSeconds=%d ended after %s", seconds, took.Round(time.Millisecond)))
				}
				others, _ := until(unasked, watchEndPatience)
				unasked.cancel()
				if slices.ContainsFunc(others, func(e event) bool { return e.Type == "BOOKMARK" }) {
					v.Fail(v.t, "a watch without allowWatchBookmarks sends no BOOKMARK, since its client may not understand one",
						"it sends "+strings.Join(describe(others), ", "))
				}
				if !ended {
					v.Fail(v.t, "a watch ends by itself when its timeoutSeconds are over",
						fmt.Sprintf("one with timeoutSeconds=%d still went on %s later; it had sent %s",
							seconds, watchEndPatience, english.Plural(len(sent), "event", "")))
				}
				i := len(seen) - 1
				for i >= 0 && seen[i].Type != "BOOKMARK" {
					i--
				}
				if i >= 0 && inTime &&
					newerVersion(versionOf(elsewhere), versionOf(seen[i].Object)) && versionOf(seen[i].Object) != "" {
					if seconds > 1 {
						v.Fail(v.t, "the last BOOKMARK of a watch has the resourceVersion up to which the server "+
							"has looked at all changes, also at those that the watch does not send",
							fmt.Sprintf("it has %q, and 2 s or more before the end a llama of another namespace got %q",
								versionOf(seen[i].Object), versionOf(elsewhere)))
					}
					continue // perhaps only this time
				}
				if i >= 0 {
					e := seen[i]
					if versionOf(e.Object) == "" || textOf(e.Object, "kind") != "Llama" {
						v.Fail(v.t, "a BOOKMARK is a Llama with nothing but a resourceVersion",
							fmt.Sprintf("its kind is %q and its resourceVersion %q", textOf(e.Object, "kind"), versionOf(e.Object)))
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

// until returns the events of a watch until the watch ends by itself, or until limit is over.
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
			v.create(ns, labelled("i-1", "set", "i"))
			v.create(ns, labelled("i-2", "set", "i"))
			w, served := v.sendsInitialEvents(llamas(ns), "set%3Di", "ADDED i-1", "ADDED i-2")
			if !served {
				return
			}
			v.create(ns, labelled("i-3", "set", "i"))
			v.saw(v.take(w, 1), "after the initial events a watch sends", []string{"ADDED i-3"})
			v.sendsInitialEvents(llamas(ns), "set%3Dnone")
			if v.listsAll() { // another check reports that it does not
				v.create(otherNS, labelled("i-4", "set", "i"))
				v.sendsInitialEvents(llamas(""), "set%3Di", "ADDED i-1", "ADDED i-2", "ADDED i-3", "ADDED i-4")
			}
		}))).Feature()
}

// sendsInitialEvents fails the check unless a watch with sendInitialEvents sends these events, in any order, and then
// the bookmark. The server may also refuse the watch, because client-go then lists instead.
func (v visit) sendsInitialEvents(path, labels string, want ...string) (w watch, served bool) {
	v.t.Helper()
	w = v.follow(path, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"+
		"&timeoutSeconds=30&labelSelector="+labels)
	v.t.Cleanup(w.cancel)
	if w.refused != nil {
		if w.refused.code >= 400 && w.refused.code < 500 && w.refused.isStatus("") {
			return w, false
		}
		v.fail(*w.refused, "a watch with sendInitialEvents=true is served, or refused with a Status of 400 to 499",
			"the answer is "+w.refused.summary())
	}
	first := strings.Join(want, ", ")
	if first == "" {
		first = "nothing"
	}
	expected := fmt.Sprintf("a watch with sendInitialEvents=true sends %s, "+
		"and then a BOOKMARK with the annotation k8s.io/initial-events-end: \"true\"", first)
	var seen []string
	for {
		select {
		case e, ok := <-w.events:
			if ok && e.Type == "MODIFIED" {
				continue // such as a Pod that the scheduler updates
			}
			if ok && e.Type != "BOOKMARK" {
				seen = append(seen, e.String())
				continue
			}
			annotations, _ := numberOf(e.Object, "metadata", "annotations").(map[string]any)
			slices.Sort(seen)
			if !ok || annotations["k8s.io/initial-events-end"] != "true" {
				v.Fail(v.t, expected, fmt.Sprintf("it sends %v and then no such BOOKMARK", seen))
			}
			if !slices.Equal(seen, want) {
				v.Fail(v.t, expected, fmt.Sprintf("it sends %v before the BOOKMARK", seen))
			}
			if versionOf(e.Object) == "" {
				v.Fail(v.t, expected+" and a resourceVersion, from which the client continues", "it has no resourceVersion")
			}
			return w, true
		case <-time.After(eventPatience):
			v.Fail(v.t, expected, fmt.Sprintf("it sends %v and then no such BOOKMARK", seen))
		}
	}
}

// quietWatches begins watches that select none of the changes that follow.
func (v visit) quietWatches(from string) map[string]watch {
	v.t.Helper()
	all := map[string]watch{}
	for what, query := range map[string]string{
		"of another namespace":  "",
		"with a label selector": "&labelSelector=set%3Dquiet",
		"with a field selector": "&fieldSelector=metadata.name%3Dquiet",
	} {
		namespace := ns
		if query == "" {
			namespace = otherNS
		}
		w := v.follow(llamas(namespace), query+"&resourceVersion="+from)
		v.t.Cleanup(w.cancel)
		v.requireStarted(w)
		all[what] = w
	}
	return all
}

// stillFollow fails the check unless watches that had nothing to send during many changes send the next change that
// they select. If one was too slow for so many concurrent writers, which is no mistake, it gets the same changes again,
// one after the other.
func (v visit) stillFollow(quiet map[string]watch) {
	v.t.Helper()
	for attempt := 1; ; attempt++ {
		v.create(ns, labelled("quiet", "set", "quiet"))
		v.create(otherNS, labelled("quiet", "set", "quiet"))
		wrong, observed := "", ""
		for what, w := range quiet {
			// The checks of selectors report other events.
			if events := v.take(w, 1); len(events) == 0 || events[0].Type == "ERROR" {
				wrong, observed = what, strings.Join(append(describe(events), "nothing more"), ", ")
			}
		}
		if wrong == "" {
			return
		}
		if attempt > 1 {
			v.Fail(v.t, "a watch "+wrong+" that selects none of many changes does not become too old: "+
				"it sends the next change that it selects, ADDED quiet", "it sends "+observed)
		}
		v.drop(ns, "quiet")
		v.drop(otherNS, "quiet")
		quiet = v.quietWatches(v.now(ns))
		for i := range changesUntilGone / 2 {
			v.change(ns, "restless", fmt.Sprintf(`{"spec":{"weight":%d}}`, i+1))
		}
	}
}

// changesKept is the minimum number of changes that a server keeps: see the task.
const changesKept = 100

// keepsLastChanges fails the check unless a watch from before the last changes sends all of them. versions are the
// resourceVersions of all changes.
func (v visit) keepsLastChanges(versions <-chan string) {
	v.t.Helper()
	var numbers []uint64
	for version := range versions {
		number, err := strconv.ParseUint(version, 10, 64)
		if err != nil {
			return // only the server knows which changes were the last
		}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	if len(numbers) <= changesKept {
		return
	}
	from := strconv.FormatUint(numbers[len(numbers)-changesKept-1], 10)
	expected := fmt.Sprintf("a watch from before the last %d changes sends all of them, "+
		"since a server keeps at least that many", changesKept)
	w := v.follow(llamas(ns), "&resourceVersion="+from)
	defer w.cancel()
	if w.refused != nil {
		v.fail(*w.refused, expected, "the answer is "+w.refused.summary())
	}
	events := v.take(w, changesKept)
	for i, e := range events {
		if e.Type == "ERROR" {
			v.Fail(v.t, expected, fmt.Sprintf("it sends %d events and then %s", i, e))
		}
	}
	if len(events) < changesKept {
		v.Fail(v.t, expected, fmt.Sprintf("it sends %d events and nothing more", len(events)))
	}
	v.rising(from, events)
}

// continuesOldPage fails the check unless the page after an old one answers 410, or has the llamas that existed then.
// Another check reports lists without pages.
func (v visit) continuesOldPage(page answer, then []string) {
	v.t.Helper()
	next := textOf(page.object(), "metadata", "continue")
	if next == "" {
		return
	}
	const expected = "a continue from before too many changes answers 410, or returns the llamas of that time"
	rest := v.want(v.send(v.ctx, http.MethodGet, llamas(ns)+"?continue="+url.QueryEscape(next), nil),
		expected, http.StatusOK, http.StatusGone)
	if rest.code == http.StatusGone {
		if !rest.isStatus("") {
			v.fail(rest, expected+". The body of 410 is a Status", "the answer is "+rest.summary())
		}
		return
	}
	if names := append(page.names(), rest.names()...); !slices.Equal(names, then) ||
		versionOf(rest.object()) != versionOf(page.object()) {
		v.fail(rest, fmt.Sprintf("%s: %v, with the resourceVersion %s", expected, then, versionOf(page.object())),
			fmt.Sprintf("the pages have %v, and this one the resourceVersion %s", names, versionOf(rest.object())))
	}
}

// changesUntilGone is more than the number of changes that a history may have: see the task.
const changesUntilGone = 320

func gone() types.Feature {
	var page answer
	var then []string
	return features.New("too old").
		Assess("no change is missed silently", check.Assess(step(func(v visit) {
			v.create(ns, newLlama("restless", 100, 1.5))
			v.create(ns, newLlama("restless-too", 100, 1.5))
			then = v.send(v.ctx, http.MethodGet, llamas(ns), nil).names()
			page = v.send(v.ctx, http.MethodGet, llamas(ns)+"?limit=1", nil)
			v.drop(ns, "restless-too")
			from := v.now(ns)
			quiet := v.quietWatches(from)
			// Several writers run concurrently. Each patches its own llama, so that they don't wait for each other.
			const writers = 8
			var group sync.WaitGroup
			failed, versions := make(chan answer, writers), make(chan string, changesUntilGone)
			send := v.directly()
			name := func(n int) string { return fmt.Sprintf("restless-%d", n) }
			for n := range writers { // none of the last changes may be a create
				v.create(ns, newLlama(name(n), 100, 1.5))
			}
			for n := range writers {
				group.Go(func() {
					for i := range changesUntilGone / writers {
						a := send(http.MethodPatch, llama(ns, name(n)), fmt.Sprintf(`{"spec":{"weight":%d}}`, i+1),
							"Content-Type", "application/merge-patch+json")
						if a.code != http.StatusOK {
							failed <- a
							return
						}
						versions <- versionOf(a.object())
					}
				})
			}
			group.Wait()
			select {
			case a := <-failed:
				v.fail(a, "a llama can be patched many times", "the answer is "+a.summary())
			default:
			}
			close(versions)
			v.keepsLastChanges(versions)
			v.stillFollow(quiet)
			changes := writers + writers*(changesUntilGone/writers) + 1
			w := v.follow(llamas(ns), "&resourceVersion="+from)
			defer w.cancel()
			if w.refused != nil {
				if w.refused.code == http.StatusGone {
					return
				}
				v.fail(*w.refused, "a watch from a resourceVersion that is too old answers 410 Gone",
					"the answer is "+w.refused.summary())
			}
			count := 0
			for {
				select {
				case e, ok := <-w.events:
					if ok && e.Type == "ERROR" {
						if code := fmt.Sprint(e.Object["code"]); code != "410" {
							v.Fail(v.t, "the ERROR event of a watch that is too old is a Status with the code 410", "its code is "+code)
						}
						v.errorIsStatus(e)
						return
					}
					if ok {
						count++
					}
					if count == changes {
						return // the server keeps all changes, which is correct as well
					}
					if ok {
						continue
					}
				case <-time.After(eventPatience):
				}
				v.Fail(v.t, fmt.Sprintf("a watch from a resourceVersion before %d changes sends all of them, "+
					"or says 410 Gone", changes),
					fmt.Sprintf("it sends %d events and no error, so its client never learns of the others", count))
			}
		}))).
		Assess("a page of long ago", check.Assess(step(func(v visit) {
			v.continuesOldPage(page, then)
			v.kept.withdrawn.late = true
		}))).Feature()
}
