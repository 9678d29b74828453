// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"io"
	"strconv"
	"syscall"
)

// Mode is the means by which a supervisor ends the processes that its program started. It is also the name with which
// the supervisor is started.
type Mode string

const (
	// Namespace is the mode of a supervisor that was started in a new PID namespace.
	Namespace Mode = "operator-labs-init"
	// Reaper is the mode of a supervisor where the machine allows no namespaces.
	Reaper Mode = "operator-labs-reaper"
)

// End is the signal that makes a supervisor kill all processes below it, and then end. In a namespace, SIGKILL does so
// sooner. SIGTERM is passed on to the program's process group. All other signals are ignored.
const End = syscall.SIGQUIT

// Program is the program that a supervisor starts.
type Program struct {
	Path string
	// Args are its arguments, including its name.
	Args []string
	// Dir is its working folder.
	Dir string
	// Files is the number of its descriptors, including standard input, output and error. It gets the supervisor's
	// descriptors with the same numbers. The next one is the supervisor's connection to the owner.
	Files int
	// Nice is its niceness. Default: the one that it inherits.
	Nice int
	// Walls restrict it. Default: it may do what its user may.
	Walls *Walls
}

const fixedArgs = 6

// CommandLine returns the arguments of a supervisor of the program, including its name. The program's environment is
// the supervisor's.
func (p Program) CommandLine(mode Mode) []string {
	return append([]string{
		string(mode), strconv.Itoa(p.Files), strconv.Itoa(p.Nice),
		p.Walls.text(), p.Dir, p.Path,
	}, p.Args...)
}

// called reads a CommandLine.
func called(args []string) (mode Mode, program Program, ok bool) {
	if len(args) <= fixedArgs {
		return "", Program{}, false
	}
	switch mode = Mode(args[0]); mode {
	case Namespace, Reaper, launcher, openLauncher:
	default:
		return "", Program{}, false
	}
	files, err := strconv.Atoi(args[1])
	if err != nil {
		return "", Program{}, false
	}
	nice, err := strconv.Atoi(args[2])
	return mode, Program{
		Files: files, Nice: nice, Walls: readWalls(args[3]),
		Dir: args[4], Path: args[5], Args: args[6:],
	}, err == nil
}

// Message is a message from a supervisor to its owner. The owner sends nothing. When its end of the connection closes,
// the owner is dead, and the supervisor ends.
type Message struct {
	Kind Kind
	// Value depends on the kind. It is the error's number for Failed and Unconfined, the program's status from wait(2) for
	// Ended, the walls (a Built) for Started and Walled, and the missing walls for Unwalled.
	Value uint32
}

// Kind is the kind of a Message.
type Kind byte

const (
	// Started reports that the program runs. The message includes a descriptor of it (pidfd_open(2)), if the kernel
	// supports that.
	Started Kind = iota + 1
	// Failed reports that the program could not be started.
	Failed
	// Ended reports that the program has ended.
	Ended
	// Unwalled reports that the program was not started, because required walls are missing.
	Unwalled
	// Unconfined reports that the program was not started, because it could have killed its supervisor. On kernels that
	// can't prevent that, it is started.
	Unconfined
	// Walled is sent by a launcher to its supervisor before it executes the program.
	Walled
)

// Size is the number of bytes of a message.
const Size = 5

func (m Message) encode() []byte {
	return []byte{byte(m.Kind), byte(m.Value >> 24), byte(m.Value >> 16), byte(m.Value >> 8), byte(m.Value)}
}

// Read reads the next message of a supervisor. The error is io.EOF after the last one.
func Read(connection io.Reader) (Message, error) {
	var content [Size]byte
	if _, err := io.ReadFull(connection, content[:]); err != nil {
		return Message{}, err
	}
	return Decode(content), nil
}

// Decode decodes a message.
func Decode(content [Size]byte) Message {
	value := uint32(content[1])<<24 | uint32(content[2])<<16 | uint32(content[3])<<8 | uint32(content[4])
	return Message{Kind(content[0]), value}
}
