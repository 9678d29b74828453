// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Kind is a kind of fault: what happens to a request. A new kind is a constant and an entry in the table below.
type Kind string

const (
	// Conflict answers an update, patch or delete of the API with 409, and any other request with 500. The request is not
	// executed.
	Conflict Kind = "conflict"
	// TooManyRequests answers with 429 and Retry-After: 1. The request is not executed.
	TooManyRequests Kind = "too-many-requests"
	// ServerError answers with 500. The request is not executed.
	ServerError Kind = "server-error"
	// Unavailable answers with 503. The request is not executed.
	Unavailable Kind = "unavailable"
	// Forbidden answers with 403, as an admission policy may until it changes. The request is not executed.
	Forbidden Kind = "forbidden"
	// NoAnswer holds the request until the client gives up. If For is set, the connection is cut after that time at the
	// latest. The request is not executed.
	NoAnswer Kind = "no-answer"
	// LostAnswer executes the request, and cuts the connection instead of answering.
	LostAnswer Kind = "lost-answer"
	// HalfAnswer executes the request, sends the headers and half of the answer, and then nothing until the client gives
	// up. If For is set, the connection is cut after that time at the latest.
	HalfAnswer Kind = "half-answer"
	// Reset resets the connection (RST) instead of answering. The client's error then names its port, which is different
	// each time. The request is not executed. Requests to the API share a connection, so none of them can be reset.
	Reset Kind = "reset"
	// Slow executes the request at once, and answers after For.
	Slow Kind = "slow"
	// Stale holds back every watch event for For, from this request on until the schedule ends. The request itself is
	// executed.
	Stale Kind = "stale"
	// Cut ends all watches as a dropped connection does, after the request was executed.
	Cut Kind = "cut"
	// Break breaks off all watches in the middle, as a failing API server does, after the request was executed. client-go
	// lists again about a second later. No event reports what was deleted in the meantime.
	Break Kind = "break"
	// Behind answers the list with which a cache begins (resourceVersion=0) like an API server that is behind the others:
	// as it was at Version. Later changes reach the operator after For, as with Stale. Other reads are answered as usual.
	Behind Kind = "behind"
	// KillBefore kills the operator (SIGKILL) when the request arrives. The request is not executed. For the class
	// Request, it kills the API server when For has passed after the check sent the request.
	KillBefore Kind = "kill-before"
	// KillAfter kills the operator (SIGKILL) when the request was executed, before the answer reaches the operator.
	KillAfter Kind = "kill-after"
)

// kinds holds everything that the package knows about each kind. The order and the tickets decide which schedules a
// seed gives: TestSeedDeterminesSchedules fails if a change alters old ones.
var kinds = []behaviour{
	{kind: Conflict, refuse: conflict, atWrites: 2},
	{
		kind: TooManyRequests, tickets: 1, costs: retryAfter,
		refuse: answerWith(apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)),
	},
	{kind: ServerError, refuse: answerWith(serverError), tickets: 1},
	{
		kind: Unavailable, tickets: 1,
		refuse: answerWith(apierrors.NewServiceUnavailable("the server is currently unable to handle the request")),
	},
	{kind: Forbidden, refuse: forbidden},
	{
		kind: NoAnswer, duration: maxDuration, override: (*exchange).wait,
		tickets: 1, random: tenths{10, 25}, mild: tenths{2, 6}, // also longer than the second that a careful client waits
	},
	{kind: LostAnswer, loses: true, forward: (*exchange).withoutCancel, answer: (*exchange).drop, tickets: 1},
	{kind: HalfAnswer, duration: maxDuration, answer: (*exchange).truncate},
	{
		kind:     Reset,
		valid:    func(f Fault) bool { return f.Service != "" && f.Service != API },
		invalid:  "only the connection of a request to another service than the API can be reset; name the service",
		override: func(x *exchange, _ context.Context) { x.connection.reset() },
	},
	{
		kind: Slow, duration: fixedDuration, answer: (*exchange).delay,
		tickets: 1, random: tenths{2, 10}, mild: tenths{2, 6},
	},
	{
		kind: Stale, duration: fixedDuration, enter: (*exchange).delayEvents,
		tickets: 1, random: tenths{1, 10}, mild: tenths{1, 3}, repeats: staleRepeats,
	},
	{kind: Cut, after: func(x *exchange) { x.injector.endWatches(errCut) }, tickets: 1},
	{kind: Break, after: func(x *exchange) { x.injector.endWatches(errBroken) }},
	{
		kind: Behind, duration: fixedDuration, versioned: true,
		valid:   func(f Fault) bool { return f.Class == Read && f.Service == API && f.Version != "" },
		invalid: "only reads of the API can be behind, and only at a version",
		applies: func(asked *request) bool { return asked.cached },
		enter:   (*exchange).delayEvents, forward: (*exchange).atVersion,
	},
	{
		kind: KillBefore, duration: requestDelay, servers: []Class{Request}, kills: true,
		enter: (*exchange).mark, override: (*exchange).kill, atWrites: 2,
	},
	{
		kind: KillAfter, servers: []Class{Change, Request}, kills: true, loses: true,
		forward: (*exchange).withoutCancel, answer: (*exchange).drop, atWrites: 2,
	},
}

