// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Describer is a handler that can describe a request whose URL is not enough: "topping cream out". It returns an empty
// string if it can't.
type Describer interface {
	Describe(r *http.Request, body []byte) string
}

// Proxy serves a handler, such as the freezer's, without TLS at an address of this machine. It delivers a response when
// it is complete. name is the service's name in schedules and in the log.
func (i *Injector) Proxy(name string, handler http.Handler) (url string, err error) {
	if name == "" || name == API || name == Operator || name == Check {
		return "", fmt.Errorf("a service can't be called %q: choose another name", name)
	}
	s := &service{
		injector: i,
		parse:    func(r *http.Request) request { return parseHTTP(name, r) },
		refuse:   problemOf,
		detail:   detailOf,
	}
	if describer, ok := handler.(Describer); ok {
		s.parse = func(r *http.Request) request {
			asked := parseHTTP(name, r)
			if body, whole := peek(r); whole {
				asked.entry.About = describer.Describe(r, body)
			}
			return asked
		}
	}
	s.forward(inProcess{handler}, func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
		r.Out.Host = r.In.Host
	})
	address, err := s.listen(nil)
	if err != nil {
		return "", err
	}
	return "http://" + address, nil
}

// version matches the first part of a path such as /v1/movements.
var version = regexp.MustCompile(`^v[0-9]+$`)

// parseHTTP parses a request to a path such as /v1/collection/name.
func parseHTTP(service string, r *http.Request) request {
	parts := strings.SplitN(strings.Trim(r.URL.Path, "/"), "/", 3)
	if version.MatchString(parts[0]) {
		parts = parts[1:]
	}
	parts = append(parts, "", "")
	return request{counts: true, entry: Entry{
		Service: service, Verb: strings.ToLower(r.Method), Resource: parts[0], Name: parts[1],
		Write: !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method),
	}}
}

// problemLimit is the maximum number of bytes of a problem that are read.
const problemLimit = 64 << 10

// detailOf returns the reason why a service refuses a request, if its answer is a problem (RFC 9457). The answer can
// still be handed on.
func detailOf(answer *http.Response) string {
	if answer.StatusCode < http.StatusBadRequest || answer.Header.Get("Content-Type") != problemType {
		return ""
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, problemLimit))
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), answer.Body), answer.Body}
	var problem struct{ Detail string }
	if err != nil || json.Unmarshal(body, &problem) != nil {
		return ""
	}
	return problem.Detail
}

// problemType is the media type of a problem.
const problemType = "application/problem+json"

// problemOf returns an error as a problem (RFC 9457).
func problemOf(err *apierrors.StatusError) refusal {
	code := int(err.Status().Code)
	body, marshalErr := json.Marshal(struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Status int    `json:"status"`
	}{http.StatusText(code), "an injected fault: try again later", code})
	if marshalErr != nil {
		panic(marshalErr) // strings and a number can always be marshalled
	}
	return refusal{code: code, mediaType: problemType, body: body}
}

// inProcess is a transport that passes requests to a handler of this program.
type inProcess struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody // a handler expects a body that is not nil
	}
	w := &answerWriter{header: http.Header{}}
	h.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.code, http.StatusText(w.code)), StatusCode: w.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Request: r,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}, nil
}

// answerWriter holds the answer of a handler.
type answerWriter struct {
	header, sent http.Header
	code         int
	body         bytes.Buffer
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code, w.sent = code, w.header.Clone()
	}
}

func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
