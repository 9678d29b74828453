// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"io"
	"strconv"
	"syscall"
)

// Mode is by what a supervisor ends what its program started. It is also the name by which the supervisor is called.
type Mode string

const (
	// Namespace is the mode of a supervisor that was started in a new PID namespace.
	Namespace Mode = "operator-labs-init"
	// Reaper is the mode where namespaces can't be had.
	Reaper Mode = "operator-labs-reaper"
)

// End is the signal that makes a supervisor end all that there is below it, and then itself. In a namespace SIGKILL
// does so sooner. SIGTERM is passed on to the program's process group; all other signals are ignored.
const End = syscall.SIGQUIT

// Program is what a supervisor starts.
type Program struct {
	Path string
	// Args are its arguments, its name among them.
	Args []string
	// Dir is its working folder.
	Dir string
	// Files is how many descriptors it gets, standard input, output and error among them. It gets those of the
	// supervisor's that have the same numbers. The next one is the supervisor's connection to the owner.
	Files int
	// Nice is its niceness. Default: the one that it inherits.
	Nice int
	// Walls shut it in. Default: it may do what its user may.
	Walls *Walls
}

const fixedArgs = 6

// CommandLine are the arguments of a supervisor of the program, its name among them. The program's environment is the
// supervisor's.
func (p Program) CommandLine(mode Mode) []string {
	return append([]string{string(mode), strconv.Itoa(p.Files), strconv.Itoa(p.Nice), p.Walls.text(), p.Dir, p.Path}, p.Args...)
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
	return mode, Program{Files: files, Nice: nice, Walls: readWalls(args[3]), Dir: args[4], Path: args[5], Args: args[6:]}, err == nil
}

// Message is what a supervisor tells the owner. The owner tells nothing: when its end of the connection closes, it is
// dead, and the supervisor ends.
type Message struct {
	Kind Kind
	// Value is the error's number for Failed and NotShutIn, for Ended what wait(2) says of the program, and for Started
	// and Walled the walls, a Built, and for Unwalled those that are missing.
	Value uint32
}

// Kind is what a Message is about.
type Kind byte

const (
	// Started says that the program runs. A descriptor of it (pidfd_open(2)) comes with the message, where the kernel has
	// such.
	Started Kind = iota + 1
	// Failed says that the program could not be started.
	Failed
	// Ended says that the program has ended.
	Ended
	// Unwalled says that the program was not started, since walls are missing that it must have.
	Unwalled
	// NotShutIn says that the program was not started, since it could end its supervisor. On kernels that can't prevent
	// that, it is started.
	NotShutIn
	// Walled is what a launcher tells its supervisor before it becomes the program.
	Walled
)

// Size is how many bytes a message has.
const Size = 5

func (m Message) encode() []byte {
	return []byte{byte(m.Kind), byte(m.Value >> 24), byte(m.Value >> 16), byte(m.Value >> 8), byte(m.Value)}
}

// Read reads the next message of a supervisor. io.EOF means that it has said all.
func Read(connection io.Reader) (Message, error) {
	var content [Size]byte
	if _, err := io.ReadFull(connection, content[:]); err != nil {
		return Message{}, err
	}
	return Decode(content), nil
}

// Decode is the message that has these bytes.
func Decode(content [Size]byte) Message {
	value := uint32(content[1])<<24 | uint32(content[2])<<16 | uint32(content[3])<<8 | uint32(content[4])
	return Message{Kind(content[0]), value}
}
