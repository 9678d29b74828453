// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package limited

import (
	"fmt"
	"io"
)

// LongError is the error for input that is longer than a limit allows.
type LongError struct {
	// Limit is in bytes.
	Limit int64
}

func (e *LongError) Error() string {
	return fmt.Sprintf("it is longer than %d kB, and no more is read", e.Limit>>10)
}

// Reader returns a reader of at most limit bytes of another reader. If there are more, reading past the limit returns a
// *LongError, so that the limit is never mistaken for the end of the input.
func Reader(from io.Reader, limit int64) io.Reader { return &reader{from, limit, limit} }

type reader struct {
	io.Reader
	limit, left int64
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left < 0 {
		return 0, &LongError{r.limit}
	}
	// Read requests one byte past the limit, which shows whether there is more.
	n, err := r.Reader.Read(p[:min(int64(len(p)), r.left+1)])
	if r.left -= int64(n); r.left < 0 {
		return n - 1, &LongError{r.limit}
	}
	return n, err
}

// ReadAll reads all of an answer or a stream of at most limit bytes. If it is longer, ReadAll returns its beginning and
// a *LongError.
func ReadAll(from io.Reader, limit int64) ([]byte, error) { return io.ReadAll(Reader(from, limit)) }
