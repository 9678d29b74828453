// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/keeper"
)

// program is a program to run in a running container.
type program struct {
	args     []string
	in       io.Reader
	out, err io.Writer
	terminal bool
	resize   <-chan remotecommand.TerminalSize
}

// run runs a program in a container, and returns its exit code.
func (s *Server) run(ctx context.Context, id string, p program) (int, error) {
	c, err := s.container(id)
	if err != nil {
		return 0, err
	}
	if !c.running() {
		return 0, status.Error(codes.FailedPrecondition, "the container is not running")
	}
	b, err := s.sandbox(c.Sandbox)
	if err != nil {
		return 0, err
	}
	spec, err := s.process(b, c)
	if err != nil {
		return 0, err
	}
	spec.Args, spec.Terminal = p.args, p.terminal
	if p.terminal {
		spec.Env = append(spec.Env, "TERM=xterm")
		return s.runTerminal(ctx, c.ID, spec, p)
	}
	return s.runPipes(ctx, c.ID, spec, p)
}

// lateOutput is how long we wait for output after a program has ended, if other processes that it has left behind hold
// its output open.
const lateOutput = time.Second

// copyOutput copies a pipe until no process has its other end open any more. After the deadline that finishOutput sets,
// it copies only what the pipe holds.
func copyOutput(to io.Writer, from *os.File) {
	_, err := io.Copy(to, from) // the client may have disconnected
	if !errors.Is(err, os.ErrDeadlineExceeded) || from.SetReadDeadline(time.Time{}) != nil {
		return
	}
	const bytesToRead = unix.TIOCINQ // FIONREAD of ioctl(2)
	if held, err := unix.IoctlGetInt(int(from.Fd()), bytesToRead); err == nil {
		_, _ = io.CopyN(to, from, int64(held))
	}
}

// finishOutput waits until the output of a program that has ended is copied, however slowly the client reads it, or
// until the context ends. It drops what processes that the program has left behind write later than late.
func finishOutput(ctx context.Context, copies *sync.WaitGroup, outputs []*os.File, late time.Duration) {
	timer := time.AfterFunc(late, func() {
		for _, output := range outputs {
			_ = output.SetReadDeadline(time.Now()) // it may be closed
		}
	})
	defer timer.Stop()
	copied := make(chan struct{})
	go func() {
		copies.Wait()
		close(copied)
	}()
	select {
	case <-copied:
	case <-ctx.Done():
		for _, output := range outputs {
			output.Close() // a copy that waits for the client ends when the caller closes the connection
		}
	}
}

func (s *Server) runPipes(ctx context.Context, id string, spec container.Spec, p program) (int, error) {
	var streams container.Streams
	var copies sync.WaitGroup
	var ours, outputs []*os.File
	defer func() {
		for _, file := range ours {
			file.Close()
		}
	}()
	for _, stream := range []struct {
		to     io.Writer
		theirs **os.File
	}{{p.out, &streams.Out}, {p.err, &streams.Err}} {
		if stream.to == nil {
			continue
		}
		read, write, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		*stream.theirs, ours, outputs = write, append(ours, read, write), append(outputs, read)
		copies.Go(func() { copyOutput(stream.to, read) })
	}
	if p.in != nil {
		read, write, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		streams.In, ours = read, append(ours, read, write)
		go func() {
			_, _ = io.Copy(write, p.in) // the program may not read all of it
			write.Close()
		}()
	}
	code, err := s.Keeper.Run(ctx, id, spec, streams)
	if err != nil {
		return code, err
	}
	finishOutput(ctx, &copies, outputs, lateOutput)
	return code, nil
}

func (s *Server) runTerminal(ctx context.Context, id string, spec container.Spec, p program) (int, error) {
	ours, theirs, err := keeper.OpenTerminal()
	if err != nil {
		return 0, err
	}
	defer ours.Close()
	go func() {
		for size := range p.resize {
			_ = keeper.Resize(ours, size.Height, size.Width) // the program may have ended
		}
	}()
	if p.in != nil {
		go func() { _, _ = io.Copy(ours, p.in) }()
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if p.out != nil {
			_, _ = io.Copy(p.out, ours) // ends with an error when no process has the other end
		}
	}()
	code, err := s.Keeper.Run(ctx, id, spec, container.Streams{In: theirs, Out: theirs, Err: theirs})
	if err != nil {
		theirs.Close()
		return code, err
	}
	select {
	case <-copied:
	case <-time.After(lateOutput):
	}
	return code, nil
}

// outputLimit is how much of the output of a probe is kept. The kubelet reads 10 KB.
const outputLimit = 1 << 20

// limited keeps the beginning of the data that is written to it.
type limited struct {
	mutex sync.Mutex
	kept  bytes.Buffer
}

