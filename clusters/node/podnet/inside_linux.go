// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package podnet

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
)

// Inside runs a function in a network namespace. Sockets that it makes belong there for good, whoever holds them: that
// is how a connection to a Pod's own 127.0.0.1 is made (kubectl port-forward). What the function starts as goroutines
// runs elsewhere.
func Inside(network *os.File, f func() error) error {
	return namespace.KeepingNetwork(func() error {
		if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}
