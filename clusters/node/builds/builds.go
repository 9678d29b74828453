// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package builds is what the node and the machine say to each other about images that the store does not have: the node asks for
// one through the crossing, and the machine answers with a pipe from which one line comes when the image is made, or can't be.
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

// answer is the line.
type answer struct {
	Error   string `json:",omitempty"`
	Unknown bool   `json:",omitempty"`
}

// Answer is the line that says what became of an image.
func Answer(err error) []byte {
	var a answer
	if err != nil {
		a.Error, a.Unknown = err.Error(), errors.Is(err, named.ErrUnknown)
	}
	text, _ := json.Marshal(a) // strings
	return append(text, '\n')
}

// answerLimit bounds it: the error of a compiler is long.
const answerLimit = 64 << 10

// Read reads the answer. The error is that of the image, named.ErrUnknown if the catalogue has none of its name.
func Read(r io.Reader) error {
	var a answer
	if err := json.NewDecoder(io.LimitReader(r, answerLimit)).Decode(&a); err != nil {
		return fmt.Errorf("building the image: nobody says what became of it: %w", err)
	}
	switch {
	case a.Unknown:
		return named.ErrUnknown
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}
