// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package archive

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"lva.io/operators/clusters/gobuild"
	named "lva.io/operators/scripts/checkout/programs/reference"
)

// A server of an archive may do anything.
func TestDownload(t *testing.T) {
	t.Parallel()
	reference, manifest := newCheckout(t).save(t, "1234")
	content, err := os.ReadFile(reference.Source)
	if err != nil {
		t.Fatal(err)
	}
	whole := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
	broken := bytes.Clone(content)
	broken[len(content)/3] ^= 1
	// some sends only a part of what was requested, and breaks off.
	some := func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		whole(recorded, r)
		maps.Copy(w.Header(), recorded.Header())
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes()[:min(recorded.Body.Len(), len(content)/5)])
	}
	pace := Pace{Within: time.Minute, Attempts: 3, Wait: time.Millisecond}
	for _, test := range []struct {
		name   string
		serve  func(request int) http.HandlerFunc
		pace   Pace
		reason string // why it is not installed; empty if it is
	}{
		{"serves files", func(int) http.HandlerFunc { return whole }, pace, ""},
		{"breaks off", func(int) http.HandlerFunc { return some }, pace, ""},
		{"knows no ranges", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }
		}, pace, ""},
		{"knows no length", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				for part := range slices.Chunk(content, 1<<16) {
					_, _ = w.Write(part)
					w.(http.Flusher).Flush()
				}
			}
		}, pace, ""},
		{"announces more than it sends", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(content)+1<<20))
				_, _ = w.Write(content)
			}
		}, pace, ""},
		{"sends only half at first", func(request int) http.HandlerFunc {
			if request > 2 {
				return whole
			}
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content[:len(content)/2]) }
		}, pace, ""},
		{"is busy at first", func(request int) http.HandlerFunc {
			if request > 2 {
				return whole
			}
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
		}, pace, ""},
		{"redirects", func(request int) http.HandlerFunc {
			if request%2 == 0 {
				return whole
			}
			return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }
		}, pace, ""},
		{"redirects for ever", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }
		}, pace, "stopped after 10 redirects"},
		{"is always busy", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }
		}, pace, "the server responded with 429 Too Many Requests"},
		{
			"does not have it", func(int) http.HandlerFunc { return http.NotFound }, pace,
			"the server responded with 404 Not Found",
		},
		{"has a page instead", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "<html>"+strings.Repeat("Please log in. ", 100))
			}
		}, pace, "not an archive of `lab programs save`"},
		{"has another archive", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				other := bytes.Replace(content, []byte("linux"), []byte("LINUX"), 1)
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(other))
			}
		}, pace, "its manifest has the SHA-256"},
		{"has a broken one", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(broken))
			}
		}, pace, "it does not have the SHA-256 that the manifest names"},
		{"has lost the end", func(int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content[:len(content)/3]))
			}
		}, pace, "the server responded with 416"},
		{"sends another part", func(request int) http.HandlerFunc {
			if request == 1 {
				return whole
			}
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Range", "bytes 0-9/10")
				w.WriteHeader(http.StatusPartialContent)
			}
		}, pace, `and sends "bytes 0-9/10"`},
		{"is too slow", func(request int) http.HandlerFunc {
			if request == 1 {
				return whole
			}
			return func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusPartialContent)
				<-r.Context().Done()
			}
		}, Pace{Within: 300 * time.Millisecond, Bytes: 1 << 10, Attempts: 3}, "compiling is faster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				test.serve(int(requests.Add(1)))(w, r)
			}))
			defer server.Close()
			destination := newCheckout(t)
			err := destination.install(t.Context(),
				named.Reference{Source: server.URL + "/programs.tar", SHA256: reference.SHA256}, test.pace)
			switch {
			case test.reason == "" && err != nil:
				t.Fatalf("after %d requests: %v", requests.Load(), err)
			case test.reason == "":
				destination.wantInstalled(t)
			case err == nil || !strings.Contains(err.Error(), test.reason):
				t.Errorf("error = %v, want %q", err, test.reason)
			case destination.target.Fresh():
				t.Error("the program is fresh")
			}
		})
	}
	if manifest.Layers[0].Size < 100<<10 {
		t.Errorf("the layer has %d bytes, which is too few to break off", manifest.Layers[0].Size)
	}
}

// A run that was killed leaves a part of a layer.
func TestDownloadIsResumed(t *testing.T) {
	t.Parallel()
	reference, manifest := newCheckout(t).save(t, "1234")
	destination := newCheckout(t)
	content, err := os.ReadFile(reference.Source)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Open(t.Context(), reference, DefaultPace)
	if err != nil {
		t.Fatal(err)
	}
	begin, layer := opened.offset("first"), manifest.Layers[0]
	const half = 50_000
	write(t, filepath.Join(destination.root, ".cache", "arriving", layer.SHA256+".tar.zst"),
		string(content[begin:begin+half]))
	var ranges []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	if err := destination.install(t.Context(), named.Reference{Source: server.URL, SHA256: reference.SHA256},
		DefaultPace); err != nil {
		t.Fatal(err)
	}
	destination.wantInstalled(t)
	if want := fmt.Sprintf("bytes=%d-", begin+half); len(ranges) != 2 || ranges[1] != want {
		t.Errorf("requested ranges = %q, want %q", ranges, want)
	}
}

// make in two terminals installs a layer once, and neither command fails.
func TestConcurrentInstallsOfALayer(t *testing.T) {
	t.Parallel()
	reference, _ := newCheckout(t).save(t, "1234")
	var ranges atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			ranges.Add(1)
		}
		http.ServeFile(w, r, reference.Source)
	}))
	defer server.Close()
	destination := newCheckout(t)
	opened, err := Open(t.Context(), named.Reference{Source: server.URL, SHA256: reference.SHA256}, DefaultPace)
	if err != nil {
		t.Fatal(err)
	}
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			return opened.Install(t.Context(), destination.root, opened.Layers[0],
				[]gobuild.Target{destination.target}, destination.installed, func(int64, int64) {})
		})
	}
	if err := both.Wait(); err != nil {
		t.Error(err)
	}
	destination.wantInstalled(t)
	if ranges.Load() != 1 {
		t.Errorf("the layer was fetched %d times", ranges.Load())
	}
}
