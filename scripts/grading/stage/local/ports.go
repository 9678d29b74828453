// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"

	"lva.io/operators/scripts/grading/submission"
)

// An operator whose webhooks can listen at any port gets one of these. They are below the ephemeral ports of all
// systems, so the port is still free when the operator is started again.
const (
	firstPort = 19443
	portCount = 200
)

const (
	// portPoll is the interval between checks whether a port is free.
	portPoll = 50 * time.Millisecond
	// portGrace is how long a port that no run has claimed may stay in use: the operator of a killed run ends a moment
	// after the run.
	portGrace = 3 * time.Second
	// portPatience is how long a run waits for a port that another run has claimed.
	portPatience = 5 * time.Minute
)

// claim is a port of this machine at which no other run starts its operator. It is released when its process ends, for
// whatever reason.
type claim struct {
	port  int
	Close func()
}

var errClaimed = errors.New("another process has claimed it")

// claimAny claims a port that is free.
func claimAny() (*claim, error) {
	for _, i := range rand.Perm(portCount) {
		c, err := tryClaim(firstPort + i)
		if errors.Is(err, errClaimed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if free(c.port) {
			return c, nil
		}
		c.Close()
	}
	return nil, &submission.EnvironmentError{Reason: fmt.Sprintf("none of the ports %d to %d is free for the operator's "+
		"webhooks: stop a program that listens there", firstPort, firstPort+portCount-1)}
}

// claimPort claims the port that an operator insists on. Runs take turns: onWait gets the reason for the wait. If the
// port stays claimed for longer than patience, or if another program uses it, the error is a
// *submission.EnvironmentError.
func claimPort(ctx context.Context, port int, patience time.Duration, onWait func(reason string)) (*claim, error) {
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	giveUp := time.After(patience)
	var reason string
	c, err := tryClaim(port)
	for ; errors.Is(err, errClaimed); c, err = tryClaim(port) {
		if reason == "" {
			reason = fmt.Sprintf("port %d, at which this operator's webhooks listen, is used by another operator "+
				"that is graded or run on this machine%s", port, claimant(port))
			onWait(reason)
		}
		select {
		case <-tick.C:
		case <-giveUp:
			return nil, &submission.EnvironmentError{Reason: fmt.Sprintf("%s, and has been for %s: stop it, "+
				"or let the operator's main read its port from a flag %s", reason, patience, submission.WebhookPortFlag)}
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", reason, context.Cause(ctx))
		}
	}
	if err != nil {
		return nil, err
	}
	for deadline := time.After(portGrace); !free(port); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.Close()
			return nil, context.Cause(ctx)
		case <-deadline:
			c.Close()
			return nil, &submission.EnvironmentError{Reason: fmt.Sprintf("port %d, at which this operator's webhooks listen, "+
				"is used by another program on this machine: stop it (`ss -ltnp` shows it), "+
				"or let the operator's main read its port from a flag %s", port, submission.WebhookPortFlag)}
		}
	}
	return c, nil
}

// PortInUse reports whether a program of this machine listens at a port.
func (o *operator) PortInUse(port string) bool {
	number, err := strconv.Atoi(port)
	return err == nil && !free(number)
}

// free reports whether an operator could listen at the port. A port that only root may use counts as free, because the
// operator itself then reports the error.
func free(port int) bool {
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	listener.Close()
	return true
}
