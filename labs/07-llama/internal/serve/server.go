// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// requestTimeout is how long a request may take that is no watch.
	requestTimeout = 30 * time.Second
	// answerTimeout is how long it may take until the client has read the answer. It is that of the API server.
	answerTimeout = time.Minute
	// maxInFlight is how many requests are answered at the same time, watches not counted. The API server counts reads
	// and writes apart (--max-requests-inflight is 400, --max-mutating-requests-inflight 200). This Pod has less memory.
	maxInFlight = 100
)

// Server answers requests for the resources of one group and version.
type Server struct {
	group     schema.GroupVersion
	resources []Resource
	trust     Trust
	watches   watchCounter
	inFlight  chan struct{} // has an element for each request that is being answered and is no watch
	// bytesInFlight are those that the same requests hold, and lists has an element for each list that is being made.
	bytesInFlight atomic.Int64
	lists         map[string]chan struct{} // by the plural of the resource
	draining      atomic.Bool
	stopped       context.Context
	stop          context.CancelFunc
	handler       http.Handler
}

// Trust authenticates and authorizes requests.
type Trust interface {
	// Authenticate returns the user of this request, or an Unauthorized error.
	Authenticate(r *http.Request) (User, error)
	// Authorize returns a Forbidden error if the user may not do this.
	Authorize(ctx context.Context, user User, action Action) error
}

// New returns a server of these resources.
func New(group schema.GroupVersion, trust Trust, resources ...Resource) (*Server, error) {
	s := &Server{
		group: group, resources: resources, trust: trust,
		watches: watchCounter{byUser: map[string]int{}}, inFlight: make(chan struct{}, maxInFlight),
		lists: map[string]chan struct{}{},
	}
	s.stopped, s.stop = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	s.addHealth(mux)
	s.addDiscovery(mux)
	if err := s.addOpenAPI(mux); err != nil {
		return nil, fmt.Errorf("describe the API in OpenAPI: %w", err)
	}
	for _, resource := range resources {
		s.lists[resource.Plural] = make(chan struct{}, maxLists)
		s.addResource(mux, resource)
	}
	mux.HandleFunc("/", s.unknown)
	s.handler = mux
	return s, nil
}

// Drain lets /readyz fail, so that no new requests are sent here. Those that still come are served.
func (s *Server) Drain() { s.draining.Store(true) }

// Stop ends the watches, after Drain. Other requests run to their end.
func (s *Server) Stop() {
	s.Drain()
	// TODO(lab): b9. s.stopped is what watches look at.
}

// addResource names the paths of a resource. An object of a namespace has three: alone, in the list of its namespace,
// and in the list of all namespaces, which is what `kubectl get -A` asks for.
func (s *Server) addResource(mux *http.ServeMux, resource Resource) {
	root := "/apis/" + s.group.Group + "/" + s.group.Version
	everywhere := root + "/" + resource.Plural
	list := root + "/namespaces/{namespace}/" + resource.Plural
	object := list + "/{name}"

	// TODO(lab): a2. to a4. Which handler answers which path?
	// mux.HandleFunc("GET "+PATH, s.handle(resource, VERB, HANDLER))
	_, _, _ = everywhere, list, object
	// TODO(lab): b1. The paths of the writes: POST to a list, PUT, PATCH and DELETE of an object, DELETE of a list.
}

// unknown answers every path that has no handler. It logs the requests that clients send in vain: type `kubectl get
// llamas`, and read.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	slog.Warn("I cannot answer this", "method", r.Method, "path", r.URL.RequestURI(), "accept", r.Header.Get("Accept"))
	// The path is unknown, and no object is missing: the Status names none.
	status := apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "", 0, true)
	status.ErrStatus.Details = nil
	status.ErrStatus.Message = "the server could not find the requested resource"
	writeError(w, status)
}

func (s *Server) addHealth(mux *http.ServeMux) {
	ok := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }
	mux.HandleFunc("GET /healthz", ok)
	mux.HandleFunc("GET /livez", ok)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
			return
		}
		ok(w, r)
	})
}

// errPanic is all that a client learns of a panic. The panic's own text may have anything in it that is in memory, so
// it is only logged.
var errPanic = errors.New("the server panicked: its log has the details")

// ServeHTTP authenticates the user, and then calls the handler of the path. A panic becomes a Status: one bad request
// must not end the server. If the answer has begun, as in a watch, the connection is closed instead. Then the client
// notices that the answer is incomplete, and begins a new watch at the last resourceVersion.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		switch panicked := recover(); panicked {
		case nil:
		case http.ErrAbortHandler: // no fault: a handler asks net/http to break the connection off
			panic(panicked)
		default:
			slog.Error("A request led to a panic", "path", r.URL.Path, "panic", panicked, "stack", string(debug.Stack()))
			if w.Header().Get("Content-Type") != "" { // it is set when an answer begins
				panic(http.ErrAbortHandler)
			}
			writeError(w, apierrors.NewInternalError(errPanic))
		}
	}()
	// Without a deadline, the answer to a client that reads nothing would stay in memory forever.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	switch r.URL.Path {
	case "/healthz", "/livez", "/readyz": // the kubelet asks these, and it has no certificate
		s.handler.ServeHTTP(w, r)
		return
	}
	user, err := s.trust.Authenticate(r)
	if err != nil {
		writeError(w, err)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), userKey{}, user))
	if !isResourcePath(s.group, r.URL.Path) {
		action := Action{Verb: nonResourceVerb(r.Method), Path: r.URL.Path}
		if err := s.trust.Authorize(r.Context(), user, action); err != nil {
			writeError(w, err)
			return
		}
	}
	s.handler.ServeHTTP(w, r)
}

// watchCounter counts the watches, of each user and of all.
type watchCounter struct {
	mu     sync.Mutex
	byUser map[string]int
	all    int
}

// Each watch costs memory until it ends. A user may have maxWatches at the same time, so that no user takes those of
// the others. All users together may have maxAllWatches, since a user who can create ServiceAccounts can have any
// number of identities.
const (
	maxWatches    = 100
	maxAllWatches = 1000
)

// begin counts one more watch, or returns an error if there are too many. After a begin without an error, call end.
func (c *watchCounter) begin(user string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.byUser[user] >= maxWatches:
		return apierrors.NewTooManyRequests("this user has too many watches: end some of them", 1)
	case c.all >= maxAllWatches:
		return apierrors.NewTooManyRequests("this server has as many watches as it can have: try again later", 1)
	}
	c.byUser[user]++
	c.all++
	return nil
}

func (c *watchCounter) end(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.byUser[user]--; c.byUser[user] == 0 {
		delete(c.byUser, user)
	}
}
