// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	group        = "farm.example.com"
	version      = "v1alpha"
	groupVersion = group + "/" + version
	root         = "/apis/" + groupVersion
)

// farm answers requests.
type farm struct {
	store   *herd
	api     *cluster
	ending  context.Context
	mutex   sync.Mutex
	watches map[string]int // by user
}

// refusal is an answer that is an error.
type refusal struct {
	code            int
	reason, message string
	details         object
}

func (r *refusal) Error() string { return r.message }

func refuse(code int, reason, format string, values ...any) *refusal {
	return &refusal{code: code, reason: reason, message: fmt.Sprintf(format, values...)}
}

func (r *refusal) about(resource, name string) *refusal {
	r.details = object{"group": group, "kind": resource, "name": name}
	return r
}

func invalid(name, field, message string) *refusal {
	r := refuse(422, "Invalid", "Llama.%s %q is invalid: %s: %s", group, name, field, message).about("Llama", name)
	r.details["causes"] = []object{{"reason": "FieldValueInvalid", "message": message, "field": field}}
	return r
}

func answer(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(encode(o), '\n'))
}

// request is a request for a resource.
type request struct {
	*http.Request
	user                      *user
	resource, namespace, name string
	verb                      string
}

func (f *farm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := f.serve(w, r)
	var refused *refusal
	switch {
	case err == nil:
		return
	case !errors.As(err, &refused):
		refused = refuse(500, "InternalError", "%s", err)
	case refused.code == 429:
		w.Header().Set("Retry-After", "1")
	}
	log.Printf("%s %s: %d %s", r.Method, r.URL, refused.code, refused.message)
	answer(w, refused.code, object{
		"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Failure",
		"code": refused.code, "reason": refused.reason, "message": refused.message, "details": refused.details,
	})
}

func (f *farm) serve(w http.ResponseWriter, r *http.Request) error {
	switch r.URL.Path {
	case "/healthz", "/livez", "/readyz":
		_, err := io.WriteString(w, "ok")
		return err
	}
	u, err := f.api.who(r)
	if err != nil {
		return refuse(401, "Unauthorized", "Unauthorized: %s", err)
	}
	if document, ok := documents[strings.TrimSuffix(r.URL.Path, "/")]; ok && r.Method == http.MethodGet {
		answer(w, 200, document)
		return nil
	}
	q := &request{Request: r, user: u}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, root+"/"), "/")
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.namespace, parts = parts[1], parts[2:]
	}
	if !strings.HasPrefix(r.URL.Path, root+"/") || len(parts) > 2 ||
		parts[0] != "llamas" && parts[0] != "farmpods" ||
		len(parts) == 2 && q.namespace == "" {
		return refuse(404, "NotFound", "the server could not find the requested resource")
	}
	if q.resource = parts[0]; len(parts) == 2 {
		q.name = parts[1]
	}
	q.verb = verb(r, q.name)
	if q.verb == "" ||
		q.resource == "farmpods" && !slices.Contains([]string{"get", "list", "watch"}, q.verb) ||
		q.verb == "create" && q.namespace == "" {
		return refuse(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
	}
	if err := f.allow(q, group, q.resource, q.name); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, 3<<20)
	if q.verb == "watch" {
		done, err := f.count(q.user.name)
		if err != nil {
			return err
		}
		defer done()
	}
	if q.resource == "farmpods" {
		return f.farmPods(w, q)
	}
	switch q.verb {
	case "get", "list":
		return f.read(w, q)
	case "watch":
		return f.watch(w, q)
	}
	return f.write(w, q)
}

