// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package limited

import (
	"bytes"
	"sync"
)

// Output keeps the beginning of what is written to it. It accepts and drops the rest, so the program that writes it
// does not block. It may be used by several goroutines.
type Output struct {
	limit int

	mutex   sync.Mutex
	content bytes.Buffer
	full    bool
}

// NewOutput returns an Output that keeps at most limit bytes.
func NewOutput(limit int) *Output { return &Output{limit: limit} }

func (o *Output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	room := o.limit - o.content.Len()
	o.full = o.full || len(p) > room
	o.content.Write(p[:min(room, len(p))])
	return len(p), nil
}

// Full reports whether more was written than is kept.
func (o *Output) Full() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.full
}

// Bytes returns a copy of what is kept.
func (o *Output) Bytes() []byte {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return bytes.Clone(o.content.Bytes())
}

func (o *Output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.content.String()
}

// Tail keeps the end of what is written to it. It may be used by several goroutines.
type Tail struct {
	limit int

	mutex   sync.Mutex
	content []byte
}

// NewTail returns a Tail that keeps at most limit bytes.
func NewTail(limit int) *Tail { return &Tail{limit: limit} }

func (t *Tail) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.content = append(t.content, p[max(0, len(p)-t.limit):]...)
	t.content = t.content[max(0, len(t.content)-t.limit):]
	return len(p), nil
}

func (t *Tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.content)
}
