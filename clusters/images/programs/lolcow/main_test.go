// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asMain makes the test binary run lolcow, so that a test can send it a signal.
const asMain = "LOLCOW_TEST_ADDRESS"

func TestMain(m *testing.M) {
	if address := os.Getenv(asMain); address != "" {
		os.Args = []string{"lolcow", address}
		main()
		return
	}
	os.Exit(m.Run())
}

func TestCurlGetsTextAndABrowserGetsAPage(t *testing.T) {
	tests := []struct{ name, accept, contentType, holds, lacks string }{
		{"curl", "*/*", "text/plain; charset=utf-8", "| Hello, herd |", "<html"},
		{"nothing said", "", "text/plain; charset=utf-8", "| Hello, herd |", "<html"},
		{
			"a browser", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html; charset=utf-8",
			"| Hello, herd |", "<script",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := ask(t, "Hello, herd", "/", test.accept)
			if got := answer.Header().Get("Content-Type"); got != test.contentType {
				t.Errorf("content type = %q, want %q", got, test.contentType)
			}
			if body := answer.Body.String(); !strings.Contains(body, test.holds) || strings.Contains(body, test.lacks) {
				t.Errorf("want %q and no %q in\n%s", test.holds, test.lacks, body)
			}
			if answer.Header().Get("Vary") != "Accept" {
				t.Error("the response lacks Vary: Accept")
			}
		})
	}
}

func TestGreetingIsEscaped(t *testing.T) {
	const greeting = `<script>alert("moo")</script> & {{.}}`
	page := ask(t, greeting, "/", "text/html").Body.String()
	if strings.Contains(page, "<script") ||
		!strings.Contains(page, "&lt;script&gt;alert(&#34;moo&#34;)&lt;/script&gt; &amp; {{.}}") {
		t.Errorf("the page does not escape the greeting:\n%s", page)
	}
	if text := ask(t, "a \x1b[31mred\x07 cow", "/", "").Body.String(); !strings.Contains(text,
		"a \uFFFD[31mred\uFFFD cow") {
		t.Errorf("a terminal would obey the greeting:\n%q", text)
	}
}

func TestWrap(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{""}},
		{"one word", "moo", []string{"moo"}},
		{"what fits exactly stays on its line", "moo moo moo", []string{"moo moo", "moo"}},
		{"white space is one space", " moo\n\t moo ", []string{"moo moo"}},
		{"a long word is cut", "a moooooooooooo b", []string{"a", "moooooo", "oooooo", "b"}},
		{"characters are counted, and not bytes", "müh müh müh", []string{"müh müh", "müh"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := wrap(test.text, 7); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBubbleRespectsMaximumWidth(t *testing.T) {
	words := strings.Fields(strings.Repeat("the cow jumped over the moon ", 10))
	bubble, _, _ := strings.Cut(say(strings.Join(words, " ")), "'--")
	var spoken []string
	for _, line := range strings.Split(bubble, "\n")[1:] {
		line = strings.TrimSpace(line)
		if len(line) > columns+len("|  |") {
			t.Errorf("line has %d columns: %s", len(line), line)
		}
		spoken = append(spoken, strings.Fields(strings.Trim(line, "|"))...)
	}
	if !slices.Equal(spoken, words) {
		t.Errorf("the cow says %q, want %q", spoken, words)
	}
}

func TestOtherRequests(t *testing.T) {
	if got := ask(t, " ", "/", "").Body.String(); !strings.Contains(got, "| Moo. |") {
		t.Errorf("without a greeting the cow says\n%s", got)
	}
	if got := ask(t, "", "/healthz", ""); got.Code != http.StatusOK {
		t.Errorf("GET /healthz: status = %d", got.Code)
	}
	if got := ask(t, "", "/barn", ""); got.Code != http.StatusNotFound {
		t.Errorf("GET /barn: status = %d", got.Code)
	}
	if err := run(t.Context(), []string{"a", "b"}, ""); err == nil ||
		!strings.Contains(err.Error(), "usage: lolcow [ADDRESS]") {
		t.Errorf("run() with two arguments: error = %v", err)
	}
}

func TestShutdownCompletesOpenRequests(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started, resume := make(chan bool), make(chan bool)
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(started)
		<-resume
		fmt.Fprint(w, "bye")
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener, slow) }()
	answered := make(chan string, 1)
	go func() {
		answer, err := http.Get("http://" + listener.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		answered <- string(body)
	}()
	<-started
	stop()
	waitClosed(t, listener.Addr().String())
	close(resume)
	if got := <-answered; got != "bye" {
		t.Errorf("answer = %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("error = %v", err)
	}
}

func TestSIGTERMExitsWithoutError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), asMain+"="+address, "GREETING=bye")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	dial(t, address).Close()
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("error = %v", err)
	}
}

func waitClosed(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		connection.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server accepts connections ten seconds after the signal")
		}
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			return connection
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func ask(t *testing.T, greeting, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.Header.Set("Accept", accept)
	answer := httptest.NewRecorder()
	handler(greeting).ServeHTTP(answer, request)
	return answer
}
