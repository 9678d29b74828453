// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errLost is the error of an answer that is not delivered to the operator.
var errLost = errors.New("the answer is not delivered")

// request is an HTTP request as a service understands it.
type request struct {
	// entry has the fields that describe the request.
	entry Entry
	// counts is false for a request that is not part of the operator's work. Such a request never gets a fault.
	counts bool
	// group is the API group.
	group string
	watch bool
	// endless is true if the answer continues until the client disconnects, as when a log is followed.
	endless bool
	// streamingList is true for a watch that starts with all existing objects.
	streamingList bool
	// cached is true for a list that the API server may answer from any cache, however old it is.
	cached bool
}

// exchange is a request on its way through the injector.
type exchange struct {
	request
	injector   *Injector
	connection *connection
	logged     *Entry
	fault      *Fault    // nil: none
	effect     behaviour // of the fault; empty: nothing
	plan       *plan     // to which the fault belongs
	// kills is true if the operator is killed before the request is executed. marked then holds its connections.
	kills  bool
	marked []*connection
	dead   bool               // the request came from an operator that is being killed
	cancel context.CancelFunc // ends the request to the service
}

type exchangeKey struct{}

// enter logs and counts a request, and finds its fault.
func (i *Injector) enter(asked request, conn *connection) *exchange {
	x := &exchange{request: asked, injector: i, connection: conn}
	// The request is counted and logged under one lock, so that numbers ascend in the log.
	i.mutex.Lock()
	defer i.mutex.Unlock()
	entry := asked.entry
	switch {
	case conn.marked:
		x.dead, entry.Injected = true, true
	case asked.counts:
		entry.Number, x.fault, x.plan = i.count(&asked)
	}
	if x.fault != nil {
		x.effect = x.fault.Kind.behaviour()
		entry.Fault, entry.Injected = x.fault.Kind, !x.effect.reachesService()
		if x.effect.enter != nil {
			x.effect.enter(x)
		}
	}
	x.logged = i.record.add(entry)
	return x
}

// mark marks the operator for the kill. From then on, none of its requests are executed, so that the crash is the same
// in every run. The injector is locked.
func (x *exchange) mark() { x.marked, x.kills = x.injector.markForKill(x.plan, x.connection) }

// kill kills the operator, unless it is being killed because of another request.
func (x *exchange) kill(context.Context) {
	if x.kills {
		x.injector.killOperator(x.plan, x.marked)
	}
}

// delayEvents holds back watch events from now on. The injector is locked.
func (x *exchange) delayEvents() { x.plan.stale = x.fault.For.Duration }

// wait waits as long as the fault lasts, unless the operator gives up.
func (x *exchange) wait(ctx context.Context) { wait(ctx, x.fault.For.Duration, x.plan.over) }

// logAnswer logs that the answer is about to be handed over. It is called before that happens, so that the operator's
// reaction to the answer has a later time in the log.
func (x *exchange) logAnswer(code int) {
	x.injector.record.update(x.logged, func(e *Entry) {
		e.Code, e.Seconds = code, x.injector.record.now().Sub(e.Time).Seconds()
	})
}

// logEnd logs how long an unanswered request took, or how long a watch lasted.
func (x *exchange) logEnd() {
	x.injector.record.update(x.logged, func(e *Entry) {
		if e.Code == 0 || x.watch {
			e.Seconds = x.injector.record.now().Sub(e.Time).Seconds()
		}
	})
}

// cutOff ends a request without an answer.
func cutOff() { panic(http.ErrAbortHandler) }

// serve answers a request itself or forwards it to the service.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request, target *service) {
	defer x.logEnd()
	if x.dead {
		discardBody(r)
		wait(r.Context(), 0, x.connection.ended)
		cutOff()
	}
	switch {
	case x.effect.refuse != nil:
		discardBody(r)
		answer := target.refuse(x.effect.refuse(&x.request))
		x.logAnswer(answer.code)
		answer.write(w)
		return
	case x.effect.override != nil:
		discardBody(r)
		x.effect.override(x, r.Context())
		cutOff()
	case x.effect.forward != nil:
		r = x.effect.forward(x, r)
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), exchangeKey{}, x))
	defer cancel()
	x.cancel = cancel
	defer context.AfterFunc(x.injector.ctx, cancel)()
	r = r.WithContext(ctx)
	if err := complete(r); err != nil {
		cutOff() // the operator has disconnected meanwhile
	}
	target.proxy.ServeHTTP(w, r)
	if x.effect.after != nil {
		x.effect.after(x)
	}
}

// withoutCancel lets the service execute a request even if the operator disconnects meanwhile.
func (x *exchange) withoutCancel(r *http.Request) *http.Request {
	return r.WithContext(context.WithoutCancel(r.Context()))
}

// atVersion asks for a list as it was at the fault's version.
func (x *exchange) atVersion(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Set("resourceVersion", x.fault.Version)
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	r.URL.RawQuery = query.Encode()
	return r
}

