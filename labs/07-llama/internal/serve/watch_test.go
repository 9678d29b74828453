// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"lva.io/operators/labs/07-llama/internal/serve"
)

// watchEvents reads the events of a watch until it ends.
func watchEvents(t *testing.T, url string) (types []string, last map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		last = map[string]any{}
		if err := json.NewDecoder(bytes.NewReader(lines.Bytes())).Decode(&last); err != nil {
			t.Fatal(err)
		}
		kind, _ := last["type"].(string)
		types = append(types, kind)
	}
	return types, last
}

func TestWatchTellsWhatHappenedSince(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	url, _ := start(t)
	ask(t, "PATCH", url+carla, `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
	ask(t, "DELETE", url+carla, "")
	for query, want := range map[string]string{
		"resourceVersion=2":                                        "MODIFIED DELETED BOOKMARK",
		"resourceVersion=2&labelSelector=a%3Db":                    "ADDED DELETED BOOKMARK",
		"resourceVersion=2&fieldSelector=metadata.name=x":          "BOOKMARK",
		"resourceVersion=1":                                        "ADDED MODIFIED DELETED BOOKMARK",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan": "ADDED BOOKMARK BOOKMARK",
		"resourceVersion=":                                         "ADDED BOOKMARK",
	} {
		types, last := watchEvents(t, url+root+"/llamas?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&"+query)
		if got := strings.Join(types, " "); got != want || at(last, "object", "metadata", "resourceVersion") != "4" {
			t.Errorf("%s: got %s, want %s; last %v", query, got, want, last)
		}
	}
}

func TestStopEndsWatches(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	url, server := start(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watchEvents(t, url+root+"/llamas?watch=1")
	}()
	server.Stop()
	<-ended
	if code, _ := statusOnly(t, url+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d", code)
	}
}

// falling is a reader whose watches panic when their client waits for the first event.
type falling struct{ serve.Reader }

func (falling) Watch(context.Context, string, metav1.ListOptions) (iter.Seq[watch.Event], error) {
	return func(func(watch.Event) bool) { panic("the secret of the herd") }, nil
}

func TestAPanicEndsOneWatchAndNothingElse(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	llamas, _ := herdOf(t)
	inEvents, inAnswer := llamas.Resource(), llamas.Resource()
	inEvents.Reader = falling{Reader: llamas}
	inAnswer.Cells = func(runtime.Object) []any { panic("the secret of the herd") }
	for _, resource := range []serve.Resource{inEvents, inAnswer} {
		log.Reset()
		url, _ := startWith(t, resource)
		// One more than a user may have at the same time: each that ends makes room for the next.
		for i := range 101 {
			code, content, err := read(t, url+herd+"?watch=1", "Accept", tableForm)
			// A clean end would look as if nothing more were to come, and a Status is no event.
			if code != http.StatusOK || err == nil || content != "" {
				t.Fatalf("watch %d is answered with %d %q, which ends with %v: want 200 and a connection that breaks",
					i+1, code, content, err)
			}
		}
		if got := strings.Count(log.String(), "the secret of the herd"); got != 101 {
			t.Errorf("the log has %d of 101 panics", got)
		}
		if code, content := ask(t, "GET", url+carla, ""); code != 200 {
			t.Errorf("after that a get is answered with %d %v", code, content)
		}
	}
}

// read sends a GET with a header and returns the code, the answer, and how the answer ends: nil is a clean end.
func read(t *testing.T, url, header, value string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, value)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

func TestOneUserCannotHaveAllWatches(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	url, _ := start(t)
	for i := range 101 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+herd+"?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User", "greedy")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i < 100]; answer.StatusCode != want {
			t.Fatalf("watch %d: %d, want %d", i+1, answer.StatusCode, want)
		}
	}
	if code, _ := ask(t, "GET", url+carla, "", "User", "modest"); code != 200 {
		t.Errorf("another user gets %d", code)
	}
}
