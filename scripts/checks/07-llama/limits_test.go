// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

// These constants are how much a client tries to send, and how much a server may have read when it refuses. Both are
// more than any llama needs.
const (
	hugeBody  = 1 << 30
	largeBody = 4 << 20
	// allowedBody is less than the limit of 3 MiB.
	allowedBody = 5 << 19
	takenLimit  = 64 << 20
	watchLimit  = 10_000
)

// watchesOfOne is how many concurrent watches a user may have: see the task. refusedWatches is how many watches are
// refused before that.
const (
	watchesOfOne   = 100
	refusedWatches = 120
)

// watchGroup holds the watches of one user.
type watchGroup struct {
	follow  func(query string) watch
	mutex   sync.Mutex
	watches []watch
}

// start starts a watch, and returns the answer if the watch is refused.
func (c *watchGroup) start(query string) (refused *answer) {
	w := c.follow(query)
	if w.refused != nil {
		return w.refused
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.watches = append(c.watches, w)
	return nil
}

// started returns how many watches were started.
func (c *watchGroup) started() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.watches)
}

// open returns how many watches have not ended yet.
func (c *watchGroup) open() (count int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, w := range c.watches {
		if len(w.ended) == 0 {
			count++
		}
	}
	return count
}

// These constants limit how long a list may take while a user has too many watches: an absolute time, or a multiple of
// the time before. The time before shows how busy the machine is.
const (
	servedWithin = 3 * time.Second
	servedFactor = 20
)

// flood is an endless body, up to the limit.
type flood struct{ sent atomic.Int64 }

func (f *flood) Read(buffer []byte) (int, error) {
	if f.sent.Load() >= takenLimit {
		return 0, io.ErrUnexpectedEOF
	}
	for i := range buffer {
		buffer[i] = 'x'
	}
	if f.sent.Load() == 0 {
		copy(buffer, `{"kind":"`)
	}
	f.sent.Add(int64(len(buffer)))
	return len(buffer), nil
}

// copiedSize is how much the copies of a JSON patch add to a llama. A server without a limit needs several times as
// much memory.
const copiedSize = 32 << 20

// doublingPatch doubles the length of a value of 512 KB again and again, and removes it at the end. So the llama is
// valid and unchanged if nothing limits the copies.
func doublingPatch() string {
	const size = 512 << 10
	patch := fmt.Sprintf(`[{"op":"add","path":"/wool","value":["%s"]}`, strings.Repeat("x", size))
	for copied := size; copied <= copiedSize; copied *= 2 {
		patch += `,{"op":"copy","from":"/wool","path":"/wool/-"}`
	}
	return patch + `,{"op":"remove","path":"/wool"}]`
}