func (l *limited) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if room := outputLimit - l.kept.Len(); room > 0 {
		l.kept.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (l *limited) bytes() []byte {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return bytes.Clone(l.kept.Bytes())
}

// ExecSync runs a program, such as a probe or a hook, until it ends.
func (s *Server) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Timeout)*time.Second)
		defer cancel()
	}
	var out, errs limited
	code, err := s.run(ctx, r.ContainerId, program{args: r.Cmd, out: &out, err: &errs})
	var notStarted *container.StartError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, status.Errorf(codes.DeadlineExceeded,
			"the command %q did not end within %d seconds", strings.Join(r.Cmd, " "), r.Timeout)
	case errors.As(err, &notStarted):
		return &runtimeapi.ExecSyncResponse{Stderr: []byte(notStarted.Message), ExitCode: int32(startCode(err))}, nil
	case err != nil:
		return nil, err
	}
	return &runtimeapi.ExecSyncResponse{Stdout: out.bytes(), Stderr: errs.bytes(), ExitCode: int32(code)}, nil
}

// Exec returns the URL at which a program can be run with streams.
func (s *Server) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if c, err := s.container(r.ContainerId); err != nil {
		return nil, err
	} else if !c.running() {
		return nil, status.Error(codes.FailedPrecondition, "the container is not running")
	}
	return s.stream.GetExec(r)
}

// Attach returns the URL at which a client can attach to a container.
func (s *Server) Attach(_ context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if c, err := s.container(r.ContainerId); err != nil {
		return nil, err
	} else if !c.running() {
		return nil, status.Error(codes.FailedPrecondition, "the container is not running")
	}
	return s.stream.GetAttach(r)
}

// PortForward returns the URL at which a client can connect to a Pod.
func (s *Server) PortForward(
	_ context.Context, r *runtimeapi.PortForwardRequest,
) (*runtimeapi.PortForwardResponse, error) {
	if _, err := s.sandbox(r.PodSandboxId); err != nil {
		return nil, err
	}
	return s.stream.GetPortForward(r)
}

// streamer implements the streams of exec, attach and port-forward.
type streamer struct{ s *Server }

// plain converts a nil WriteCloser to a nil Writer.
func plain(w io.WriteCloser) io.Writer {
	if w == nil {
		return nil
	}
	return w
}

// Exec runs a program. A non-zero exit code is returned as the error.
func (r streamer) Exec(ctx context.Context, id string, args []string, in io.Reader, out, errs io.WriteCloser,
	terminal bool, resize <-chan remotecommand.TerminalSize,
) error {
	code, err := r.s.run(ctx, id, program{
		args:     args,
		in:       in,
		out:      plain(out),
		err:      plain(errs),
		terminal: terminal,
		resize:   resize,
	})
	if notStarted, ok := errors.AsType[*container.StartError](err); ok {
		code = startCode(err)
		if errs == nil {
			errs = out // a terminal has one stream
		}
		if errs != nil {
			fmt.Fprintln(errs, notStarted.Message)
		}
		return utilexec.CodeExitError{Err: fmt.Errorf("%w", err), Code: code}
	}
	if err == nil && code != 0 {
		err = utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
	}
	return err
}

// Attach connects to the standard streams of a container.
func (r streamer) Attach(ctx context.Context, id string, in io.Reader, out, errs io.WriteCloser,
	terminal bool, resize <-chan remotecommand.TerminalSize,
) error {
	c, err := r.s.container(id)
	if err != nil {
		return err
	}
	if terminal {
		go func() {
			for size := range resize {
				_ = r.s.Keeper.Resize(ctx, c.ID, size.Height, size.Width) // the container may have ended
			}
		}()
	}
	return r.s.Keeper.Attach(ctx, c.ID, in, plain(out), plain(errs))
}

// connectTimeout is how long a program in a Pod may take to accept a connection.
const connectTimeout = 10 * time.Second

// PortForward connects to a port of a Pod, at the address at which the Pod's own containers would connect.
func (r streamer) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	b, err := r.s.sandbox(id)
	if err != nil {
		return err
	}
	var connection net.Conn
	dial := func() (err error) {
		dialer := net.Dialer{Timeout: connectTimeout}
		for _, host := range []string{"127.0.0.1", "::1"} {
			if connection, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port)))); err == nil {
				return nil
			}
		}
		return err
	}
	if b.hostNetwork() {
		err = dial()
	} else {
		err = r.s.namespaces(b).Do(dial, "net")
	}
	if err != nil {
		return fmt.Errorf("no server answers at port %d of the Pod: %w", port, err)
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream) // the Pod may close its end first
		if half, ok := connection.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, connection)
	return err
}
