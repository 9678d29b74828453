// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package podnet

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// Inside runs a function in a network namespace. Sockets that the function creates stay in that namespace, whichever
// process holds them: this is how kubectl port-forward connects to a Pod's own 127.0.0.1. Goroutines that the function
// starts run in another namespace.
func Inside(network *os.File, f func() error) error {
	return namespace.KeepingNetwork(func() error {
		if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}
