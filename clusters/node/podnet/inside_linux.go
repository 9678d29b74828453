// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package podnet

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Inside runs a function in a network namespace. Sockets that it makes belong there for good, whoever holds them: that is how a
// connection to a Pod's own 127.0.0.1 is made (kubectl port-forward). What the function starts as goroutines runs elsewhere.
func Inside(namespace *os.File, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs a function that may change the network namespace of its thread. Back where it was, the thread is given to others again.
// Where that is not possible it ends, and with it all processes that were started by it and are to end with their parent: to the kernel,
// that is the thread (PR_SET_PDEATHSIG).
func onThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		before, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			result <- fmt.Errorf("looking at our own network namespace: %w", err)
			return
		}
		defer before.Close()
		err = f()
		if unix.Setns(int(before.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}
