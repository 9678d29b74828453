// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// source is the location of an archive.
type source interface {
	// from opens it at an offset. A *finalError means that another try is no use.
	from(ctx context.Context, offset int64) (io.ReadCloser, error)
}

// finalError ends the attempts.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// file is an archive on this machine.
type file string

func (f file) from(_ context.Context, offset int64) (io.ReadCloser, error) {
	opened, err := os.Open(string(f))
	if err != nil {
		return nil, &finalError{err}
	}
	if _, err := opened.Seek(offset, io.SeekStart); err != nil {
		opened.Close()
		return nil, &finalError{err}
	}
	return opened, nil
}

// server is an archive that an HTTP server has. Proxies are those of the environment.
type server struct {
	url  string
	pace Pace
}

func (s server) from(ctx context.Context, offset int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	arrived := s.pace.watch(ctx, cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		cancel(nil)
		return nil, &finalError{err}
	}
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", "operator-labs")
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		err = requestError(ctx, err)
		cancel(nil)
		return nil, err
	}
	body := &body{ReadCloser: response.Body, ctx: ctx, cancel: cancel, arrived: arrived}
	switch code := response.StatusCode; {
	case code == http.StatusPartialContent:
		if want := fmt.Sprintf("bytes %d-", offset); !strings.HasPrefix(response.Header.Get("Content-Range"), want) {
			err = &finalError{fmt.Errorf("the server was asked for what follows byte %d, and sends %q",
				offset, response.Header.Get("Content-Range"))}
		}
	case code == http.StatusOK: // also of a server that knows no ranges
		_, err = io.CopyN(io.Discard, body, offset)
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		err = fmt.Errorf("the server responded with %s", response.Status)
	default:
		err = &finalError{fmt.Errorf("the server responded with %s", response.Status)}
	}
	if err != nil {
		body.Close()
		return nil, err
	}
	return body, nil
}

// requestError returns the reason why a request ended.
func requestError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// body is the content that a server sends, as long as it sends enough.
type body struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	arrived *atomic.Int64 // bytes
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.arrived.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		err = requestError(b.ctx, err)
	}
	return n, err
}

func (b *body) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// Pace is how fast a download must be. The zero Pace is DefaultPace.
type Pace struct {
	// Within is the length of the interval in which Bytes must arrive. A new interval follows each one.
	Within time.Duration
	Bytes  int64
	// Attempts is how often in a row a download may break off without having received a byte, and Wait the time between
	// two attempts.
	Attempts int
	Wait     time.Duration
}

// DefaultPace ends a download that takes longer than compiling everything: 150 MB in a quarter of an hour.
var DefaultPace = Pace{Within: 30 * time.Second, Bytes: 30 * 160 << 10, Attempts: 4, Wait: 2 * time.Second}

// watch ends a download that is too slow, until its context ends. The download adds the bytes that it receives to
// arrived.
func (p Pace) watch(ctx context.Context, cancel context.CancelCauseFunc) (arrived *atomic.Int64) {
	arrived = &atomic.Int64{}
	go func() {
		ticks := time.NewTicker(p.Within)
		defer ticks.Stop()
		for before := int64(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			now := arrived.Load()
			if now-before < p.Bytes {
				cancel(&finalError{fmt.Errorf("only %d kB arrived within %s; compiling is faster", (now-before)>>10, p.Within)})
				return
			}
			before = now
		}
	}()
	return arrived
}