func limits() types.Feature {
	return features.New("limits").
		Assess("1 GB", check.Assess(step(func(v visit) {
			body := &flood{}
			ctx, cancel := context.WithTimeout(v.ctx, requestTimeout)
			defer cancel()
			client, host, headers := v.http, v.host, []string(nil)
			if p, ok := v.proxy(); ok {
				client, host, headers = p.client, p.host, admin
			}
			request, err := newRequest(ctx, host, http.MethodPost, llamas(ns), "", headers...)
			v.OK(v.t, "making a request", err)
			request.Body, request.ContentLength, request.GetBody = io.NopCloser(body), hugeBody, nil
			response, err := client.Do(request)
			if err == nil {
				response.Body.Close()
				if response.StatusCode == http.StatusRequestEntityTooLarge || response.StatusCode == http.StatusBadRequest {
					return
				}
			}
			if sent := body.sent.Load(); sent >= takenLimit {
				v.Fail(v.t, "a body of 1 GB is refused with 413 before much of it is read",
					fmt.Sprintf("the server has taken %d MB of it and continues", sent>>20))
			}
			if err == nil {
				v.Fail(v.t, "a body of 1 GB is refused with 413",
					fmt.Sprintf("the answer is %d %s", response.StatusCode, http.StatusText(response.StatusCode)))
			}
		}))).
		Assess("each verb that has a body", check.Assess(step(func(v visit) {
			v.create(ns, newLlama("fed", 100, 1.5))
			send := v.directly()
			padding := strings.Repeat(" ", largeBody)
			for _, c := range []struct {
				verb, method, path, mediaType string
				body                          any
			}{
				{"create", http.MethodPost, llamas(ns), "application/json", newLlama("overfed", 100, 1.5)},
				{"update", http.MethodPut, llama(ns, "fed"), "application/json", newLlama("fed", 1, 1)},
				{
					"patch", http.MethodPatch, llama(ns, "fed"), string(apitypes.MergePatchType),
					map[string]any{"spec": map[string]any{"weight": 1}},
				},
				{
					"delete", http.MethodDelete, llama(ns, "fed"), "application/json",
					map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"},
				},
				{
					"deletecollection", http.MethodDelete, llamas(ns), "application/json",
					map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"},
				},
			} {
				content, err := json.Marshal(c.body)
				v.OK(v.t, "making a body", err)
				// The JSON is valid, however much white space it contains. A broken connection is a refusal, too.
				a := send(c.method, c.path, "{"+padding+string(content[1:]), "Content-Type", c.mediaType)
				if a.err == nil && a.code != http.StatusRequestEntityTooLarge {
					v.fail(a,
						fmt.Sprintf("the body of a %s with more than 3 MiB is refused with 413, "+
							"here one of %d MiB", c.verb, largeBody>>20),
						"the answer is "+a.summary())
				}
			}
			content, err := json.Marshal(newLlama("well-fed", 100, 1.5))
			v.OK(v.t, "making a body", err)
			if a := send(http.MethodPost, llamas(ns), "{"+padding[:allowedBody]+string(content[1:])); a.err == nil {
				v.want(a, fmt.Sprintf("the body of a create with %.1f MiB, which is less than 3 MiB, is accepted: 201",
					float64(allowedBody)/(1<<20)), http.StatusCreated)
			}
			a := v.want(v.send(v.ctx, http.MethodGet, llama(ns, "fed"), nil),
				"a llama is still there after requests with too large bodies", http.StatusOK)
			if fmt.Sprint(numberOf(a.object(), "spec", "weight")) != "100" {
				v.fail(a, "requests with too large bodies change nothing",
					fmt.Sprintf("the weight is %v and was 100", numberOf(a.object(), "spec", "weight")))
			}
		}))).
		Assess("a JSON patch of copies", check.Assess(step(func(v visit) {
			v.create(ns, newLlama("woolly", 100, 1.5))
			jsonPatch := string(apitypes.JSONPatchType)
			a := v.send(v.ctx, http.MethodPatch, llama(ns, "woolly"), doublingPatch(), "Content-Type", jsonPatch)
			const expected = "a JSON patch with copies of %d MB is refused (422, 413 or 400), or no JSON patch is served (415)"
			v.want(a, fmt.Sprintf(expected, copiedSize>>20), http.StatusUnprocessableEntity,
				http.StatusRequestEntityTooLarge, http.StatusBadRequest, http.StatusUnsupportedMediaType)
		}))).
		Assess("10,000 watches", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return // through the API server they would put load on it
			}
			v.grant("crowd", ns, group, "llamas", "get", "list", "watch")
			v.grant("crowd", ns, group, "farmpods", "watch")
			v.grant("crowd", ns, "", "pods", "watch")
			v.allowed("crowd", group, "farmpods", "watch")
			v.allowed("crowd", "", "pods", "watch")
			v.eventually("a user whom a Role allows to list llamas in a namespace may do so", grantPatience,
				func() (string, bool) {
					a := p.send(v.ctx, http.MethodGet, llamas(ns), nil, as("crowd")...)
					return "the answer is " + a.summary(), a.code == http.StatusOK
				})
			others := func(expected string) (a answer, took time.Duration) {
				v.t.Helper()
				began := time.Now()
				a = v.want(p.send(v.ctx, http.MethodGet, llamas(ns), nil, admin...), expected, http.StatusOK)
				return a, time.Since(began)
			}
			_, usual := others("llamas can be listed")
			ctx, cancel := context.WithCancel(v.ctx)
			defer cancel()
			visitors := &watchGroup{follow: func(query string) watch {
				return followBy(ctx, p.client, p.host, llamas(ns), query, as("crowd")...)
			}}
			// Refused watches do not count. Watches that are served in spite of the limit do.
			refusals := []string{
				"&resourceVersion=none", "&resourceVersion=1&resourceVersionMatch=None",
				"&sendInitialEvents=true", "&fieldSelector=spec.shoes%3D4",
			}
			atOnce(refusedWatches, func(i int) answer {
				visitors.start(refusals[i%len(refusals)])
				return answer{}
			})
			if visitors.started() < watchesOfOne {
				v.eventually(fmt.Sprintf("a user whose %d watches were refused can begin another one", refusedWatches),
					eventPatience, func() (string, bool) {
						if refused := visitors.start("&resourceVersion=0"); refused != nil {
							return "the answer is " + refused.summary(), false
						}
						return "", true
					})
			}
			var refused atomic.Bool
			var enough atomic.Pointer[answer] // an answer of 429
			fill := func(int) answer {
				for !refused.Load() && visitors.started() < watchLimit {
					a := visitors.start("&resourceVersion=0")
					switch {
					case a == nil:
					case a.code == http.StatusTooManyRequests:
						enough.Store(a)
						refused.Store(true)
					case a.err != nil:
						refused.Store(true)
					default:
						return *a
					}
				}
				return answer{}
			}
			atOnce(16, fill)
			started := visitors.started()
			if !refused.Load() {
				v.Fail(v.t, fmt.Sprintf("the server refuses a user's watch with 429 when the user has begun %d", watchLimit),
					fmt.Sprintf("it has served %d and refused none", started))
			}
			v.Measure("watches of one user until the first 429", float64(started), "")
			if a := enough.Load(); a != nil && started < watchesOfOne {
				v.fail(*a, fmt.Sprintf("a user may have %d watches at the same time, and more are refused with 429", watchesOfOne),
					fmt.Sprintf("%d were begun, and the next was refused", started))
			}
			if a := enough.Load(); a != nil && a.header.Get("Retry-After") == "" {
				v.fail(*a, "429 has a header Retry-After, which says after how many seconds to try again", "it has none")
			}
			if w := followBy(ctx, p.client, p.host, llamas(ns), "&resourceVersion=0", admin...); w.refused != nil {
				v.fail(*w.refused, "while one user has too many watches, other users can watch",
					"the answer to a watch of another user is "+w.refused.summary())
			}
			// A watch that the server has ended does not count, and we may see its end later.
			v.eventually(fmt.Sprintf("more than %d watches of one user at the same time are refused with 429", watchesOfOne),
				eventPatience, func() (string, bool) {
					open := visitors.open()
					return fmt.Sprintf("%d are open", open), open <= watchesOfOne
				})
			refused.Store(false)
			fill(0) // ended watches have made room
			// A server without FarmPods answers 404.
			if w := followBy(ctx, p.client, p.host, pods(ns), "", as("crowd")...); w.refused == nil {
				v.Fail(v.t, fmt.Sprintf("a user with %d watches of llamas gets 429 for a watch of FarmPods, "+
					"since all watches of a user count", watchesOfOne), "it was begun")
			}
			if a, took := others("meanwhile others are served"); took > max(servedWithin, servedFactor*usual) {
				v.fail(a, "meanwhile others are served as ever", fmt.Sprintf("a list took %s", took.Round(time.Second/10)))
			}
			cancel()
			v.eventually("after a user has ended all watches, the user can begin another one", eventPatience,
				func() (string, bool) {
					w := followBy(v.ctx, p.client, p.host, llamas(ns), "&resourceVersion=0", as("crowd")...)
					defer w.cancel()
					if w.refused != nil {
						return "the answer is " + w.refused.summary(), false
					}
					return "", true
				})
		}))).
		Assess("it still runs", check.Assess(step(func(v visit) {
			v.answers("after that the server answers")
		}))).Feature()
}
