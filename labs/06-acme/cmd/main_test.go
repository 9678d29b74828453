// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// With an error, the program would end with another exit code than 0, and the Pod would count as failed because of one
// slow client.
func TestASlowClientDoesNotMakeTheEndAFailure(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const patience = 100 * time.Millisecond
	asked := make(chan struct{})
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done() // it ends when the connection is closed
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener, slow, patience) }()
	got := make(chan error, 1)
	go func() {
		answer, err := http.Get("http://" + listener.Addr().String())
		if err == nil {
			answer.Body.Close()
		}
		got <- err
	}()
	<-asked
	began := time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the site ends with %v", err)
	}
	if took := time.Since(began); took < patience {
		t.Errorf("the last request had %s, want %s", took, patience)
	}
	if err := <-got; err == nil {
		t.Error("the client has an answer")
	}
}

// When a Pod is replaced, clients still come to the old one until all nodes have learned that it is no endpoint. Until
// then the site has to answer, and after that its last requests have endTimeout.
func TestTheSiteAnswersWhileItsEndpointIsWithdrawn(t *testing.T) {
	t.Parallel()
	hook := regexp.MustCompile(`preStop:\s+sleep:\s+seconds: (\d+)\n`)
	period := regexp.MustCompile(`terminationGracePeriodSeconds: (\d+)\n`)
	for _, name := range []string{"byhand/deployment.yaml", "certmanager/site.yaml"} {
		content, err := os.ReadFile(filepath.Join("..", "config", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		seconds := func(form *regexp.Regexp) time.Duration {
			found := form.FindSubmatch(content)
			if found == nil {
				t.Fatalf("%s has nothing of the form %s", name, form)
			}
			number, err := strconv.Atoi(string(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(number) * time.Second
		}
		const least = 3 * time.Second
		if sleep, grace := seconds(hook), seconds(period); sleep < least || grace < sleep+endTimeout {
			t.Errorf("%s: the hook sleeps for %s of %s: it must be %s at least, and leave %s",
				name, sleep, grace, least, endTimeout)
		}
	}
}
