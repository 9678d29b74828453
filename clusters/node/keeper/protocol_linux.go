// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/namespace"
)

// request is a JSON message, together with the descriptors that its fields refer to by index. The answer has the same
// form. The type of the request determines what follows.
type request struct {
	Ask ask
	ID  string `json:",omitempty"`

	// For start and run.
	Spec       *container.Spec `json:",omitempty"`
	Namespaces []string        `json:",omitempty"` // the kinds of the first descriptors
	Processes  string          `json:",omitempty"` // the container whose processes are shared
	Streams    [3]bool         `json:",omitzero"`  // for run: which of input, output and errors follow
	Log        string          `json:",omitempty"` // for start and reopen
	Stdin      bool            `json:",omitempty"`
	StdinOnce  bool            `json:",omitempty"`

	Signal int `json:",omitempty"`
}

type ask string

const (
	askStart  ask = "start"  // a container. The answer has its state
	askRun    ask = "run"    // a program in a container. There is one answer when it runs, and one when it has ended
	askSignal ask = "signal" // to a container's first process
	askKill   ask = "kill"   // all processes of a container
	askWait   ask = "wait"   // answered when a container has ended
	askList   ask = "list"   // all containers
	askReopen ask = "reopen" // a container's log, by its name
	askForget ask = "forget" // a container that has ended
	askAttach ask = "attach" // to a container's streams. Frames follow
	askResize ask = "resize" // a container's terminal: Signal is the rows times 65536 and the columns
)

type answer struct {
	Error string `json:",omitempty"`
	// NotStarted reports that Error is the reason why a container can't be started.
	NotStarted bool `json:",omitempty"`
	Missing    bool `json:",omitempty"`

	State  *State  `json:",omitempty"`
	States []State `json:",omitempty"`
}

// State is the state of a container.
type State struct {
	ID      string
	PID     int
	Started time.Time
	// Ended is zero while it runs. Code is its exit code, or 128 plus the number of the signal that ended it.
	Ended time.Time
	Code  int
	// OutOfMemory reports that the kernel killed it, or one of its processes, because its control group reached its memory
	// limit.
	OutOfMemory bool
}

// Running reports whether it has not ended.
func (s State) Running() bool { return s.Ended.IsZero() }

// ErrMissing reports that the keeper has no container with that name.
var ErrMissing = errors.New("no such container")

const (
	// lengthSize is the size of the number before a message.
	lengthSize = 4
	// messageLimit bounds a message. A container's arguments and environment may have 2 MB.
	messageLimit = 16 << 20
	// mostDescriptors is how many descriptors can come with a message.
	mostDescriptors = 8
)

// send writes a message.
func send(connection *net.UnixConn, message any, files ...*os.File) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	var rights []byte
	if len(files) > 0 {
		descriptors := make([]int, len(files))
		for i, file := range files {
			descriptors[i] = int(file.Fd())
		}
		rights = unix.UnixRights(descriptors...)
	}
	// The descriptors are sent with the first bytes, whatever the length is.
	if _, _, err := connection.WriteMsgUnix(framed, rights, nil); err != nil {
		return err
	}
	_, err = connection.Write(text)
	return err
}

// read reads a message.
func read(connection *net.UnixConn, message any) ([]*os.File, error) {
	length, rights := make([]byte, lengthSize), make([]byte, unix.CmsgSpace(4*mostDescriptors))
	n, control, _, _, err := connection.ReadMsgUnix(length, rights)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	files, err := namespace.Descriptors(rights[:control])
	if err != nil {
		return nil, err
	}
	if n < lengthSize {
		_, err = io.ReadFull(connection, length[n:])
	}
	size := binary.BigEndian.Uint32(length)
	if err == nil && size > messageLimit {
		err = fmt.Errorf("a message of %d bytes is too long", size)
	}
	if err == nil {
		text := make([]byte, size)
		if _, err = io.ReadFull(connection, text); err == nil {
			err = json.Unmarshal(text, message)
		}
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// frame is the kind of a piece of a stream. A piece consists of its kind, its length and its bytes.
type frame byte

const (
	frameIn     frame = iota // to the container
	frameInEnd               // end of the input
	frameOut                 // from the container
	frameErrors              // from the container
)

const frameHead = 5

func writeFrame(w io.Writer, kind frame, content []byte) error {
	head := make([]byte, frameHead, frameHead+len(content))
	head[0] = byte(kind)
	binary.BigEndian.PutUint32(head[1:], uint32(len(content)))
	_, err := w.Write(append(head, content...))
	return err
}

func readFrame(r io.Reader) (frame, []byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > messageLimit {
		return 0, nil, fmt.Errorf("a piece of %d bytes is too long", size)
	}
	content := make([]byte, size)
	_, err := io.ReadFull(r, content)
	return frame(head[0]), content, err
}
