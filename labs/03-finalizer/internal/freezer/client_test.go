// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

var cream = Movement{Owner: "5d1", Direction: Out, Ingredient: Ingredient{Kind: Topping, Name: "cream"}}

func TestBook(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string // of the error; empty: none
	}{
		{name: "booked", answer: answer(http.StatusCreated, `{}`)},
		{name: "booked before", answer: answer(http.StatusOK, `{}`)},
		{
			name:   "refused by the freezer",
			answer: answer(http.StatusConflict, `{"title":"Conflict","detail":"none left of topping cream","status":409}`),
			want:   "the freezer answers 409 Conflict: none left of topping cream",
		},
		{
			name: "refused on the way there", answer: answer(http.StatusServiceUnavailable, "<html>"),
			want: "the freezer answers 503 Service Unavailable",
		},
		{
			name: "no answer", answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			want: "the freezer does not answer: it was given 100ms",
		},
		{
			name: "the connection is cut", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			want: "the freezer does not answer: EOF",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got string
			client := NewClient(serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got = fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, strings.TrimSpace(string(body)))
				test.answer(w, r)
			}), 100*time.Millisecond)
			for range 2 { // The same trouble has the same words each time.
				err := client.Book(t.Context(), "id-1", cream)
				if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
					t.Fatalf("got the error %v, want %q", err, test.want)
				}
			}
			const want = `PUT /v1/movements/id-1 {"owner":"5d1","direction":"out","kind":"topping","ingredient":"cream"}`
			if got != want {
				t.Errorf("the freezer was asked\n%s, want\n%s", got, want)
			}
		})
	}
}

func TestOutstanding(t *testing.T) {
	t.Parallel()
	client := NewClient(serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/owners/5d1" {
			t.Errorf("the freezer was asked %s %s", r.Method, r.URL.Path)
		}
		answer(http.StatusOK, `{"owner":"5d1","out":[{"kind":"topping","ingredient":"cream"}]}`)(w, r)
	})+"/", time.Minute)
	got, err := client.Outstanding(t.Context(), "5d1")
	if want := []Ingredient{cream.Ingredient}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	_, err := NewClient(server.URL, time.Minute).Outstanding(t.Context(), "5d1")
	if want := "the freezer does not answer: connect: connection refused"; err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %q", err, want)
	}
}

func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// serve starts a freezer with these answers. It ends with the test.
func serve(t *testing.T, handler http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
