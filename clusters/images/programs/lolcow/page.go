// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

//go:embed page.html
var pageHTML string

// page escapes what is put into it.
var page = template.Must(template.New("page").Parse(pageHTML))

// handler serves the cow, and the health check of the kubelet.
func handler(greeting string) http.Handler {
	if strings.TrimSpace(greeting) == "" {
		greeting = "Moo."
	}
	drawn := say(greeting)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		// The same address has two answers, so a cache must know which client an answer was for.
		w.Header().Set("Vary", "Accept")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, drawn)
			return
		}
		var html bytes.Buffer
		if err := page.Execute(&html, drawn); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// The page has inline styles, no script, and no resources from other sites.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = html.WriteTo(w)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}
