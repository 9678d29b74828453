// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package relay

import (
	"errors"
	"net"
	"time"
)

// pause bounds how often a call that fails at once is repeated.
const pause = 10 * time.Millisecond

// Each calls do with everything that a socket receives or accepts, until the socket is closed. Other errors do not end
// it: a client may have left before it was accepted, or there may be too many open files for a while.
func Each[T any](receive func() (T, error), do func(T)) {
	for {
		received, err := receive()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			<-time.After(pause)
		default:
			do(received)
		}
	}
}
