// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package audit reads the API server's audit log while it grows, and finds requests in it by user, resource and
// answer. The grader takes its evidence from this log, and decides by it whether an operator is idle. The package
// does not judge requests.
package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"lva.io/operators/scripts/grading/limited"
)

// readInterval is how often the log is read. The server logs a request before it answers it, so the next read finds
// every request whose answer a client has seen.
const readInterval = 10 * time.Millisecond

// logLimit is how long a log may become, in bytes. A run that floods the API server for minutes writes about 100 MB,
// and all of its events are in memory.
const logLimit = 1 << 30

// Log is an audit log that is still growing. All methods are safe for concurrent use.
type Log struct {
	file    *os.File
	content io.Reader // of the file, up to a limit

	mutex   sync.Mutex
	rest    []byte // the beginning of a line whose end is not written yet
	events  []Event
	sizes   map[string]int64 // of what is logged, in bytes, by user
	changed chan struct{}    // closed and replaced when events arrive
	err     error

	accounts accounts

	mark func(ctx context.Context, path string) error // of a delayed log, and otherwise nil
	ctx  context.Context
}

// Open opens a log, and reads it until the context ends. If the log becomes larger than 1 GiB, no more of it is read,
// and Err returns a *limited.LongError.
func Open(ctx context.Context, path string) (*Log, error) { return open(ctx, path, logLimit) }

func open(ctx context.Context, path string, limit int64) (*Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	l := &Log{
		file: file, content: limited.Reader(file, limit), accounts: accounts{creators: map[string][]string{}},
		sizes: map[string]int64{}, changed: make(chan struct{}), ctx: ctx,
	}
	go l.follow(ctx)
	return l, nil
}

// SetDelayed declares that the log is a copy, which is written a moment after the API server has written the
// original. Methods that return what is logged then wait until the copy has caught up. mark must request a path from
// the API server, which the server then logs. It must not return an error if nothing exists at the path. Call
// SetDelayed before the log is read for the first time.
func (l *Log) SetDelayed(mark func(ctx context.Context, path string) error) { l.mark = mark }

// MarkPath is the prefix of the paths that are requested from the API server if the log is delayed.
const MarkPath = "/operator-labs/mark/"

// markPatience is how long the copy may lag behind.
const markPatience = 5 * time.Second

// catchUp waits until the copy contains everything that was logged before the call.
func (l *Log) catchUp() {
	if l.mark == nil || l.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(l.ctx, markPatience,
		fmt.Errorf("the copy of the audit log is more than %s late", markPatience))
	defer cancel()
	path := MarkPath + rand.Text()
	err := l.mark(ctx, path)
	for err == nil {
		changed := l.Changed()
		if !l.last(func(e Event) bool { return strings.HasPrefix(e.URL, path) }).IsZero() {
			return
		}
		select {
		case <-changed:
			err = l.Err()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.err == nil && l.ctx.Err() == nil {
		l.err = fmt.Errorf("reading the audit log: %w", err)
	}
}

func (l *Log) follow(ctx context.Context) {
	defer l.file.Close()
	ticker := time.NewTicker(readInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.read()
		}
	}
}

// read reads what was written since the last call.
func (l *Log) read() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.err != nil {
		return
	}
	more, err := io.ReadAll(l.content)
	if errors.Is(err, os.ErrClosed) || err == nil && len(more) == 0 {
		return // closed: the run is over
	}
	// This also happens if the log can't be read, because a waiting reader must learn of the error.
	defer func() {
		close(l.changed)
		l.changed = make(chan struct{})
	}()
	lines := bytes.Split(append(l.rest, more...), []byte("\n"))
	l.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			l.err = fmt.Errorf("reading the audit log: a line is not an audit event: %w", err)
			return
		}
		read := newEvent(&event)
		l.events = append(l.events, read)
		l.sizes[read.User] += int64(len(line))
		l.accounts.add(read)
	}
	if err != nil {
		l.err = fmt.Errorf("reading the audit log: %w", err)
	}
}

// Mark is a position in the log: its end when Now was called.
type Mark int

// Now returns the log's present end.
func (l *Log) Now() Mark {
	l.catchUp()
	l.read()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return Mark(len(l.events))
}

// Since returns the events logged after the mark for which match is true.
func (l *Log) Since(mark Mark, match Match) []Event {
	l.catchUp()
	l.read()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var events []Event
	for _, event := range l.events[min(int(mark), len(l.events)):] {
		if match(event) {
			events = append(events, event)
		}
	}
	return events
}

// Changed returns a channel that is closed when the log has grown, or when it can't be read any longer.
func (l *Log) Changed() <-chan struct{} {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.changed
}

// Err returns the error that keeps the log from being read.
func (l *Log) Err() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.err
}

// Last returns the time of the newest event for which match is true, or the zero time if there is none. It does not
// wait for a delayed log.
func (l *Log) Last(match Match) time.Time { return l.last(match) }

func (l *Log) last(match Match) time.Time {
	l.read()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, v := range slices.Backward(l.events) {
		if match(v) {
			return v.Time
		}
	}
	return time.Time{}
}

// Quiet waits until nothing that matches has been logged for the length of the window, counted from now.
func (l *Log) Quiet(ctx context.Context, window time.Duration, match Match) error {
	since := time.Now()
	for {
		if last := l.Last(match); last.After(since) {
			since = last
		}
		left := time.Until(since.Add(window))
		if left <= 0 {
			if l.catchUp(); !l.Last(match).After(since) {
				return l.Err()
			}
			continue // a request was logged, but the copy did not have it yet
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s without a request: %w", window, context.Cause(ctx))
		}
	}
}
