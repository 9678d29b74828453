// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// nodes answers each request for the nodes with one node.
type nodes struct {
	ready  func() bool
	failed error
}

func (n nodes) RoundTrip(*http.Request) (*http.Response, error) {
	if n.failed != nil {
		return nil, n.failed
	}
	status := map[bool]string{true: "True", false: "False"}[n.ready()]
	list := fmt.Sprintf(`{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"node"},`+
		`"status":{"conditions":[{"type":"Ready","status":%q}]}}]}`, status)
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(strings.NewReader(list)),
	}, nil
}

// TestAwaitNode checks that a node that never becomes ready is the machine's fault, so the run has no grade. A failed
// request or an interrupted check does not mean that.
func TestAwaitNode(t *testing.T) {
	t.Parallel()
	lost := errors.New("the connection is lost")
	for _, test := range []struct {
		name    string
		after   time.Duration // when the node is ready
		failed  error
		limit   time.Duration // of the check
		exists  bool
		message string
	}{
		{"it comes", 10 * time.Second, nil, time.Hour, true, ""},
		{"never", time.Hour, nil, time.Hour, false, ""},
		{"a request failed", 0, lost, time.Hour, false, "the connection is lost"},
		{"the check was ended", time.Hour, nil, 5 * time.Second, false, "waiting for a node to be ready"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				transport := nodes{func() bool { return time.Since(began) >= test.after }, test.failed}
				client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://cluster.example", Transport: transport, QPS: -1})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				exists, err := (&Owners{Client: client, nodeExpected: true}).AwaitNode(ctx)
				if exists != test.exists || (err == nil) != (test.message == "") ||
					err != nil && !strings.Contains(err.Error(), test.message) {
					t.Errorf("AwaitNode() = %t, %v", exists, err)
				}
			})
		})
	}
}
