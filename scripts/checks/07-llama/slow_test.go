// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// slowWindow is how many bytes a server can send ahead of a slow client. A llama with a note of slowNote bytes is
// larger, so the server has to wait for the client in the middle of an event.
const (
	slowWindow = 64 << 10
	slowNote   = 200_000
)

// slowProxy is proxy with a small window for each answer.
func (v visit) slowProxy() (asker, bool) {
	v.t.Helper()
	over, ok := v.proxyTransport()
	if !ok {
		return asker{}, false
	}
	over.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: slowWindow}
	return v.askerOver(over), true
}

// slowlyRead fails the check unless a client that reads late gets each change, including those that happen while the
// server still sends an earlier one. The server may also end the watch. Then the client resumes the watch from its last
// version, or lists after 410.
func (v visit) slowlyRead() {
	v.t.Helper()
	slow, ok := v.slowProxy()
	if !ok {
		return // the API server reads on behalf of its clients
	}
	from := v.now(ns)
	read := make(chan struct{})
	const selected = "&labelSelector=set%3Dslow"
	watches := map[string]watch{}
	follow := func(what, query string) {
		w := followWhen(v.ctx, slow.client, slow.host, llamas(ns), selected+query, read, admin...)
		v.t.Cleanup(w.cancel)
		v.requireStarted(w)
		watches[what] = w
	}
	follow("that begins before the llama exists", "&resourceVersion="+from)
	big := labelled("w-big", "set", "slow")
	big["metadata"].(map[string]any)["annotations"] = map[string]any{
		bigNote: strings.Repeat("llama ", slowNote/len("llama ")),
	}
	v.create(ns, big)
	follow("from a resourceVersion before the llama", "&resourceVersion="+from)
	follow("without a resourceVersion", "")
	for _, w := range watches {
		select {
		case <-w.sending:
		case <-time.After(eventPatience): // a watch that sends nothing fails below
		}
	}
	v.create(ns, labelled("w-small", "set", "slow"))
	v.change(ns, "w-small", `{"spec":{"weight":77.5}}`)
	v.drop(ns, "w-small")
	close(read)
	want := []string{"ADDED w-big", "ADDED w-small", "MODIFIED w-small", "DELETED w-small"}
	for what, w := range watches {
		events, ended := v.takeWhileServed(w, len(want))
		if ended && !slices.ContainsFunc(events, func(e event) bool { return e.Type == "ERROR" }) {
			last := from
			if len(events) > 0 {
				last = versionOf(events[len(events)-1].Object)
			}
			again := v.follow(llamas(ns), selected+"&resourceVersion="+last)
			v.t.Cleanup(again.cancel)
			v.requireStarted(again)
			more, _ := v.takeWhileServed(again, len(want)-len(events))
			events = append(events, more...)
		}
		if len(events) > 0 && strings.HasPrefix(events[len(events)-1].String(), "ERROR 410") {
			continue
		}
		v.saw(events, fmt.Sprintf("a watch %s, whose client is slow to read a llama of %d kB, sends without a further change",
			what, slowNote/1000), want)
	}
}

// A watch counts as silent if it sends nothing for silentWithin while the server answers at least servedWhile requests,
// so a slow machine costs no points. The wait for a server that answers none ends after silentAtMost.
const (
	silentWithin = 5 * time.Second
	servedWhile  = 50
	silentAtMost = 30 * time.Second
)

// takeWhileServed returns the next events: count of them, or those until the watch ends or is silent.
func (v visit) takeWhileServed(w watch, count int) (events []event, ended bool) {
	v.t.Helper()
	send := v.directly()
	began, served := time.Now(), 0
	for len(events) < count {
		select {
		case e, ok := <-w.events:
			if !ok {
				return events, true
			}
			if e.Type != "BOOKMARK" {
				events = append(events, e)
			}
			began, served = time.Now(), 0
			continue
		case <-v.ctx.Done():
			return events, false
		case <-time.After(lookAgain):
		}
		if a := send(http.MethodGet, llama(ns, "nobody"), nil); a.err == nil {
			served++
		}
		if silent := time.Since(began); silent > silentWithin && served >= servedWhile || silent > silentAtMost {
			return events, false
		}
	}
	return events, false
}
