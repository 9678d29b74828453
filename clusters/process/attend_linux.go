// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/process/pid"
	"lva.io/operators/clusters/thread"
)

// Attend runs a program with our input, output and environment, and then looks for processes that the program or a
// descendant has started and that still run. left names those that have not ended within the patience, and which Attend
// therefore kills. The program gets a session of its own, and is killed when we die or the context ends. status is its
// exit code, or 128 and the number of the signal that ended it. Attend becomes the parent of all orphans below us and
// waits for every child, so the caller must do nothing else with processes.
func Attend(
	ctx context.Context, path string, args []string, patience time.Duration,
) (status int, left string, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, "", err
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := thread.Run(cmd.Start); err != nil {
		return 0, "", err
	}
	group, _ := openGroup(cmd.Process.Pid) // it exists, since no process has waited for it
	defer group.Close()
	stop := context.AfterFunc(ctx, func() { group.SignalGroup(unix.SIGKILL) })
	defer stop()
	for {
		var ended unix.WaitStatus
		number, err := unix.Wait4(-1, &ended, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, "", os.NewSyscallError("wait4", err)
		}
		if number == cmd.Process.Pid {
			if status = ended.ExitStatus(); ended.Signaled() {
				status = 128 + int(ended.Signal())
			}
			break
		}
	}
	for began := time.Now(); reapChildren(); time.Sleep(attendPoll) { //nolint:forbidigo // no one call waits for a child and for a time
		if time.Since(began) < patience {
			continue
		}
		if left == "" {
			left = namesBelow(os.Getpid())
		}
		if time.Since(began) > patience+killPatience {
			return status, strings.TrimSpace(left),
				fmt.Errorf("processes that were killed %s ago have not ended, and keep running", killPatience)
		}
		for _, below := range pid.Below(os.Getpid()) {
			below.Signal(unix.SIGKILL)
		}
	}
	return status, strings.TrimSpace(left), nil
}

const (
	// attendPoll is the time between two checks for remaining processes. They usually end within milliseconds.
	attendPoll = 10 * time.Millisecond
	// killPatience is for a process that the kernel does not end, such as one that waits for a disk.
	killPatience = time.Minute
)

// reapChildren waits for the children that have ended, and reports whether there are others.
func reapChildren() bool {
	for {
		switch number, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); {
		case errors.Is(err, unix.EINTR) || number > 0:
		default:
			return err == nil
		}
	}
}
