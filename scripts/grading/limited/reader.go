// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package limited

import (
	"fmt"
	"io"
)

// LongError says that what is read is longer than a limit allows.
type LongError struct {
	// Limit is in bytes.
	Limit int64
}

func (e *LongError) Error() string {
	return fmt.Sprintf("it is longer than %d kB, and no more is read", e.Limit>>10)
}

// Reader reads from another reader, at most so many bytes. If there are more, the read past the limit is a *LongError:
// the end of what is allowed never looks like the end of it all.
func Reader(from io.Reader, limit int64) io.Reader { return &reader{from, limit, limit} }

type reader struct {
	io.Reader
	limit, left int64
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left < 0 {
		return 0, &LongError{r.limit}
	}
	// One byte past the limit is asked for, which says whether there is more.
	n, err := r.Reader.Read(p[:min(int64(len(p)), r.left+1)])
	if r.left -= int64(n); r.left < 0 {
		return n - 1, &LongError{r.limit}
	}
	return n, err
}

// ReadAll reads all of an answer or a stream of at most so many bytes. A longer one is a *LongError, and what was read
// is its beginning.
func ReadAll(from io.Reader, limit int64) ([]byte, error) { return io.ReadAll(Reader(from, limit)) }
