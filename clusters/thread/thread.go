// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package thread runs functions on an operating system thread that never ends. The kernel sends a process's
// parent-death signal when the THREAD that started it ends (prctl(2), PR_SET_PDEATHSIG), and Go may end a thread at any
// time. The package starts no processes itself.
package thread

import (
	"runtime"
	"sync"
)

var work = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Run runs a function on the thread that never ends, after the functions of earlier calls, and returns its error.
// The function must be short, and must not call Run.
func Run(f func() error) error {
	done := make(chan error)
	work() <- func() { done <- f() }
	return <-done
}
