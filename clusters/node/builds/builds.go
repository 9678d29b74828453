// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package builds is what the node and the machine say to each other about images that the store does not have: the node
// asks for one through the crossing, and the machine answers with a pipe. From it come lines that say how far the image
// is, and a last one when it is made, or can't be.
package builds

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lva.io/operators/clusters/images/named"
)

// Question is what the node asks, as package namespace has it: how. The argument is the image's name.
const Question = "build"

// line is one that the machine says. The last one has no Progress.
type line struct {
	Progress string `json:",omitempty"`
	Error    string `json:",omitempty"`
	Unknown  bool   `json:",omitempty"`
}

func (l line) text() []byte {
	text, _ := json.Marshal(l) // strings
	return append(text, '\n')
}

// Progress is a line that says how far the image is: "program coredns, 120 of 400 packages compiled". It must not be
// empty.
func Progress(how string) []byte { return line{Progress: how}.text() }

// Answer is the last line, which says what became of the image.
func Answer(err error) []byte {
	if err == nil {
		return line{}.text()
	}
	return line{Error: err.Error(), Unknown: errors.Is(err, named.ErrUnknown)}.text()
}

// limit bounds all lines together: the error of a compiler is long.
const limit = 1 << 20

// Read reads the lines until the last one, and passes on how far the image is. The error is that of the image,
// named.ErrUnknown if the catalogue has none of its name.
func Read(r io.Reader, progress func(how string)) error {
	lines := json.NewDecoder(io.LimitReader(r, limit))
	for {
		var l line
		if err := lines.Decode(&l); err != nil {
			return fmt.Errorf("building the image: its result was not reported: %w", err)
		}
		switch {
		case l.Progress != "":
			progress(l.Progress)
		case l.Unknown:
			return named.ErrUnknown
		case l.Error != "":
			return errors.New(l.Error)
		default:
			return nil
		}
	}
}
