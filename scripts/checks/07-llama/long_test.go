// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"lva.io/operators/scripts/grading/limited"
)

// TestAnswerIsLimited checks that an endless answer of a submission does not fill the memory of the checks, and that
// they report what is wrong with it.
func TestAnswerIsLimited(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("refuse") {
			w.WriteHeader(http.StatusForbidden)
		}
		_, err := w.Write([]byte(`{"type":"`))
		text := []byte(strings.Repeat("x", 1<<20))
		for i := 0; err == nil && i < 64; i++ { // or until the client disconnects
			_, err = w.Write(text)
		}
	}))
	defer server.Close()
	long := func(what string, err error) {
		t.Helper()
		if !errors.As(err, new(*limited.LongError)) || !strings.Contains(err.Error(), "it is longer than") {
			t.Errorf("%s: %v", what, err)
		}
	}
	a := sendBy(t.Context(), server.Client(), server.URL, http.MethodGet, "/llamas", nil)
	long("the answer to a request", a.err)
	if len(a.body) > answerLimit {
		t.Errorf("%d bytes of an answer were kept", len(a.body))
	}
	refused := followBy(t.Context(), server.Client(), server.URL, "/llamas", "&refuse=true")
	if refused.refused == nil {
		t.Fatal("the watch has begun")
	}
	long("the answer to a watch that is refused", refused.refused.err)
	w := followBy(t.Context(), server.Client(), server.URL, "/llamas", "")
	defer w.cancel()
	long("an event", <-w.ended)
	// This is how client-go reads an answer.
	client, err := rest.HTTPClientFor(bounded(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	long("a list", err)
}
