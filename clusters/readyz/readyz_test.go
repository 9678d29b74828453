// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package readyz

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// newTestClient returns a client of an API server that gives this answer. asked are the requested paths, with the
// excluded checks.
func newTestClient(t *testing.T, code int, page string) (client rest.Interface, asked *[]string) {
	t.Helper()
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Path)
		*asked = append(*asked, r.URL.Query()["exclude"]...)
		w.WriteHeader(code)
		fmt.Fprint(w, page)
	}))
	t.Cleanup(server.Close)
	client, err := rest.UnversionedRESTClientFor(&rest.Config{
		Host: server.URL,
		ContentConfig: rest.ContentConfig{
			GroupVersion: &schema.GroupVersion{}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client, asked
}

// page returns the answer of an API server: a line for each of its checks, of which these fail.
func page(failing ...string) string {
	var text strings.Builder
	all := []string{"ping", "log", "etcd", "etcd-readiness", "informer-sync"}
	for i := range 45 {
		all = append(all, fmt.Sprintf("poststarthook/start-controller-%d", i))
	}
	for _, check := range all {
		if slices.Contains(failing, check) {
			fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", check)
		} else {
			fmt.Fprintf(&text, "[+]%s ok\n", check)
		}
	}
	return text.String() + "readyz check failed\n"
}

// The answer has some 2,000 characters. The error has only the checks that fail.
func TestFailedChecksAreNamedInOneLine(t *testing.T) {
	t.Parallel()
	for want, failing := range map[string][]string{
		"it is not ready: its checks of etcd fail":                 {"etcd"},
		"it is not ready: its checks of etcd, etcd-readiness fail": {"etcd", "etcd-readiness"},
	} {
		client, asked := newTestClient(t, http.StatusInternalServerError, page(failing...))
		if err := Ask(t.Context(), client); err == nil || err.Error() != want {
			t.Errorf("Ask() error = %v, want %s", err, want)
		}
		if !slices.Equal(*asked, []string{"/readyz"}) {
			t.Errorf("requests = %v", *asked)
		}
	}
}

func TestReadyServer(t *testing.T) {
	t.Parallel()
	client, asked := newTestClient(t, http.StatusOK, "ok")
	if err := Ask(t.Context(), client, "etcd", "informer-sync"); err != nil {
		t.Error(err)
	}
	if want := []string{"/readyz", "etcd", "informer-sync"}; !slices.Equal(*asked, want) {
		t.Errorf("requests = %v, want %v", *asked, want)
	}
}

// An answer that names no check is an error, too.
func TestResponseWithoutChecks(t *testing.T) {
	t.Parallel()
	client, _ := newTestClient(t, http.StatusForbidden, "no")
	if err := Ask(t.Context(), client); err == nil {
		t.Error("no error for a refusal")
	}
}
