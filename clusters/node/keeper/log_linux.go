// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// containerLog writes the output of a container in the format that the kubelet reads
// (https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation and KEP 2008): each line is
//
//	TIME stdout|stderr F|P TEXT
//
// F ends a line of the program, and P is a part of a long one. Attached clients get the output at the same time.
//
// Every few seconds, the kubelet checks whether a file is too long, and starts a new one. A program that writes more
// than the limit of a file in the meantime has to wait.
type containerLog struct {
	// ended is closed when the container has ended. After that, the remaining output is written without delay.
	ended <-chan struct{}

	mutex       sync.Mutex
	file        *os.File // nil: there is no log
	length      int      // of the file, in bytes
	renewed     chan struct{}
	lost        int // lines since the last one that could be written
	subscribers map[*subscriber]struct{}
}

const (
	// longest is the approximate limit of a file, in bytes. The kubelet keeps three of them (containerLogMaxFiles).
	longest = 128 << 20
	// renewal is how long a program waits for the kubelet. If the kubelet does not answer, it must not block programs, so
	// the file grows.
	renewal = 15 * time.Second
)

// subscriber receives what a container writes while a client is attached to it.
type subscriber struct {
	write func(kind frame, content []byte) error
}

// lineLimit is how much of a line is written in one piece. The kubelet's reader expects no more.
const lineLimit = 16 << 10

func newLog(path string, ended <-chan struct{}) (*containerLog, error) {
	l := &containerLog{ended: ended, renewed: make(chan struct{}), subscribers: map[*subscriber]struct{}{}}
	if path == "" {
		return l, nil
	}
	return l, l.reopen(path)
}

// reopen continues the log in a new file, after the kubelet has renamed the old one.
func (l *containerLog) reopen(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the folder of a log: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	old := l.file
	l.file, l.length = file, 0
	close(l.renewed)
	l.renewed = make(chan struct{})
	if old != nil {
		return old.Close()
	}
	return nil
}

func (l *containerLog) close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	clear(l.subscribers)
}

func (l *containerLog) subscribe(s *subscriber) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.subscribers[s] = struct{}{}
}

func (l *containerLog) unsubscribe(s *subscriber) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.subscribers, s)
}

// copy copies a stream until its end. Attached clients get each piece as it comes: a prompt has no end of line. The log
// gets all available lines at once, so that a program with much output does not wait for the disk at every line.
func (l *containerLog) copy(name string, kind frame, stream io.Reader) {
	const buffer = 64 << 10
	reader := bufio.NewReaderSize(io.TeeReader(stream, publisher{l, kind}), buffer)
	var text bytes.Buffer
	for {
		l.awaitRoom()
		if _, err := reader.Peek(1); err != nil { // waits
			return
		}
		now := time.Now().UTC().Format(time.RFC3339Nano)
		piece, _ := reader.Peek(reader.Buffered())
		end := bytes.LastIndexByte(piece, '\n') + 1
		if end == 0 && len(piece) < lineLimit {
			// An incomplete line is written when it is complete, if the buffer has room.
			line, err := reader.ReadSlice('\n')
			l.writeLines(name, now, line, &text)
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
			continue
		}
		if end == 0 {
			end = len(piece)
		}
		l.writeLines(name, now, piece[:end], &text)
		_, _ = reader.Discard(end) // it is already buffered
	}
}

// publisher passes a stream on to attached clients.
type publisher struct {
	log  *containerLog
	kind frame
}

func (p publisher) Write(content []byte) (int, error) {
	p.log.publish(p.kind, content)
	return len(content), nil
}

// awaitRoom waits until the file has room.
func (l *containerLog) awaitRoom() {
	l.mutex.Lock()
	full, renewed := l.length >= longest, l.renewed
	l.mutex.Unlock()
	if !full {
		return
	}
	select {
	case <-renewed:
	case <-l.ended:
	case <-time.After(renewal):
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if l.renewed == renewed {
			l.length = 0
		}
	}
}

// writeLines writes lines to the file.
func (l *containerLog) writeLines(name, now string, lines []byte, text *bytes.Buffer) {
	text.Reset()
	count := 0
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		tag, part, rest := "F", lines, []byte(nil)
		switch {
		case end >= 0 && end <= lineLimit:
			part, rest = lines[:end], lines[end+1:]
		case len(lines) > lineLimit:
			tag, part, rest = "P", lines[:lineLimit], lines[lineLimit:]
		default:
			tag = "P"
		}
		count++
		fmt.Fprintf(text, "%s %s %s %s\n", now, name, tag, part)
		lines = rest
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.file == nil {
		return
	}
	if l.lost > 0 {
		notice := fmt.Sprintf("%s stderr F (%d lines are missing: the disk was full)\n", now, l.lost)
		if _, err := io.WriteString(l.file, notice); err != nil {
			l.lost += count
			return
		}
		l.lost = 0
	}
	// A full disk must not stop the program. The program continues, and its log has a gap.
	written, err := l.file.Write(text.Bytes())
	l.length += written
	if err != nil {
		l.lost += count
	}
}

func (l *containerLog) publish(kind frame, content []byte) {
	l.mutex.Lock()
	var all []*subscriber
	for s := range l.subscribers {
		all = append(all, s)
	}
	l.mutex.Unlock()
	for _, s := range all {
		if s.write(kind, content) != nil {
			l.unsubscribe(s)
		}
	}
}
