// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSite(t *testing.T) {
	t.Parallel()
	t.Skip("TODO(lab): 3. remove this line when you begin with NewSite; then: make test")
	folder := t.TempDir()
	for name, content := range map[string]string{
		"account.jwk": `{"kty": "EC", "crv": "P-256", "x": "x", "y": "y"}`,
		"tokens":      "vanilla.lab.test one\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	site := NewSite("Icecream", folder)
	for _, c := range []struct {
		name, path string
		status     int
		begins     string
	}{
		{"the page", "/", http.StatusOK, "<!doctype html>"},
		{"any path is the page", "/menu/today", http.StatusOK, "<!doctype html>"},
		{"the rest of .well-known is the page, too", "/.well-known/security.txt", http.StatusOK, "<!doctype html>"},
		{"health", "/healthz", http.StatusOK, "ok"},
		{"a challenge", "/.well-known/acme-challenge/one", http.StatusOK, "one."},
		{"somebody else's challenge", "/.well-known/acme-challenge/two", http.StatusNotFound, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := httptest.NewRecorder()
			site.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil))
			if answer.Code != c.status || !strings.HasPrefix(answer.Body.String(), c.begins) {
				t.Errorf("%s: status %d and %q, want %d and %q…", c.path, answer.Code, answer.Body, c.status, c.begins)
			}
		})
	}
}
