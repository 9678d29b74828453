// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
	"testing"
	"time"
)

// slow is a client that reads nothing until it is released.
type slow struct {
	released chan struct{}
	received bytes.Buffer
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.released
	return s.received.Write(p)
}

// A client may read more slowly than a program writes. Its output is complete even if another process that the program
// has left behind keeps the pipe open.
func TestOutputIsCompleteForASlowClient(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close() // only at the end, as a process would that was left behind
	client := &slow{released: make(chan struct{})}
	var copies sync.WaitGroup
	copies.Go(func() { copyOutput(client, read) })
	const first, rest = "first ", 50_000 // what the client does not read stays in the pipe, which holds 64 KB
	if _, err := write.WriteString(first); err != nil {
		t.Fatal(err)
	}
	want := append([]byte(first), bytes.Repeat([]byte("x"), rest)...)
	if _, err := write.Write(want[len(first):]); err != nil {
		t.Fatal(err)
	}
	idle, idleWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	defer idleWrite.Close()
	late := make(chan struct{}) // closed after the deadline of idle, and so after that of read
	copies.Go(func() {
		defer close(late)
		copyOutput(io.Discard, idle)
	})
	finished := make(chan struct{})
	go func() {
		finishOutput(t.Context(), &copies, []*os.File{read, idle}, time.Millisecond)
		close(finished)
	}()
	<-late
	close(client.released)
	<-finished
	if got := client.received.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("the client received %d bytes, want %d", len(got), len(want))
	}
}

func TestEndOfContextEndsTheWaitForAClient(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	client := &slow{released: make(chan struct{})}
	var copies sync.WaitGroup
	copies.Go(func() { copyOutput(client, read) })
	if _, err := write.WriteString("output"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	finishOutput(ctx, &copies, []*os.File{read}, time.Hour)
	close(client.released) // as the end of the connection would
	copies.Wait()          // this hangs if the pipe is still open
}