func verb(r *http.Request, name string) string {
	switch {
	case r.Method == http.MethodGet && (r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1"):
		return "watch"
	case r.Method == http.MethodGet && name == "":
		return "list"
	case r.Method == http.MethodDelete && name == "":
		return "deletecollection"
	case r.Method == http.MethodPost && name == "":
		return "create"
	case name == "":
		return ""
	}
	return map[string]string{
		http.MethodGet:    "get",
		http.MethodPut:    "update",
		http.MethodPatch:  "patch",
		http.MethodDelete: "delete",
	}[r.Method]
}

// allow asks whether the user may do to a resource what the request does.
func (f *farm) allow(q *request, group, resource, name string) error {
	attributes := object{"group": group, "resource": resource, "verb": q.verb, "namespace": q.namespace, "name": name}
	if group != "" {
		attributes["version"] = version
	}
	allowed, err := f.api.may(q.Context(), q.user, attributes)
	if err != nil {
		return refuse(500, "InternalError", "asking whether %s may %s %s: %s", q.user.name, q.verb, resource, err)
	}
	if !allowed {
		return refuse(403, "Forbidden", "%s is forbidden: User %q cannot %s resource %q in API group %q in the namespace %q",
			resource, q.user.name, q.verb, resource, group, q.namespace).about(q.resource, q.name)
	}
	return nil
}

// count counts a watch of a user, who may have a hundred.
func (f *farm) count(name string) (func(), error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.watches[name] >= 100 {
		return nil, refuse(429, "TooManyRequests", "%s has 100 watches already", name)
	}
	f.watches[name]++
	return func() {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if f.watches[name]--; f.watches[name] == 0 {
			delete(f.watches, name)
		}
	}, nil
}

var (
	labelTerm = regexp.MustCompile(`^(!?)([^\s!=(),]+)\s*(?:(=|==|!=)\s*([^\s!=(),]*)|(in|notin)\s*\(([^()]*)\))?$`)
)

// terms splits a selector at the commas outside of parentheses.
func terms(selector string) []string {
	var found []string
	depth, from := 0, 0
	for at, c := range selector {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			found, from = append(found, selector[from:at]), at+1
		}
	}
	if strings.TrimSpace(selector[from:]) != "" {
		found = append(found, selector[from:])
	}
	return found
}

// selector returns a function that selects the objects of a request.
func (q *request) selector() (func(object) bool, error) {
	var tests []func(object) bool
	for _, term := range terms(q.URL.Query().Get("labelSelector")) {
		m := labelTerm.FindStringSubmatch(strings.TrimSpace(term))
		if m == nil {
			return nil, refuse(400, "BadRequest", "unable to parse requirement: %q", term)
		}
		among := []string{m[4]}
		if m[5] != "" {
			among = strings.Split(strings.ReplaceAll(m[6], " ", ""), ",")
		}
		tests = append(tests, func(o object) bool {
			value, has := o.at("metadata").at("labels")[m[2]].(string)
			switch {
			case m[1] == "!":
				return !has
			case m[3] == "" && m[5] == "":
				return has
			case m[3] == "!=" || m[5] == "notin":
				return !has || !slices.Contains(among, value)
			}
			return has && slices.Contains(among, value)
		})
	}
	for _, term := range terms(q.URL.Query().Get("fieldSelector")) {
		field, value, ok := strings.Cut(strings.Replace(term, "==", "=", 1), "=")
		not := strings.HasSuffix(field, "!")
		field = strings.TrimSuffix(field, "!")
		if !ok || field != "metadata.name" && field != "metadata.namespace" {
			return nil, refuse(400, "BadRequest", "field label not supported: %s", field)
		}
		tests = append(tests, func(o object) bool {
			return (o.at("metadata").text(strings.TrimPrefix(field, "metadata.")) == value) != not
		})
	}
	return func(o object) bool {
		if q.namespace != "" && o.at("metadata").text("namespace") != q.namespace ||
			q.name != "" && o.at("metadata").text("name") != q.name {
			return false
		}
		return !slices.ContainsFunc(tests, func(test func(object) bool) bool { return !test(o) })
	}, nil
}