// behaviour is an entry of the table. Everything but the kind may be left out.
type behaviour struct {
	kind Kind

	// The valid faults of this kind: duration is the meaning of their For, versioned is true if they have a Version, and
	// servers lists the classes that they may have besides Write and Read. valid checks further conditions, and invalid is
	// the message if they are not met.
	duration  durationRule
	versioned bool
	servers   []Class
	valid     func(Fault) bool
	invalid   string

	// applies reports whether the fault applies to a request. Nil: it applies to all requests that the fault names.
	applies func(*request) bool
	// kills is true if the fault kills the operator. loses is true if the operator doesn't get the answer whose code is
	// logged.
	kills, loses bool

	// The effects on a request, in this order. Nil: no effect. With refuse or override, the service does not get the
	// request. The methods are in exchange.go.
	//
	// enter is called before anything else, when the request has its number. The injector is locked.
	enter func(*exchange)
	// refuse returns the error with which the API answers instead of the service. Other services answer with a problem of
	// the same code.
	refuse func(*request) *apierrors.StatusError
	// override is called instead of the service. Then the connection is cut. ctx ends when the client gives up.
	override func(x *exchange, ctx context.Context)
	// forward changes the request on its way to the service.
	forward func(*exchange, *http.Request) *http.Request
	// answer is called with the service's answer, before any of it is handed over, and may change it. With an error,
	// nothing is handed over. whole is false if a part of it will never arrive: then the log has no code. An answer that
	// switches protocols has no end, and is handed over as it is.
	answer func(*exchange, *http.Response) (whole bool, err error)
	// after is called when the answer has been handed over.
	after func(*exchange)

	// The fields with which Random and Mild draw the kind. It has tickets at each request, and atWrites more at writes.
	// Some kinds have two of these, because the schedules test above all what happens between two writes. The tests in
	// generate_test.go name the kinds without tickets. Mild leaves out kinds that kill. random and mild are the ranges of
	// the duration. In a mild schedule the operator waits for costs, and additionally for the duration of the fault,
	// as many times as repeats says (0: once).
	tickets, atWrites int
	random, mild      tenths
	costs             time.Duration
	repeats           int
}

// durationRule is the meaning of a fault's For.
type durationRule int

const (
	noDuration    durationRule = iota // must be absent
	maxDuration                       // the maximum duration, optional
	fixedDuration                     // the duration, required
	requestDelay                      // only at a Request: the time from sending the request to the fault, optional
)

// reachesService reports whether the service gets the request.
func (b behaviour) reachesService() bool { return b.refuse == nil && b.override == nil }

// behaviour returns the kind's entry, or an empty one if there is no such kind.
func (k Kind) behaviour() behaviour {
	i := slices.IndexFunc(kinds, func(b behaviour) bool { return b.kind == k })
	if i < 0 {
		return behaviour{}
	}
	return kinds[i]
}

// Kinds returns all kinds of faults.
func Kinds() []Kind { return kindsWhere(func(behaviour) bool { return true }) }

func kindsWhere(match func(behaviour) bool) (some []Kind) {
	for _, b := range kinds {
		if match(b) {
			some = append(some, b.kind)
		}
	}
	return some
}

// Kills reports whether faults of this kind kill the operator.
func (k Kind) Kills() bool { return k.behaviour().kills }

var (
	// errModified is the API server's message about an object that changed since it was read:
	// k8s.io/apiserver/pkg/registry/generic/registry.OptimisticLockErrorMsg.
	errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	errInjected = errors.New("an injected fault")
	serverError = apierrors.NewInternalError(errInjected)
)

// answerWith returns a function that returns the same error for each request.
func answerWith(err *apierrors.StatusError) func(*request) *apierrors.StatusError {
	return func(*request) *apierrors.StatusError { return err }
}

func forbidden(asked *request) *apierrors.StatusError {
	return apierrors.NewForbidden(asked.resource(), asked.entry.Name, errInjected)
}

// conflict returns a conflict only for a request to the API that changes an object. For another service, the meaning of
// 409 depends on that service.
func conflict(asked *request) *apierrors.StatusError {
	if asked.entry.Service == API && slices.Contains([]string{"update", "patch", "delete"}, asked.entry.Verb) {
		return apierrors.NewConflict(asked.resource(), asked.entry.Name, errModified)
	}
	return serverError
}
