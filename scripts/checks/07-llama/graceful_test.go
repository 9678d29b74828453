// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

// shutdownDelay is how long a server serves after SIGTERM.
const shutdownDelay = time.Second

// readiness is an answer of /readyz.
type readiness struct {
	asked  time.Time
	answer answer
}

// endPatience is how long a server may take to exit after SIGTERM and its delay.
const endPatience = 10 * time.Second

// startWithDelay is start with a shutdown delay for the check graceful, if the server has the flag for it.
func (v visit) startWithDelay() {
	v.t.Helper()
	delayed := v.startWith("--shutdown-delay-duration=" + shutdownDelay.String())
	v.start() // if the server runs, this only waits
	v.kept.delayed = delayed
}

func graceful() types.Feature {
	empty := false
	return features.New("SIGTERM").
		Assess("watches end in good order", check.Assess(step(func(v visit) {
			if !v.kept.delayed {
				v.OK(v.t, "stopping the server", v.Operator.Stop(v.ctx))
				v.startWithDelay()
			}
			ending := v.endingWatches()
			empty = v.emptyFarm()
			direct := v.directWatch()
			began := time.Now()
			stopped := make(chan ended, 1)
			go func() {
				failure, err := v.Operator.End(v.ctx, endPatience+shutdownDelay+time.Second)
				stopped <- ended{failure, err, time.Now()}
			}()
			var ready []readiness
			var closed time.Time
			if v.kept.delayed && direct.events != nil {
				ready, closed = v.servesOn(began, direct)
			}
			end := <-stopped
			v.OK(v.t, "stopping the server", end.err)
			if took := end.at.Sub(began); took > endPatience+shutdownDelay {
				v.Fail(v.t, fmt.Sprintf("after SIGTERM and the --shutdown-delay-duration the server exits within %s, "+
					"even while clients watch", endPatience),
					fmt.Sprintf("it took %s", took.Round(time.Second/10)))
			}
			for what, w := range ending {
				expected := "at SIGTERM the server ends each watch cleanly, and does not break the connection, here " + what
				select {
				case err := <-w.ended:
					if err != nil {
						v.Fail(v.t, expected, "the connection broke: "+err.Error())
					}
				case <-time.After(eventPatience):
					v.Fail(v.t, expected, "the watch did not end")
				}
			}
			if end.failure != "" {
				v.Fail(v.t, "after SIGTERM the server ends with exit code 0", end.failure)
			}
			v.failsReadiness(ready, closed)
		}))).
		Assess("and the farm stays empty", check.Assess(step(func(v visit) {
			v.start()
			if a := v.send(v.ctx, http.MethodGet, llamas(""), nil); empty && a.code == http.StatusOK && len(a.items()) > 0 {
				v.fail(a, "llamas that were deleted do not come back after a restart, even if all of them were deleted",
					fmt.Sprintf("there are %v", a.names()))
			}
		}))).
		Teardown(check.Teardown(returnHerd)).Feature()
}

// ended describes how and when the server ended.
type ended struct {
	failure string
	err     error
	at      time.Time
}

// endingWatches begins watches that only the end of the server ends: of llamas in several forms, and of FarmPods if
// they are served.
func (v visit) endingWatches() map[string]watch {
	v.t.Helper()
	from := "&resourceVersion=" + v.now(ns)
	llamasOnly := v.follow(llamas(ns), from)
	v.t.Cleanup(llamasOnly.cancel)
	v.requireStarted(llamasOnly)
	v.create(ns, newLlama("g-1", 100, 1.5))
	v.saw(v.take(llamasOnly, 1), "a watch sends", []string{"ADDED g-1"})
	all := map[string]watch{"one of llamas": llamasOnly}
	for what, w := range map[string]watch{
		"one that sends Tables": v.follow(llamas(ns), from, "Accept", acceptTable),
		"one of all namespaces": v.follow(llamas(""), from+"&allowWatchBookmarks=true"),
		"one of FarmPods":       v.follow(pods(ns), ""),
	} {
		v.t.Cleanup(w.cancel)
		if w.refused == nil { // another check reports a refused watch
			all[what] = w
		}
	}
	return all
}

