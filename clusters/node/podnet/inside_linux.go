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

// onThread runs a function on a thread of its own. A namespace is a property of a thread, so that thread must never run anything
// else: a goroutine that ends locked to its thread takes it along.
func onThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- f()
	}()
	return <-result
}
