// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package compare compares fields as they are with fields as they should be, and makes from the same fields the
// sentence of what was expected and the one of what was observed. It reads no objects.
package compare

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
)

// NotSet is what a field is that is not there.
const NotSet = "not set"

// Field is a field as it should be and as it is, in words.
type Field struct{ Name, Want, Got string }

// Is compares a field that may be absent: then got is nil.
func Is[T comparable](name string, want T, got *T) Field {
	f := Field{Name: name, Want: word(want), Got: NotSet}
	if got != nil {
		f.Got = word(*got)
	}
	return f
}

// IsOrZero is Is for a field that may be left out where it is zero: the JSON of a Go struct with omitempty says no
// more.
func IsOrZero[T comparable](name string, want T, got *T) Field {
	if zero := *new(T); got == nil && want == zero {
		return Is(name, want, &zero)
	}
	return Is(name, want, got)
}

// Given demands a text, whatever it says.
func Given(name, got string) Field {
	if got != "" {
		return Field{Name: name, Want: "given", Got: "given"}
	}
	return Field{Name: name, Want: "given", Got: "empty"}
}

func word(value any) string {
	if text := fmt.Sprint(value); text != "" {
		return text
	}
	return "empty"
}

// Fields are fields of one object.
type Fields []Field

// Same says whether all are as they should be.
func (f Fields) Same() bool {
	return !slices.ContainsFunc(f, Field.differs)
}

func (f Field) differs() bool { return f.Want != f.Got }

// Expected is how all should be: "toppingsCount is 2 and soldOut is true".
func (f Fields) Expected() string {
	parts := make([]string, len(f))
	for i, field := range f {
		parts[i] = field.Name + " is " + field.Want
	}
	return english.WordSeries(parts, "and")
}

// Observed is how those are that are not as they should be: "soldOut is not set". It is empty if there are none.
func (f Fields) Observed() string {
	var parts []string
	for _, field := range f {
		if field.differs() {
			parts = append(parts, field.Name+" is "+field.Got)
		}
	}
	return english.WordSeries(parts, "and")
}