func (f *farm) read(w http.ResponseWriter, q *request) error {
	f.store.mutex.Lock()
	defer f.store.mutex.Unlock()
	if q.name != "" {
		found, ok := f.store.llamas[q.namespace+"/"+q.name]
		if !ok {
			return missing(q)
		}
		q.show(w, 200, found)
		return nil
	}
	chosen, err := q.selector()
	if err != nil {
		return err
	}
	at, last := f.store.version, ""
	query := q.URL.Query()
	if token := query.Get("continue"); token != "" {
		content, err := base64.RawURLEncoding.DecodeString(token)
		first, key, ok := strings.Cut(string(content), " ")
		if at, err = strconv.ParseInt(first, 10, 64); err != nil || !ok {
			return refuse(400, "BadRequest", "the continue token can't be read")
		}
		last = key
	}
	state, known := f.store.at(at)
	if !known {
		return refuse(410, "Expired", "the continue token is too old: list again")
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	items, metadata := []object{}, object{"resourceVersion": strconv.FormatInt(at, 10)}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if key <= last || !chosen(state[key]) {
			continue
		}
		if limit > 0 && len(items) == limit {
			end := items[limit-1]
			metadata["continue"] = base64.RawURLEncoding.EncodeToString(
				fmt.Appendf(nil, "%d %s/%s", at, end.at("metadata").text("namespace"), end.at("metadata").text("name")),
			)
			break
		}
		items = append(items, state[key])
	}
	q.show(w, 200, object{"apiVersion": groupVersion, "kind": "LlamaList", "metadata": metadata, "items": items})
	return nil
}

func missing(q *request) error {
	return refuse(404, "NotFound", "%s.%s %q not found", q.resource, group, q.name).about(q.resource, q.name)
}

// stream sends the events of a watch.
func (q *request) stream(w http.ResponseWriter) func(kind string, o object) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	return func(kind string, o object) error {
		if kind != "ERROR" && kind != "BOOKMARK" {
			o = q.form(o)
		}
		_ = flush.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a client that does not read must not block
		if _, err := w.Write(append(encode(object{"type": kind, "object": o}), '\n')); err != nil {
			return err
		}
		return flush.Flush()
	}
}

// limited returns a context that ends with the time limit of a watch.
func (f *farm) limited(q *request) (context.Context, context.CancelFunc) {
	seconds, err := strconv.Atoi(q.URL.Query().Get("timeoutSeconds"))
	if err != nil || seconds <= 0 {
		seconds = 1800
	}
	ctx, cancel := context.WithTimeout(q.Context(), time.Duration(seconds)*time.Second)
	stop := context.AfterFunc(f.ending, cancel)
	return ctx, func() { stop(); cancel() }
}

func (f *farm) watch(w http.ResponseWriter, q *request) error {
	query := q.URL.Query()
	if query.Get("sendInitialEvents") == "true" {
		return refuse(422, "Invalid", "sendInitialEvents is forbidden: this server does not serve it")
	}
	chosen, err := q.selector()
	if err != nil {
		return err
	}
	var from int64
	if text := query.Get("resourceVersion"); text != "" && text != "0" {
		if from, err = strconv.ParseInt(text, 10, 64); err != nil {
			return refuse(400, "BadRequest", "resourceVersion %q is no number", text)
		}
	}
	var now []object
	if from == 0 {
		f.store.mutex.Lock()
		from = f.store.version
		for _, key := range slices.Sorted(maps.Keys(f.store.llamas)) {
			now = append(now, f.store.llamas[key])
		}
		f.store.mutex.Unlock()
	}
	changes, known, news := f.store.after(from)
	if !known {
		return refuse(410, "Expired", "too old resource version: %d", from)
	}
	send := q.stream(w)
	for _, o := range now {
		if chosen(o) {
			if err := send("ADDED", o); err != nil {
				return nil // the client has disconnected
			}
		}
	}
	ctx, cancel := f.limited(q)
	defer cancel()
	for {
		for _, c := range changes {
			was, is := c.Before != nil && chosen(c.Before), c.Type != "DELETED" && chosen(c.Object)
			kind := map[[2]bool]string{
				{false, true}: "ADDED", {true, true}: "MODIFIED", {true, false}: "DELETED",
			}[[2]bool{was, is}]
			if kind != "" && send(kind, c.Object) != nil {
				return nil
			}
			from = c.Version
		}
		if len(changes) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-news:
			}
		}
		if changes, known, news = f.store.after(from); !known {
			_ = send("ERROR", object{
				"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "too slow",
			})
			return nil
		}
	}
}
