// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestServeFolderAsSite(t *testing.T) {
	t.Parallel()
	site := fstest.MapFS{
		"index.html":       {Data: []byte("<h1>Operator Labs</h1>")},
		notFound:           {Data: []byte("<h1>No such page</h1>")},
		"lectures/02.html": {Data: []byte("<h1>Reconcile</h1>")},
		"assets/app.js":    {Data: []byte("export {}")},
	}
	for _, c := range []struct {
		path, holds, contentType string
		code                     int
	}{
		{"/", "Operator Labs", "text/html", http.StatusOK},
		{"/lectures/02.html", "Reconcile", "text/html", http.StatusOK},
		{"/assets/app.js", "export", "text/javascript", http.StatusOK},
		{"/lectures/99.html", "No such page", "text/html", http.StatusNotFound},
		{"/../../etc/passwd", "No such page", "text/html", http.StatusNotFound},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			answer := httptest.NewRecorder()
			files(site).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, c.path, http.NoBody))
			if answer.Code != c.code || !strings.Contains(answer.Body.String(), c.holds) ||
				!strings.HasPrefix(answer.Header().Get("Content-Type"), c.contentType) {
				t.Errorf("got %d, %s:\n%s", answer.Code, answer.Header().Get("Content-Type"), answer.Body)
			}
		})
	}
}