// answered is called with the service's answer, before any of it is handed over. If it returns an error, nothing is
// handed over.
func (x *exchange) answered(answer *http.Response) error {
	code := answer.StatusCode
	hide(answer)
	if x.streamingList && code == http.StatusOK {
		refuseStreamingList(answer)
		code = answer.StatusCode
	}
	switch {
	case code == http.StatusSwitchingProtocols:
		// The connection no longer carries HTTP, and there is no end to wait for.
	case x.effect.answer != nil:
		if whole, err := x.effect.answer(x, answer); err != nil || !whole {
			return err
		}
	case x.watch && code == http.StatusOK:
		answer.Body = x.injector.newWatch(answer.Request.Context(), answer.Body)
	}
	if x.injector.ctx.Err() != nil {
		return errClosed
	}
	x.logAnswer(code)
	return nil
}

const (
	// answerLimit is the maximum number of bytes of an answer that are held, and answerTime the maximum time. The API
	// server sends an answer in one piece.
	answerLimit = 16 << 20
	answerTime  = 2 * time.Second
)

// buffer reads an answer until it ends, because the request has been executed by then. The answer can be read again
// afterwards. If the answer has no end, is too large or takes too long, the request counts as executed when the answer
// has begun.
func (x *exchange) buffer(answer *http.Response) error {
	if x.endless {
		return nil
	}
	var prefix bytes.Buffer
	late := time.AfterFunc(answerTime, x.cancel)
	_, err := io.CopyN(&prefix, answer.Body, answerLimit)
	inTime := late.Stop()
	answer.Body = readCloser{io.MultiReader(&prefix, answer.Body), answer.Body}
	if err == nil || errors.Is(err, io.EOF) || !inTime && x.injector.ctx.Err() == nil {
		return nil
	}
	return err
}

// delay holds back an answer as long as the fault lasts.
func (x *exchange) delay(answer *http.Response) (whole bool, err error) {
	ctx := answer.Request.Context()
	x.wait(ctx)
	return true, context.Cause(ctx) // not nil if the operator has given up
}

// truncate hands over half of an answer, and lets the client wait for the rest until it gives up, or the fault is over.
func (x *exchange) truncate(answer *http.Response) (whole bool, err error) {
	if err := x.buffer(answer); err != nil {
		return false, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	if err != nil {
		return false, err
	}
	rest := func() { x.wait(answer.Request.Context()) }
	answer.Body = readCloser{io.MultiReader(bytes.NewReader(body[:len(body)/2]), missingBody(rest)), answer.Body}
	return false, nil
}

// missingBody is the rest of a body that does not arrive. Reading it waits, and then fails.
type missingBody func()

// Read implements io.Reader.
func (m missingBody) Read([]byte) (int, error) {
	m()
	return 0, errLost
}

// readCloser is a body that has been read in part.
type readCloser struct {
	io.Reader
	io.Closer
}

// drop drops an answer, and kills the operator if the fault is a kill. If the schedule ended before the request was
// executed, the answer is delivered.
func (x *exchange) drop(answer *http.Response) (whole bool, err error) {
	if err := x.buffer(answer); err != nil {
		return false, err
	}
	i := x.injector
	i.mutex.Lock()
	if x.plan != i.plan {
		i.mutex.Unlock()
		i.record.update(x.logged, func(e *Entry) { e.Fault = "" })
		return true, nil
	}
	var marked []*connection
	kill := false
	if x.effect.kills {
		marked, kill = i.markForKill(x.plan, x.connection)
	}
	i.mutex.Unlock()
	x.logAnswer(answer.StatusCode)
	if kill {
		i.killOperator(x.plan, marked)
	}
	return false, errLost
}

// wait waits until the operator gives up, the limit has passed (0: no limit), or over is closed.
func wait(ctx context.Context, limit time.Duration, over <-chan struct{}) {
	var passed <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-ctx.Done():
	case <-passed:
	case <-over:
	}
}

// bodyLimit is the maximum number of bytes of a request's body that the injector reads before it answers. The API
// server has the same limit.
const bodyLimit = 3 << 20

// complete reads a request's body before it is forwarded. The API server answers a forbidden request without reading
// its body. If such an answer is handed over while the operator still sends, its HTTP/2 client occasionally never
// regards the answer as complete, and hangs.
func complete(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody || r.Header.Get("Upgrade") != "" {
		return nil
	}
	var prefix bytes.Buffer
	n, err := io.CopyN(&prefix, r.Body, bodyLimit+1)
	switch {
	case errors.Is(err, io.EOF):
		r.Body, r.ContentLength = io.NopCloser(&prefix), n
	case err != nil:
		return err
	default:
		// The body is larger than the API server accepts. The API server reports that itself.
		r.Body = io.NopCloser(io.MultiReader(&prefix, r.Body))
	}
	return nil
}

// discardBody reads the rest of the body. Only then does a server of HTTP/1 notice that the client has given up.
func discardBody(r *http.Request) { _, _ = io.CopyN(io.Discard, r.Body, bodyLimit) }
