// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// notFound is the page that a site has for addresses without one.
const notFound = "404.html"

// files serves the files of a folder. An address without a file gets the site's own page for that, if it has one.
func files(site fs.FS) http.Handler {
	served := http.FileServerFS(site)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		name := strings.TrimPrefix(path.Join("/", r.URL.Path), "/")
		if name == "" {
			name = "."
		}
		if _, err := fs.Stat(site, name); errors.Is(err, fs.ErrNotExist) {
			if page, err := fs.ReadFile(site, notFound); err == nil {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write(page)
				return
			}
		}
		served.ServeHTTP(w, r)
	})
}
