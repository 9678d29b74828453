// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestClientOpensConnectionPerRequest(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"serve", address}, nil) }()
	var out bytes.Buffer
	for deadline := time.Now().Add(10 * time.Second); ; {
		out.Reset()
		if err = run(ctx, []string{"get", "-n", "2", "http://" + address}, &out); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], name+" answers 127.0.0.1:") || lines[0] == lines[1] {
		t.Errorf("answers to two requests = %q", lines)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("error of the server = %v", err)
	}
	if err := run(t.Context(), []string{"get", "-t", "1s", "http://" + address}, &out); err == nil ||
		!strings.Contains(err.Error(), "1 of 1 requests got no answer") {
		t.Errorf("get without a server: error = %v", err)
	}
}

func TestWrongArgumentsPrintUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"get"}, {"resolve"}, {"dance"}} {
		if err := run(t.Context(), args, nil); err == nil || err.Error() != usage {
			t.Errorf("probe %q: error = %v", args, err)
		}
	}
}
