// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import "slices"

// Walls restrict a contained program. A wall that this machine can't build is left out: Scope.Walls returns those that
// were built. On other systems than Linux there are none.
type Walls struct {
	// Read are files and folders, absolute, that the program may read and execute, besides itself and the system files
	// that every program needs. Write are files and folders that it may change as well. The folder in which it starts is
	// one of them. Paths that do not exist are left out.
	Read, Write []string
	// Connect are the TCP ports to which it may connect, on any address. It may listen at any port.
	Connect []int
	// Require are walls without which the program is not started. By default, it starts with those that can be built.
	Require []Wall
	// OwnNetwork gives it a network of its own in place of the machine's. There it can connect in any way to processes
	// that it has started itself, and to nothing else. Without namespaces there is no such wall.
	OwnNetwork bool
	// Calls is a filter of system calls for this architecture, as the bytes of its instructions (seccomp(2)). Default:
	// none.
	Calls []byte

	without []Wall // for tests of the effect of each wall
}

// Wall is one of the walls around a program.
type Wall string

// The walls.
const (
	// PrivateRoot is a root folder that has only the files that the program may read or write. The program can't see or
	// name any others.
	PrivateRoot Wall = "private root"
	// FilesWall prevents it from reading, changing and executing other files. Without a private root it can see their
	// names and sizes, and change their modes.
	FilesWall Wall = "files"
	// NetworkWall allows TCP connections to the allowed ports, and no other sockets.
	NetworkWall Wall = "network"
	// CallsWall is the filter of system calls.
	CallsWall Wall = "system calls"
)

// allWalls are the walls, strongest first.
var allWalls = []Wall{PrivateRoot, FilesWall, NetworkWall, CallsWall}

// Walls returns the walls that every walled program of the scope had, or none if there was no such program.
func (s *Scope) Walls() []Wall {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.built)
}

// noteWalls takes the walls of one more program into account.
func (s *Scope) noteWalls(built []Wall) {
	if !s.walled {
		s.walled, s.built = true, built
		return
	}
	s.built = slices.DeleteFunc(s.built, func(wall Wall) bool { return !slices.Contains(built, wall) })
}
