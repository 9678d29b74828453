// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package builds defines the protocol by which the node requests images that the store does not have from the machine,
// which builds them. The node requests an image through the crossing, and the machine answers with a pipe. The pipe
// carries lines about the progress of the build, and a last line when the image is built or the build has failed. The
// package does not build images.
package builds

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lva.io/operators/clusters/images/named"
)

// Question is the node's request, a key of namespace.Answers. The argument of the request is the image's name.
const Question = "build"

// line is one line of the answer. The last one has no Progress.
type line struct {
	Progress string `json:",omitempty"`
	Error    string `json:",omitempty"`
	Unknown  bool   `json:",omitempty"`
}

func (l line) text() []byte {
	text, _ := json.Marshal(l) // can't fail: the fields are strings and a bool
	return append(text, '\n')
}

// Progress returns a line that reports the build's progress: "program coredns, 120 of 400 packages compiled". The
// message must not be empty.
func Progress(message string) []byte { return line{Progress: message}.text() }

// Answer returns the last line, which reports the build's result.
func Answer(err error) []byte {
	if err == nil {
		return line{}.text()
	}
	return line{Error: err.Error(), Unknown: errors.Is(err, named.ErrUnknown)}.text()
}

// limit bounds the size of all lines together. The error of a compiler can be long.
const limit = 1 << 20

// Read reads the lines until the last one, and passes the progress on. It returns the error of the build, which is
// named.ErrUnknown if the catalogue has no image with that name.
func Read(r io.Reader, progress func(message string)) error {
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
