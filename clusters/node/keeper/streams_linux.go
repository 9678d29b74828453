// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
)

// streams has both ends of a container's streams.
type streams struct {
	theirs container.Streams
	ours   []*os.File
	// copies is done when the log has all output.
	copies *sync.WaitGroup
}

// open creates a container's streams, and starts to log its output.
func (c *kept) open(r request) (s streams, err error) {
	s.copies = &sync.WaitGroup{}
	defer func() {
		if err != nil {
			closeStreams(s.theirs)
			closeAll(s.ours)
		}
	}()
	if r.Spec.Terminal {
		ours, theirs, err := OpenTerminal()
		if err != nil {
			return s, err
		}
		c.terminal = ours
		s.theirs, s.ours = container.Streams{In: theirs, Out: theirs, Err: theirs}, []*os.File{ours}
		s.copies.Go(func() { c.log.copy("stdout", frameOut, ours) })
		return s, nil
	}
	if r.Stdin {
		if s.theirs.In, c.input, err = os.Pipe(); err != nil {
			return s, err
		}
		s.ours = append(s.ours, c.input)
	}
	for _, stream := range []struct {
		name   string
		kind   frame
		theirs **os.File
	}{{"stdout", frameOut, &s.theirs.Out}, {"stderr", frameErrors, &s.theirs.Err}} {
		read, write, err := os.Pipe()
		if err != nil {
			return s, err
		}
		*stream.theirs, s.ours = write, append(s.ours, read)
		s.copies.Go(func() {
			defer read.Close()
			c.log.copy(stream.name, stream.kind, read)
		})
	}
	return s, nil
}

func closeStreams(s container.Streams) {
	for _, file := range []*os.File{s.In, s.Out, s.Err} {
		if file != nil {
			file.Close() // a terminal is closed twice, which does no harm
		}
	}
}

// OpenTerminal opens a pseudoterminal (pty(7)): data that is written to one end is read at the other.
func OpenTerminal() (ours, theirs *os.File, err error) {
	if ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, fmt.Errorf("creating a terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("creating a terminal: %w", err), ours.Close())
	}
	return ours, theirs, nil
}

// Size packs the rows and columns of a terminal into one number.
func Size(rows, columns uint16) int { return int(rows)<<16 | int(columns) }

func resize(terminal *os.File, size int) error {
	return Resize(terminal, uint16(size>>16), uint16(size))
}

// Resize sets the size of a terminal.
func Resize(terminal *os.File, rows, columns uint16) error {
	return unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
}
