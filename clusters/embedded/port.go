// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reservation is a free TCP port of 127.0.0.1 that no other program gets while it is held, except a server of the same
// user that shares ports (SO_REUSEPORT), as kube-apiserver does with --permit-port-sharing. The reservation is bound
// but never listens, so all connections go to that server. Choosing a free port and closing it again would let two
// clusters that start at once choose the same.
type reservation struct {
	Port int

	descriptor int
	released   sync.Once
}

// reservePort reserves the port, or any free one for 0.
func reservePort(port int) (*reservation, error) {
	syscall.ForkLock.RLock() // no program that is started meanwhile inherits the socket
	descriptor, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(descriptor)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	r := &reservation{descriptor: descriptor}
	if err := r.bind(port); err != nil {
		r.Release()
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("port %d on 127.0.0.1, which the cluster used before, is now in use by another program: "+
				"stop that program (`ss -ltnp` names it), or start again with `make down` and `make up`", port)
		}
		return nil, fmt.Errorf("reserving a port on 127.0.0.1: %w", err)
	}
	if err := r.reach(); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// reach makes sure that clients can reach the port. No program listens yet, so a refusal is expected.
func (r *reservation) reach() error {
	connection, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)), reachTimeout)
	if err == nil {
		return connection.Close()
	}
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return errors.New("this machine does not reach itself at 127.0.0.1: its loopback interface is down; " +
			"let root bring it up: ip link set lo up")
	}
	return nil
}

// reachTimeout bounds an attempt that takes microseconds, unless a firewall drops the packets.
const reachTimeout = time.Second

func (r *reservation) bind(port int) error {
	if err := unix.SetsockoptInt(r.descriptor, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	if err := unix.Bind(r.descriptor, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	name, err := unix.Getsockname(r.descriptor)
	if err != nil {
		return err
	}
	r.Port = name.(*unix.SockaddrInet4).Port
	return nil
}

// Release releases the port. A second call does nothing, because the descriptor may belong to another file by then.
func (r *reservation) Release() {
	r.released.Do(func() { _ = unix.Close(r.descriptor) })
}
