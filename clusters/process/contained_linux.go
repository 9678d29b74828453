// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/process/supervisor"
	"lva.io/operators/clusters/thread"
)

// supervision is the owner's side of a supervisor.
type supervision struct {
	mode       supervisor.Mode
	connection *os.File
	// program is a descriptor of the program (pidfd_open(2)), or nil where the kernel has no such.
	program *os.File
	// built are the walls around it.
	built supervisor.Built
}

// startContained starts a program below a supervisor, in the strongest mode that is available here.
func (s *Scope) startContained(spec Spec) (*exec.Cmd, *supervision, error) {
	ours, theirs, err := connection()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	c := &supervision{connection: ours}
	program := supervisor.Program{
		Path: spec.Path, Args: append([]string{spec.Path}, spec.Args...), Dir: spec.Dir, Files: 3 + len(spec.Files),
	}
	if spec.Background {
		program.Nice = backgroundNiceness()
	}
	namespaces := newNamespaces()
	if spec.Walls != nil {
		if program.Walls, err = s.walls(spec); err != nil {
			return nil, nil, errors.Join(err, ours.Close())
		}
		// Outside of a user namespace, root has all capabilities, and could use them to remove walls.
		slices.Reverse(namespaces)
		for _, attributes := range namespaces {
			attributes.Cloneflags |= syscall.CLONE_NEWIPC // shared memory, semaphores and queues of the user (sysvipc(7))
		}
		if spec.Walls.OwnNetwork {
			namespaces[0].Cloneflags |= syscall.CLONE_NEWNET
			if os.Getuid() != 0 {
				namespaces[0].AmbientCaps = append(namespaces[0].AmbientCaps, unix.CAP_NET_ADMIN)
			}
		}
	}
	spec.Files = append(slices.Clip(spec.Files), theirs)
	start := func(mode supervisor.Mode, attributes *syscall.SysProcAttr) (cmd *exec.Cmd, err error) {
		cmd, c.mode = s.command(spec), mode
		if program.Walls != nil {
			program.Walls.NewNetwork = attributes.Cloneflags&syscall.CLONE_NEWNET != 0
		}
		if cmd.Path, err = executable(); err != nil {
			return nil, err
		}
		cmd.Args, cmd.Dir, cmd.SysProcAttr = program.CommandLine(mode), "/", attributes
		return cmd, thread.Run(cmd.Start)
	}
	var cmd *exec.Cmd
	err = errors.ErrUnsupported
	if !s.options.withoutNamespaces {
		for _, attributes := range namespaces {
			if cmd, err = start(supervisor.Namespace, attributes); err == nil {
				break
			}
		}
	}
	if err != nil {
		cmd, err = start(supervisor.Reaper, &syscall.SysProcAttr{Setpgid: true})
	}
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	theirs.Close() // so that we notice when the supervisor ends
	if err := c.awaitStart(spec.Path); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, nil, errors.Join(err, ours.Close())
	}
	return cmd, c, nil
}

// connection is a pair of connected sockets. Ours takes no thread while it is read.
func connection() (ours, theirs *os.File, err error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(ends[1]), "owner")
	if err := syscall.SetNonblock(ends[0], true); err != nil {
		return nil, nil, errors.Join(err, syscall.Close(ends[0]), theirs.Close())
	}
	return os.NewFile(uintptr(ends[0]), "supervisor"), theirs, nil
}

