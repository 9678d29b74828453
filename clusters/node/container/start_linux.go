// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// Name is the name of a container's first process until it executes the program.
const Name = "operator-labs-container"

// Main finds these descriptors in addition to the standard streams: the Spec, and the pipe for the error if the program
// can't be started.
const (
	specDescriptor   = 3
	statusDescriptor = 4
	// processDescriptor refers to the process whose container it enters. The PID would mean another process there.
	processDescriptor = 5
)

// Streams are a program's standard streams. A nil stream is /dev/null.
type Streams struct{ In, Out, Err *os.File }

// Joined are the Pod's namespaces, by kind: "net", "ipc", "uts". For a missing kind, the node's namespace is used.
// Processes, if not nil, is a descriptor of a process (pidfd_open(2)) whose PID namespace is shared.
type Joined struct {
	Namespaces map[string]*os.File
	Processes  *os.File
}

// StartError reports that the program could not be started, with a message for its user: "/app: no such file or
// directory".
type StartError struct{ Message string }

func (e *StartError) Error() string { return e.Message }

// Starting is a container whose first process exists, but has not yet executed its program.
type Starting struct {
	Process *os.Process

	text   []byte
	spec   *os.File
	status *os.File
}

// Fork creates the first process of a container, as a child of ours. The caller must call Await next, and must wait for
// the process.
func Fork(spec Spec, joined Joined, streams Streams) (*Starting, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	specRead, specWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer specRead.Close()
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, specWrite.Close())
	}
	defer statusWrite.Close()
	cmd := command(spec, streams, specRead, statusWrite)
	if spec.Enter {
		cmd.ExtraFiles = append(cmd.ExtraFiles, joined.Processes)
	}
	if err := namespace.OnThread(func() error { return fork(cmd, joined) }); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a container: %w", err), specWrite.Close(), statusRead.Close())
	}
	return &Starting{Process: cmd.Process, text: text, spec: specWrite, status: statusRead}, nil
}

// Await returns when the process has executed the program. If it can't, the error is a *StartError, and the process
// ends.
func (s *Starting) Await() error {
	defer s.status.Close()
	_, err := s.spec.Write(s.text)
	s.spec.Close()
	message, readErr := io.ReadAll(s.status) // empty, once the process has become the program
	if len(message) > 0 {
		return &StartError{string(message)}
	}
	if err = errors.Join(err, readErr); err != nil {
		return fmt.Errorf("starting a container: %w", err)
	}
	return nil
}

// Start starts a program in a container and returns when the program runs.
func Start(spec Spec, joined Joined, streams Streams) (*os.Process, error) {
	starting, err := Fork(spec, joined, streams)
	if err != nil {
		return nil, err
	}
	if err := starting.Await(); err != nil {
		_ = starting.Process.Kill()
		_, _ = starting.Process.Wait()
		return nil, err
	}
	return starting.Process, nil
}

func command(spec Spec, streams Streams, specRead, statusWrite *os.File) *exec.Cmd {
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{Name}, Env: []string{"GOMAXPROCS=1"},
		ExtraFiles: []*os.File{specRead, statusWrite},
	}
	for _, stream := range []struct {
		file *os.File
		set  func(*os.File)
	}{
		{streams.In, func(f *os.File) { cmd.Stdin = f }},
		{streams.Out, func(f *os.File) { cmd.Stdout = f }},
		{streams.Err, func(f *os.File) { cmd.Stderr = f }},
	} {
		if stream.file != nil {
			stream.set(stream.file)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: spec.Terminal}
	if spec.Enter {
		return cmd
	}
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
	if !spec.NodeProcesses {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID
	}
	if spec.User != 0 && namespace.SingleID() {
		setUser(cmd.SysProcAttr, spec)
	}
	return cmd
}

// setUser sets the user and the group of a program that does not run as root, where there is only one ID: a new user
// namespace maps that ID to them. Until the program begins, the process needs root's capabilities in it.
func setUser(attributes *syscall.SysProcAttr, spec Spec) {
	attributes.Cloneflags |= unix.CLONE_NEWUSER
	attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: spec.User, HostID: 0, Size: 1}}
	attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: spec.Group, HostID: 0, Size: 1}}
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		attributes.AmbientCaps = append(attributes.AmbientCaps, capability)
	}
}

// fork starts the process. This thread enters the shared namespaces first, so that the child inherits them.
func fork(cmd *exec.Cmd, joined Joined) error {
	for kind, file := range joined.Namespaces {
		if err := namespace.Join(file, kind); err != nil {
			return err
		}
	}
	if joined.Processes != nil {
		// A process can't join a PID namespace itself. Only its children become members (pid_namespaces(7)).
		if err := unix.Setns(int(joined.Processes.Fd()), unix.CLONE_NEWPID); err != nil {
			return fmt.Errorf("entering the PID namespace of a container: %w", err)
		}
		cmd.SysProcAttr.Cloneflags &^= unix.CLONE_NEWPID
	}
	return cmd.Start()
}
