// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import "strconv"

// Walls restrict a program. A wall that the kernel can't build is left out. Started reports the walls that were built.
type Walls struct {
	// Root is an empty folder, in which a mount namespace gets a root of its own.
	Root string
	// Read and Write are the files and folders that the program may read and execute, or change as well. It sees no
	// others.
	Read, Write []string
	// Connect are the TCP ports to which it may connect. OwnNetwork gives it a network of its own, with only a loopback
	// interface, in which it may do anything. NewNetwork reports that the supervisor was started in such a network.
	Connect                []int
	OwnNetwork, NewNetwork bool
	// Calls is a filter of system calls: the bytes of an array of struct sock_filter (seccomp(2)). If it is empty, there
	// is no filter.
	Calls []byte
	// Require are walls without which the program is not started. Standing are the walls that the supervisor built before
	// it started the launcher.
	Require, Standing Built
	// Without are walls that are not built, for tests of the effect of each wall.
	Without Built
}

// Built is a set of walls.
type Built uint32

const (
	// PrivateRoot is a root that has only the files that the program may read or write.
	PrivateRoot Built = 1 << iota
	// Files prevents it from reading, writing and executing other files.
	Files
	// Network prevents it from connecting to other TCP ports, and from using other kinds of sockets. Or it has a network
	// of its own.
	Network
	// Calls is the filter of system calls.
	Calls
)

// text returns the walls as an argument of a supervisor: a line for each part.
func (w *Walls) text() string {
	if w == nil {
		return ""
	}
	var lines []byte
	add := func(kind byte, value string) {
		lines = append(strconv.AppendQuote(append(lines, kind), value), '\n')
	}
	add('/', w.Root)
	for _, path := range w.Read {
		add('r', path)
	}
	for _, path := range w.Write {
		add('w', path)
	}
	for _, port := range w.Connect {
		add('c', strconv.Itoa(port))
	}
	if w.OwnNetwork {
		add('o', "")
	}
	if w.NewNetwork {
		add('n', "")
	}
	if w.Require != 0 {
		add('!', strconv.Itoa(int(w.Require)))
	}
	if w.Standing != 0 {
		add('+', strconv.Itoa(int(w.Standing)))
	}
	if w.Without != 0 {
		add('-', strconv.Itoa(int(w.Without)))
	}
	add('s', string(w.Calls))
	return string(lines)
}

// readWalls reads a text of walls. It returns nil if there are none.
func readWalls(text string) *Walls {
	if text == "" {
		return nil
	}
	w := &Walls{}
	for len(text) > 0 {
		kind := text[0]
		quoted, err := strconv.QuotedPrefix(text[1:])
		if err != nil {
			break // we wrote the text ourselves
		}
		text = text[1+len(quoted)+1:]
		value, _ := strconv.Unquote(quoted)
		switch kind {
		case '/':
			w.Root = value
		case 'r':
			w.Read = append(w.Read, value)
		case 'w':
			w.Write = append(w.Write, value)
		case 'c':
			port, _ := strconv.Atoi(value)
			w.Connect = append(w.Connect, port)
		case 'o':
			w.OwnNetwork = true
		case 'n':
			w.NewNetwork = true
		case '-':
			without, _ := strconv.Atoi(value)
			w.Without = Built(without)
		case '!':
			required, _ := strconv.Atoi(value)
			w.Require = Built(required)
		case '+':
			standing, _ := strconv.Atoi(value)
			w.Standing = Built(standing)
		case 's':
			w.Calls = []byte(value)
		}
	}
	return w
}