// newNamespaces returns the process attributes that can create a PID namespace. The first element is for root. Other
// users need a user namespace, too, which maps the user to itself. There, no process can trace or change a process
// outside by /proc, and the capability that mounting /proc takes is dropped before the program starts.
func newNamespaces() []*syscall.SysProcAttr {
	identity := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	attempts := []*syscall.SysProcAttr{
		{Cloneflags: syscall.CLONE_NEWPID},
		{
			Cloneflags:  syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER,
			UidMappings: identity(os.Getuid()), GidMappings: identity(os.Getgid()),
		},
	}
	if os.Getuid() != 0 {
		attempts[1].AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	for _, attributes := range attempts {
		attributes.Unshareflags, attributes.Setpgid = syscall.CLONE_NEWNS, true
		// The supervisor notices that we died, unless the program has stopped it by ptrace.
		attributes.Pdeathsig = syscall.SIGKILL
	}
	return attempts
}

// awaitStart waits until the supervisor has started the program.
func (c *supervision) awaitStart(path string) error {
	message, err := c.receive()
	switch {
	case err != nil:
		return fmt.Errorf("waiting for its supervisor: %w", err)
	case message.Kind == supervisor.Failed:
		return &fs.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(message.Value)}
	case message.Kind == supervisor.Started:
		c.built = supervisor.Built(message.Value)
	case message.Kind == supervisor.Unwalled:
		c.built = supervisor.Built(message.Value)
		return fmt.Errorf("shutting it in: this machine can't build the walls %q", c.walls())
	case message.Kind == supervisor.Unconfined:
		return fmt.Errorf("keeping it from ending its supervisor, by Landlock (at most 16 sandboxes in each other) "+
			"and seccomp: %w", syscall.Errno(message.Value))
	}
	return nil
}

// receive reads a message and the descriptor that may come with it.
func (c *supervision) receive() (supervisor.Message, error) {
	var content [supervisor.Size]byte
	rights := make([]byte, unix.CmsgSpace(4))
	raw, err := c.connection.SyscallConn()
	if err != nil {
		return supervisor.Message{}, err
	}
	var read, control int
	if waitErr := raw.Read(func(descriptor uintptr) bool {
		read, control, _, _, err = unix.Recvmsg(int(descriptor), content[:], rights, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	}); waitErr != nil {
		return supervisor.Message{}, waitErr
	}
	switch {
	case err != nil:
		return supervisor.Message{}, err
	case read < supervisor.Size:
		return supervisor.Message{}, errors.New("it ended at once")
	}
	if messages, err := unix.ParseSocketControlMessage(rights[:control]); err == nil && len(messages) == 1 {
		if descriptors, err := unix.ParseUnixRights(&messages[0]); err == nil && len(descriptors) == 1 {
			c.program = os.NewFile(uintptr(descriptors[0]), "program")
		}
	}
	return supervisor.Decode(content), nil
}

// ending returns how the program ended. The supervisor reports that before it ends itself, and supervisorEnding is how
// it ended.
func (c *supervision) ending(supervisorEnding error) error {
	defer c.connection.Close()
	defer c.program.Close()
	// The supervisor has sent everything, so this takes no time. A program that got hold of the other end could make us
	// wait for more.
	_ = c.connection.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		message, err := supervisor.Read(c.connection)
		var killed *exec.ExitError
		switch {
		case err == nil && message.Kind == supervisor.Ended:
			return statusError(message.Value)
		case err == nil:
		case errors.As(supervisorEnding, &killed):
			return supervisorEnding
		default:
			return errors.New("its supervisor ended before it")
		}
	}
}

// kill ends the program and everything that it started. The program ends at once, and does not continue until its
// supervisor has noticed.
func (c *supervision) kill(s *os.Process) {
	if raw, err := c.program.SyscallConn(); err == nil {
		_ = raw.Control(func(descriptor uintptr) { _ = unix.PidfdSendSignal(int(descriptor), unix.SIGKILL, nil, 0) })
	}
	if c.mode == supervisor.Namespace {
		_ = s.Kill()
		return
	}
	stopReaper(s)
}

// askInterval is the time after which a reaper that has not ended is asked again.
const askInterval = time.Second

// stopReaper asks a reaper to end all its descendants, until it has ended. It does not kill the reaper, because nothing
// else would end the descendants. On a busy machine that takes long. It asks again because the program may have stopped
// the reaper in the meantime.
func stopReaper(reaper *os.Process) {
	if reaper.Signal(supervisor.End) == nil && reaper.Signal(syscall.SIGCONT) == nil {
		time.AfterFunc(askInterval, func() { stopReaper(reaper) })
	}
}

// signal sends a signal to the program's process group.
func (c *supervision) signal(s *os.Process, signal syscall.Signal) { _ = s.Signal(signal) }

func (c *supervision) containment() Containment {
	if c.endsByKernel() {
		return Namespaces
	}
	return Supervised
}

// endsByKernel reports whether the kernel ends all descendants when the supervisor is killed.
func (c *supervision) endsByKernel() bool { return c.mode == supervisor.Namespace }
