// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"lva.io/operators/clusters/process/pid"
)

const (
	// The pauses between two attempts leave the processor to dying processes, and let us reap them. They grow, because the
	// kernel may be unable to end a process for a long time, for example while it waits for a disk.
	shortestPause, longestPause = time.Millisecond, 100 * time.Millisecond
	// freezeLimit bounds how often we look for processes that are not stopped yet. A bomb reaches the limit of its user's
	// processes earlier, because stopped processes count, too. But a process that forks and ends stays ahead of us.
	freezeLimit = 100
)

// killDescendants kills our descendants again and again. It has no time limit, because on a busy machine we may rarely
// get the processor, and a process that we left would stay until the machine is restarted. reap ends the process when
// no child is left. The caller must be on the thread that the supervisor began on.
func (s *supervisor) killDescendants() {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		s.killAll()
		<-time.After(pause)
	}
}

// killAll kills all descendants that it can reach.
func (s *supervisor) killAll() {
	// From a thread that is not confined, the signal would reach every process of the user.
	if s.confined && syscall.Gettid() == os.Getpid() {
		// No process can fork meanwhile, so one call reaches all, regardless of their group and session.
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	s.signalProgram(syscall.SIGKILL)
	for _, process := range freezeDescendants() {
		process.SignalWithGroup(syscall.SIGKILL)
	}
}

// freezeDescendants stops our descendants. Thousands of dying processes would take the processor while others still
// fork.
func freezeDescendants() []pid.Child {
	stopped := map[int]bool{}
	for range freezeLimit {
		found := pid.Below(os.Getpid())
		before := len(stopped)
		for _, process := range found {
			if !stopped[process.Number] && process.SignalWithGroup(syscall.SIGSTOP) {
				stopped[process.Number] = true
			}
		}
		if len(stopped) == before {
			return found
		}
	}
	return pid.Below(os.Getpid())
}

// makeThreads makes the runtime create the threads that we will need. When the program has taken all the processes that
// its user may have, no thread can be created, and the runtime would end us. The runtime needs a thread for each
// processor that it may use, and one for each system call that takes long. So we limit the number of processors,
// because a big machine has more of them than we create threads.
func makeThreads() {
	const processors, enough = 2, 8
	runtime.GOMAXPROCS(processors)
	release := make(chan struct{})
	var running, released sync.WaitGroup
	running.Add(enough)
	for range enough {
		released.Go(func() {
			runtime.LockOSThread() // a thread of its own
			defer runtime.UnlockOSThread()
			running.Done()
			<-release
		})
	}
	running.Wait()
	close(release)
	released.Wait()
}
