// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
)

// Client sends requests to a keeper at its socket. All methods are safe for concurrent use.
type Client struct {
	// Socket is the path of the keeper's socket.
	Socket string
}

// Start describes a container to start.
type Start struct {
	ID   string
	Spec container.Spec
	// Namespaces are the namespaces that it shares, by kind.
	Namespaces map[string]*os.File
	// Processes is the name of a container whose PID namespace it shares.
	Processes string
	// Log is its log file. Default: there is no log.
	Log string
	// Stdin lets attached clients write to its standard input. StdinOnce closes that when the first client closes it.
	Stdin, StdinOnce bool
}

// dial opens a connection that is closed when the context ends.
func (c *Client) dial(ctx context.Context) (*net.UnixConn, func(), error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return nil, nil, fmt.Errorf("sending a request to the keeper: %w", err)
	}
	socket, ok := connection.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.Join(errors.New("sending a request to the keeper: not a Unix socket"), connection.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	return socket, func() {
		stop()
		socket.Close()
	}, nil
}

func (c *Client) ask(ctx context.Context, r request, files ...*os.File) (answer, error) {
	connection, done, err := c.dial(ctx)
	if err != nil {
		return answer{}, err
	}
	defer done()
	if err := send(connection, r, files...); err != nil {
		return answer{}, cause(ctx, err)
	}
	return readAnswer(ctx, connection)
}

// readAnswer reads an answer.
func readAnswer(ctx context.Context, connection *net.UnixConn) (answer, error) {
	var a answer
	if _, err := read(connection, &a); err != nil {
		return a, cause(ctx, err)
	}
	switch {
	case a.Missing:
		return a, ErrMissing
	case a.NotStarted:
		return a, &container.StartError{Message: a.Error}
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("sending a request to the keeper: %w", err)
}

// Start starts a container. The error is a *container.StartError if the program can't be started.
func (c *Client) Start(ctx context.Context, s Start) (State, error) {
	r := request{
		Ask: askStart, ID: s.ID, Spec: &s.Spec, Processes: s.Processes, Log: s.Log, Stdin: s.Stdin, StdinOnce: s.StdinOnce,
		Namespaces: slices.Sorted(maps.Keys(s.Namespaces)),
	}
	var files []*os.File
	for _, kind := range r.Namespaces {
		files = append(files, s.Namespaces[kind])
	}
	a, err := c.ask(ctx, r, files...)
	return stateOf(a), err
}

func stateOf(a answer) State {
	if a.State == nil {
		return State{}
	}
	return *a.State
}

// List returns all containers that the keeper has.
func (c *Client) List(ctx context.Context) ([]State, error) {
	a, err := c.ask(ctx, request{Ask: askList})
	return a.States, err
}

// Signal sends a signal to a container's first process.
func (c *Client) Signal(ctx context.Context, id string, signal unix.Signal) error {
	_, err := c.ask(ctx, request{Ask: askSignal, ID: id, Signal: int(signal)})
	return err
}

// Kill kills a container. It does not wait.
func (c *Client) Kill(ctx context.Context, id string) error {
	_, err := c.ask(ctx, request{Ask: askKill, ID: id})
	return err
}

// Wait returns when a container has ended.
func (c *Client) Wait(ctx context.Context, id string) (State, error) {
	a, err := c.ask(ctx, request{Ask: askWait, ID: id})
	return stateOf(a), err
}

// Reopen continues a container's log in a new file.
func (c *Client) Reopen(ctx context.Context, id, log string) error {
	_, err := c.ask(ctx, request{Ask: askReopen, ID: id, Log: log})
	return err
}

// Resize sets the size of a container's terminal.
func (c *Client) Resize(ctx context.Context, id string, rows, columns uint16) error {
	_, err := c.ask(ctx, request{Ask: askResize, ID: id, Signal: Size(rows, columns)})
	return err
}

// Forget drops the record of a container that has ended.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.ask(ctx, request{Ask: askForget, ID: id})
	return err
}

// Run runs a program in a container until it ends, and returns its exit code. When the context ends, the program is
// killed with all processes that it started.
func (c *Client) Run(ctx context.Context, id string, spec container.Spec, streams container.Streams) (int, error) {
	connection, done, err := c.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	r := request{Ask: askRun, ID: id, Spec: &spec}
	var files []*os.File
	for i, file := range []*os.File{streams.In, streams.Out, streams.Err} {
		if file != nil {
			r.Streams[i], files = true, append(files, file)
		}
	}
	if err := send(connection, r, files...); err != nil {
		return 0, cause(ctx, err)
	}
	if _, err := readAnswer(ctx, connection); err != nil {
		return 0, err
	}
	closeStreams(streams) // the program has its own, and readers must see its end
	a, err := readAnswer(ctx, connection)
	return stateOf(a).Code, err
}

// Attach connects to the standard streams of a container, until the container or the context ends. A nil stream is not
// connected.
func (c *Client) Attach(ctx context.Context, id string, in io.Reader, out, errs io.Writer) error {
	connection, done, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := send(connection, request{Ask: askAttach, ID: id}); err != nil {
		return cause(ctx, err)
	}
	if _, err := readAnswer(ctx, connection); err != nil {
		return err
	}
	if in != nil {
		go func() {
			const piece = 32 << 10
			buffer := make([]byte, piece)
			for {
				n, err := in.Read(buffer)
				if n > 0 && writeFrame(connection, frameIn, buffer[:n]) != nil {
					return
				}
				if err != nil {
					_ = writeFrame(connection, frameInEnd, nil) // the container may have ended
					return
				}
			}
		}()
	}
	for {
		kind, content, err := readFrame(connection)
		if err != nil {
			return nil // the container has ended, or the client has closed its end
		}
		to := out
		if kind == frameErrors {
			to = errs
		}
		if to != nil {
			if _, err := to.Write(content); err != nil {
				return nil // the client has closed its end
			}
		}
	}
}
