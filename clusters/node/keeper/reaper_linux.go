// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"errors"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// reaper buries all children of this process, those that it started and those that others left behind. Only it may wait for any.
type reaper struct {
	mutex sync.Mutex
	// ended are the children that somebody wants to know of.
	ended map[int]chan<- unix.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{ended: map[int]chan<- unix.WaitStatus{}}
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	go func() {
		for range died {
			r.bury()
		}
	}()
	return r
}

// start starts a child. Its end is told once. Nobody is buried meanwhile, so that it is not missed.
func (r *reaper) start(start func() (*os.Process, error)) (pid int, ended <-chan unix.WaitStatus, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	process, err := start()
	if err != nil {
		return 0, nil, err
	}
	pid = process.Pid
	_ = process.Release()
	status := make(chan unix.WaitStatus, 1)
	r.ended[pid] = status
	return pid, status, nil
}

// bury waits for all who have ended. One signal may stand for several.
func (r *reaper) bury() {
	for {
		r.mutex.Lock()
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == nil && pid > 0 {
			if told, ours := r.ended[pid]; ours {
				told <- status
				delete(r.ended, pid)
			}
		}
		r.mutex.Unlock()
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// signal sends a signal to a child, unless it has been buried: its number may be another's.
func (r *reaper) signal(pid int, signal unix.Signal) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, alive := r.ended[pid]; !alive {
		return nil
	}
	return unix.Kill(pid, signal)
}
