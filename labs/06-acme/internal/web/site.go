// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package web

import (
	"html/template"
	"io"
	"log"
	"net/http"

	"lva.io/operators/labs/06-acme/internal/acme"
)

var page = template.Must(template.New("page").Parse(`<!doctype html>
<title>{{.Title}}</title>
<h1>{{.Title}}</h1>
<p>This is {{.Host}}. You asked for {{.Path}}.</p>
`))

// Site is the web site.
type Site struct {
	routes *http.ServeMux
	title  string
	order  string
}

// NewSite makes a site whose pages have this title. It proves the order in this folder; see acme.ReadOrder.
func NewSite(title, order string) *Site {
	s := &Site{routes: http.NewServeMux(), title: title, order: order}
	s.routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	// TODO(lab): 3. The page below answers every path, also those below /.well-known/. Register challenge for
	// /.well-known/acme-challenge/ and a token.
	// As in many sites, a script in the page decides what to show for a path. So the page is the answer to all of them.
	s.routes.HandleFunc("GET /", s.page)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.routes.ServeHTTP(w, r) }

func (s *Site) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := page.Execute(w, map[string]string{"Title": s.title, "Host": r.Host, "Path": r.URL.Path}); err != nil {
		log.Printf("Cannot write the page for %s: %v", r.URL.Path, err)
	}
}

// challenge answers an HTTP-01 challenge of the order with its key authorization, and any other with 404.
func (s *Site) challenge(w http.ResponseWriter, r *http.Request) {
	// TODO(lab): 4. Read the order. If it has the token of the path (r.PathValue), write its key authorization, and
	// nothing else: no newline, no HTML. The log says what went wrong, the answer does not have to.
	_ = acme.Order{}
	http.NotFound(w, r)
}