// emptyFarm deletes the llamas of the checks and of the herd, and reports whether no other llamas are left.
func (v visit) emptyFarm() bool {
	v.t.Helper()
	for _, path := range []string{
		llamas(ns), llamas(otherNS),
		llama(carla.namespace, carla.name), llama(pedro.namespace, pedro.name),
	} {
		v.send(v.ctx, http.MethodDelete, path, nil)
	}
	left := v.send(v.ctx, http.MethodGet, llamas(""), nil)
	return left.code == http.StatusOK && len(left.items()) == 0
}

// directWatch begins a watch directly at the server. It returns an empty one if that is not possible.
func (v visit) directWatch() watch {
	v.t.Helper()
	p, ok := v.proxy()
	if !ok {
		return watch{}
	}
	w := followBy(v.ctx, p.client, p.host, llamas(ns), "", admin...)
	v.t.Cleanup(w.cancel)
	v.requireStarted(w)
	return w
}

// servesOn fails the check unless the server serves all requests during its delay, and does not end a watch that began
// before. It returns the answers of /readyz, and a time at which the server accepted no more requests.
func (v visit) servesOn(began time.Time, w watch) (ready []readiness, closed time.Time) {
	v.t.Helper()
	p, _ := v.proxy()
	// SIGTERM comes after began, so the delay is not over before began+shutdownDelay.
	inTime := func() bool { return time.Since(began) < shutdownDelay }
	expected := fmt.Sprintf("with --shutdown-delay-duration=%s the server serves all requests for %s after SIGTERM, ",
		shutdownDelay, shutdownDelay)
	for inTime() {
		a := p.send(v.ctx, http.MethodGet, llamas(ns), nil, admin...)
		asked := time.Now()
		readyz := p.send(v.ctx, http.MethodGet, "/readyz", nil, admin...)
		again := followBy(v.ctx, p.client, p.host, llamas(ns), "&resourceVersion=0", admin...)
		again.cancel()
		over := false
		for seen := true; seen && !over; {
			select {
			case _, ok := <-w.events:
				over = !ok
			default:
				seen = false
			}
		}
		if after := time.Since(began); after < shutdownDelay {
			switch {
			case a.code != http.StatusOK:
				v.fail(a, expected+"such as lists",
					fmt.Sprintf("after %s the answer is %s", after.Round(time.Millisecond), a.summary()))
			case again.refused != nil:
				v.fail(*again.refused, expected+"such as new watches",
					fmt.Sprintf("after %s the answer is %s", after.Round(time.Millisecond), again.refused.summary()))
			case over:
				v.Fail(v.t, expected+"and does not end watches that began before",
					fmt.Sprintf("a watch ended %s after it", after.Round(time.Millisecond)))
			}
		}
		ready = append(ready, readiness{asked, readyz})
		v.Pause(v.ctx, v.t, lookAgain)
	}
	// The exit of the process is seen later than that of its listener.
	for time.Since(began) < endPatience+shutdownDelay {
		asked := time.Now()
		readyz := p.send(v.ctx, http.MethodGet, "/readyz", nil, admin...)
		if readyz.err != nil {
			break
		}
		ready = append(ready, readiness{asked, readyz})
		v.Pause(v.ctx, v.t, lookAgain)
	}
	return ready, time.Now()
}

// failsReadiness fails the check if /readyz did not fail after SIGTERM. SIGTERM came at least shutdownDelay before the
// server accepted no more requests.
func (v visit) failsReadiness(ready []readiness, closed time.Time) {
	v.t.Helper()
	var late []readiness
	for _, r := range ready {
		if r.asked.After(closed.Add(-shutdownDelay / 2)) {
			late = append(late, r)
		}
	}
	if len(late) > 2 && !slices.ContainsFunc(ready, func(r readiness) bool { return r.answer.code != http.StatusOK }) {
		v.fail(late[len(late)-1].answer, "after SIGTERM /readyz fails, so that no new requests are sent to this server",
			fmt.Sprintf("each of %d answers is 200 OK", len(ready)))
	}
}
