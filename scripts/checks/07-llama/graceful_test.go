// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/protocol"
)

// shutdownDelay is for how long a server is to serve after SIGTERM.
const shutdownDelay = time.Second

// readiness is an answer of /readyz.
type readiness struct {
	asked  time.Time
	answer answer
}

// endPatience is for a server to end after SIGTERM, and after its delay.
const endPatience = 10 * time.Second

// startWithDelay is start. The server is told to serve for a while after SIGTERM, for the check graceful, if it has the flag for it and is
// no Pod.
func (v visit) startWithDelay() {
	v.t.Helper()
	err := v.Operator.StartAs(v.ctx, protocol.Start{Flags: []string{"--shutdown-delay-duration=" + shutdownDelay.String()}})
	if err != nil && !errors.Is(err, check.ErrNoSuchFlag) && !errors.Is(err, check.ErrNotAdjustable) {
		v.OK(v.t, "starting the server with a delay", err)
	}
	v.start() // which does nothing if it runs, but to wait
	v.kept.delayed = err == nil
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
				failure, err := v.Operator.End(v.ctx)
				stopped <- ended{failure, err, time.Now()}
			}()
			var ready []readiness
			if v.kept.delayed && direct.events != nil {
				ready = v.servesOn(began, direct)
			}
			end := <-stopped
			v.OK(v.t, "stopping the server", end.err)
			if took := end.at.Sub(began); took > endPatience+shutdownDelay {
				v.Fail(v.t, fmt.Sprintf("after SIGTERM, and a --shutdown-delay-duration, the server ends within %s, also while somebody watches", endPatience),
					fmt.Sprintf("it took %s", took.Round(time.Second/10)))
			}
			for what, w := range ending {
				expected := "at SIGTERM the server ends each watch as an answer ends, and not in the middle of it, here " + what
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
			v.failsReadiness(ready, end.at)
		}))).
		Assess("and the farm stays as it was", check.Assess(step(func(v visit) {
			v.start()
			if a := v.send(v.ctx, http.MethodGet, llamas(""), nil); empty && a.code == http.StatusOK && len(a.items()) > 0 {
				v.fail(a, "llamas that were deleted do not come back with a restart, also if all of them were", fmt.Sprintf("there are %v", a.names()))
			}
		}))).
		Teardown(check.Teardown(returnHerd)).Feature()
}

// ended is how and when the server has ended.
type ended struct {
	failure string
	err     error
	at      time.Time
}

// endingWatches are watches that go on until the server ends: of llamas, in each form, and of FarmPods if there are any.
func (v visit) endingWatches() map[string]watch {
	v.t.Helper()
	from := "&resourceVersion=" + v.now(here)
	llamasOnly := v.follow(llamas(here), from)
	v.t.Cleanup(llamasOnly.cancel)
	v.begun(llamasOnly)
	v.make(here, newLlama("g-1", 100, 1.5))
	v.saw(v.take(llamasOnly, 1), "a watch sends", []string{"ADDED g-1"})
	all := map[string]watch{"one of llamas": llamasOnly}
	for what, w := range map[string]watch{
		"one in the form of Tables": v.follow(llamas(here), from, "Accept", acceptTable),
		"one of all namespaces":     v.follow(llamas(""), from+"&allowWatchBookmarks=true"),
		"one of FarmPods":           v.follow(pods(here), ""),
	} {
		v.t.Cleanup(w.cancel)
		if w.refused == nil { // or that is for another check
			all[what] = w
		}
	}
	return all
}

// emptyFarm deletes all llamas, as far as they are those of the checks and of the herd, and says whether there are none then.
func (v visit) emptyFarm() bool {
	v.t.Helper()
	for _, path := range []string{llamas(here), llamas(there), llama(carla.namespace, carla.name), llama(pedro.namespace, pedro.name)} {
		v.send(v.ctx, http.MethodDelete, path, nil)
	}
	left := v.send(v.ctx, http.MethodGet, llamas(""), nil)
	return left.code == http.StatusOK && len(left.items()) == 0
}

// directWatch is a watch past the API server, or none where that is not possible.
func (v visit) directWatch() watch {
	v.t.Helper()
	p, ok := v.proxy()
	if !ok {
		return watch{}
	}
	w := followBy(v.ctx, p.client, p.host, llamas(here), "", admin...)
	v.t.Cleanup(w.cancel)
	v.begun(w)
	return w
}

// servesOn fails the check unless the server serves all requests during its delay, and a watch that has begun before goes on. It returns what
// /readyz has answered meanwhile.
func (v visit) servesOn(began time.Time, w watch) (ready []readiness) {
	v.t.Helper()
	p, _ := v.proxy()
	// SIGTERM comes later than the beginning. So what is seen before began+shutdownDelay is seen before the delay is over.
	inTime := func() bool { return time.Since(began) < shutdownDelay }
	expected := fmt.Sprintf("with --shutdown-delay-duration=%s the server serves all requests for %s after SIGTERM, ", shutdownDelay, shutdownDelay)
	for inTime() {
		a := p.send(v.ctx, http.MethodGet, llamas(here), nil, admin...)
		asked := time.Now()
		readyz := p.send(v.ctx, http.MethodGet, "/readyz", nil, admin...)
		again := followBy(v.ctx, p.client, p.host, llamas(here), "&resourceVersion=0", admin...)
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
				v.fail(a, expected+"also lists", fmt.Sprintf("after %s the answer is %s", after.Round(time.Millisecond), a.told()))
			case again.refused != nil:
				v.fail(*again.refused, expected+"also new watches", fmt.Sprintf("after %s the answer is %s", after.Round(time.Millisecond), again.refused.told()))
			case over:
				v.Fail(v.t, expected+"also the watches that have begun before", fmt.Sprintf("a watch ended %s after it", after.Round(time.Millisecond)))
			}
		}
		ready = append(ready, readiness{asked, readyz})
		v.Pause(v.ctx, v.t, lookAgain)
	}
	return ready
}

// failsReadiness fails the check if /readyz has not failed after SIGTERM. The server has ended at a time: so SIGTERM came shutdownDelay
// earlier, or before.
func (v visit) failsReadiness(ready []readiness, end time.Time) {
	v.t.Helper()
	var late []readiness
	for _, r := range ready {
		if r.asked.After(end.Add(-shutdownDelay / 2)) {
			late = append(late, r)
		}
	}
	if len(late) > 2 && !slices.ContainsFunc(ready, func(r readiness) bool { return r.answer.code != http.StatusOK }) {
		v.fail(late[len(late)-1].answer, "after SIGTERM /readyz fails, so that no new requests are sent to this server", fmt.Sprintf("each of %d answers is 200 OK", len(ready)))
	}
}
