// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// errCut ends a watch as if the API server had sent everything. client-go treats a dropped connection the same: it
// continues the watch from the last event. It treats an aborted stream (RST_STREAM) as a failure of the server. It then
// lists again, and waits longer each time before it does.
var errCut = io.EOF

// errBroken aborts a stream.
var errBroken = errors.New("the watch was interrupted")

// watch is the body of a watch on its way to the operator. It reads the API server's data at once and hands the data on
// in order, when it is due, like a slow network. The boundaries of events do not matter for that.
type watch struct {
	injector *Injector
	ctx      context.Context
	body     io.ReadCloser
	pieces   chan piece
	rest     []byte // of the piece that is being handed on

	ending sync.Once
	err    error // why it ended; set before ended is closed
	ended  chan struct{}
	pumped chan struct{} // closed when nothing is read any more
}

// piece is a part of the body, or its end.
type piece struct {
	data []byte
	err  error // of the end; then there is no data
	due  time.Time
	// over is closed when nothing is held back any more.
	over <-chan struct{}
}

const (
	// pieceSize is the maximum number of bytes that are read at once.
	pieceSize = 32 << 10
	// heldPieces is the maximum number of pieces that are held back. Beyond it, the API server has to wait.
	heldPieces = 1024
)

func (i *Injector) newWatch(ctx context.Context, body io.ReadCloser) *watch {
	w := &watch{
		injector: i, ctx: ctx, body: body,
		pieces: make(chan piece, heldPieces), ended: make(chan struct{}), pumped: make(chan struct{}),
	}
	i.mutex.Lock()
	i.watches[w] = true
	i.mutex.Unlock()
	go w.pump()
	return w
}

func (w *watch) pump() {
	defer close(w.pumped)
	buffer := make([]byte, pieceSize)
	for {
		n, err := w.body.Read(buffer)
		if n > 0 && !w.pass(piece{data: slices.Clone(buffer[:n])}) {
			return
		}
		if err != nil {
			w.pass(piece{err: err})
			return
		}
	}
}

// pass hands a piece to the reader. It returns false if there is no reader any more.
func (w *watch) pass(p piece) bool {
	delay, over := w.injector.delay()
	p.due, p.over = time.Now().Add(delay), over
	select {
	case w.pieces <- p:
		return true
	case <-w.ended:
		return false
	}
}

// Read implements io.Reader.
func (w *watch) Read(p []byte) (int, error) {
	if len(w.rest) == 0 {
		var p piece
		select {
		case p = <-w.pieces:
		case <-w.ended:
		case <-w.ctx.Done():
		}
		if err := w.due(p); err != nil {
			return 0, err
		}
		if p.err != nil {
			return 0, p.err
		}
		w.rest = p.data
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// due waits until a piece may be handed on. It returns an error if the watch has ended by then.
func (w *watch) due(p piece) error {
	if left := time.Until(p.due); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.over:
		case <-w.ended:
		case <-w.ctx.Done():
		}
	}
	select {
	case <-w.ended:
		return w.err
	default:
		return w.ctx.Err()
	}
}

// end ends the watch with an error. Nothing more is handed on.
func (w *watch) end(err error) {
	w.ending.Do(func() {
		w.err = err
		close(w.ended)
	})
}

// Close implements io.Closer. After it, nothing of the watch remains.
func (w *watch) Close() error {
	w.end(io.ErrClosedPipe)
	w.injector.mutex.Lock()
	delete(w.injector.watches, w)
	w.injector.mutex.Unlock()
	err := w.body.Close()
	<-w.pumped
	return err
}
