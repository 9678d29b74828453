// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"errors"
	"os"
	ossignal "os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// reaper reaps all children of this process: those that it started and those that others left behind. No other code in
// this process may wait for children.
type reaper struct {
	mutex sync.Mutex
	// ended has a channel for each child whose end a caller waits for.
	ended map[int]chan<- unix.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{ended: map[int]chan<- unix.WaitStatus{}}
	exits := make(chan os.Signal, 1)
	ossignal.Notify(exits, unix.SIGCHLD)
	go func() {
		for range exits {
			r.reap()
		}
	}()
	return r
}

// start starts a child. The channel receives its status once, when the child has ended. The reaper waits for no child
// until start returns, so that it misses none. Use only the handle of the process (Signal, WithHandle), because another
// process may have its PID once it has ended.
func (r *reaper) start(start func() (*os.Process, error)) (*os.Process, <-chan unix.WaitStatus, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	process, err := start()
	if err != nil {
		return nil, nil, err
	}
	status := make(chan unix.WaitStatus, 1)
	r.ended[process.Pid] = status
	return process, status, nil
}

// reap waits for all children that have ended. One signal may be for several children.
func (r *reaper) reap() {
	for {
		r.mutex.Lock()
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == nil && pid > 0 {
			if waiter, ours := r.ended[pid]; ours {
				waiter <- status
				delete(r.ended, pid)
			}
		}
		r.mutex.Unlock()
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// signal sends a signal to a process unless it has ended.
func signal(process *os.Process, number unix.Signal) error {
	if err := process.Signal(number); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
