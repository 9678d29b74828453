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
	// The pauses between two attempts let dying processes have the processor, and us reap them. They grow, since the
	// kernel may be unable to end a process for long: it waits for a disk.
	shortestPause, longestPause = time.Millisecond, 100 * time.Millisecond
	// freezeLimit bounds how often we look for processes that are not stopped yet. A bomb comes to the limit of its user's
	// processes before, since those that are stopped count, too. But one that forks and ends stays ahead of us.
	freezeLimit = 100
)

// killDescendants kills our descendants again and again. It has no time limit: on a busy machine we may get the
// processor only now and then, and what we left would stay until the machine is restarted. reap ends the process when
// no child is left. The caller must be on the thread that the supervisor began on.
func (s *supervisor) killDescendants() {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		s.killAll()
		<-time.After(pause)
	}
}

// killAll kills all descendants that it can reach.
func (s *supervisor) killAll() {
	// From a thread that is not shut in, the signal would reach every process of the user.
	if s.confined && syscall.Gettid() == os.Getpid() {
		// No process can fork meanwhile, so one call reaches all, whatever group or session they are in.
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	s.signalProgram(syscall.SIGKILL)
	for _, process := range freezeDescendants() {
		process.SignalWithGroup(syscall.SIGKILL)
	}
}

// freezeDescendants stops our descendants: thousands of them would take the processor for dying while others still
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

// makeThreads has the runtime make the threads that we will need. When the program has taken all the processes that its
// user may have, no thread can be made, and the runtime would end us. It wants a thread for each processor that it may
// use, and one for each system call that takes long, so we bound the former: a big machine has more processors than we
// make threads.
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
