// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import "slices"

// Walls shut a contained program in. A wall that this machine can't build is left out: Scope.Walls says which ones
// there were. Elsewhere than on Linux there are none.
type Walls struct {
	// Read are files and folders, absolute, that the program may read and execute, besides itself and what every program
	// needs of the system. Write are those that it may change as well. The folder in which it starts is one of them. Those
	// that do not exist are left out.
	Read, Write []string
	// Connect are the TCP ports to which it may connect, of whatever address. It may listen at any port.
	Connect []int
	// Require are walls without which the program is not started. Default: it is started with those that there are.
	Require []Wall
	// OwnNetwork gives it a network of its own in place of that of the machine: it connects to what it has started itself,
	// in whatever way, and to nothing else. Without namespaces there is no such wall.
	OwnNetwork bool
	// Calls is a filter of system calls for this architecture, as the bytes of its instructions (seccomp(2)). Default:
	// none.
	Calls []byte

	without []Wall // for tests of what each wall holds
}

// Wall is one of the walls around a program.
type Wall string

// The walls.
const (
	// PrivateRoot is a root folder that holds nothing but what the program may read or write: nothing else can be seen or
	// named.
	PrivateRoot Wall = "private root"
	// FilesWall keeps it from reading, changing and executing other files. Without a private root it can see their names
	// and sizes, and change their modes.
	FilesWall Wall = "files"
	// NetworkWall leaves it connections of TCP to the allowed ports, and no other sockets.
	NetworkWall Wall = "network"
	// CallsWall is the filter of system calls.
	CallsWall Wall = "system calls"
)

// allWalls are the walls, strongest first.
var allWalls = []Wall{PrivateRoot, FilesWall, NetworkWall, CallsWall}

// Walls are those that every walled program of the scope had; none if there was no such program.
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
