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
	// killInterval lets those who die have the processor, and us bury them.
	killInterval = time.Millisecond
	// killTimeout bounds the race with a program that forks faster than we kill.
	killTimeout = 8 * time.Second
	// freezeLimit bounds how often we look for processes that are not stopped yet: one that forks and ends stays ahead of us.
	freezeLimit = 10
)

// killDescendants kills our descendants again and again, since one may fork while we look. It ends with the process, which
// ends when it has no child.
func killDescendants() {
	tick := time.NewTicker(killInterval)
	for giveUp := time.Now().Add(killTimeout); time.Now().Before(giveUp); <-tick.C {
		for _, process := range freezeDescendants() {
			process.Signal(syscall.SIGKILL)
		}
	}
	os.Exit(1)
}

// freezeDescendants stops our descendants: thousands of them would take the processor for dying while others still fork.
func freezeDescendants() []pid.Child {
	stopped := map[int]bool{}
	for range freezeLimit {
		found := pid.Below(os.Getpid())
		before := len(stopped)
		for _, process := range found {
			if !stopped[process.Number] && process.Signal(syscall.SIGSTOP) {
				stopped[process.Number] = true
			}
		}
		if len(stopped) == before {
			return found
		}
	}
	return pid.Below(os.Getpid())
}

// makeThreads has the runtime make the threads that we will need. When the program has taken all the processes that its user
// may have, no thread can be made, and the runtime would end us.
func makeThreads() {
	const enough = 8
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
