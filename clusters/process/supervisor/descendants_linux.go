// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
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
			_ = syscall.Kill(process, syscall.SIGKILL)
		}
	}
	os.Exit(1)
}

// freezeDescendants stops our descendants: thousands of them would take the processor for dying while others still fork.
func freezeDescendants() []int {
	stopped := map[int]bool{}
	for range freezeLimit {
		found := descendants(os.Getpid())
		before := len(stopped)
		for _, process := range found {
			if !stopped[process] {
				stopped[process] = true
				_ = syscall.Kill(process, syscall.SIGSTOP)
			}
		}
		if len(stopped) == before {
			return found
		}
	}
	return descendants(os.Getpid())
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

// descendants are the processes below one. Some are dead already. One whose first thread has ended looks so, and may have
// other threads and children.
func descendants(ancestor int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, entry := range entries {
		process, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(entry.Name()); ok {
			children[parent] = append(children[parent], process)
		}
	}
	below := children[ancestor]
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i]]...)
	}
	return below
}

// parentOf reads /proc/PID/stat (proc(5)). The program's name, in parentheses, may hold anything.
func parentOf(process string) (parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + process + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
