// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package compare compares the actual and the expected values of fields, and formats the sentences about expectation
// and observation. It does not read objects.
package compare

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
)

// NotSet describes a field that is missing.
const NotSet = "not set"

// Field is a field with its expected and its actual value, in words.
type Field struct{ Name, Want, Got string }

// Is compares a field that may be absent. In that case got is nil.
func Is[T comparable](name string, want T, got *T) Field {
	f := Field{Name: name, Want: word(want), Got: NotSet}
	if got != nil {
		f.Got = word(*got)
	}
	return f
}

// IsOrZero is Is for a field that may be left out if it is zero: the JSON of a Go struct with omitempty omits such
// fields.
func IsOrZero[T comparable](name string, want T, got *T) Field {
	if zero := *new(T); got == nil && want == zero {
		return Is(name, want, &zero)
	}
	return Is(name, want, got)
}

// Given requires a text with any content.
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

// Same reports whether all fields have their expected values.
func (f Fields) Same() bool {
	return !slices.ContainsFunc(f, Field.differs)
}

func (f Field) differs() bool { return f.Want != f.Got }

// Expected describes the expected values of all fields: "toppingsCount is 2 and soldOut is true".
func (f Fields) Expected() string {
	parts := make([]string, len(f))
	for i, field := range f {
		parts[i] = field.Name + " is " + field.Want
	}
	return english.WordSeries(parts, "and")
}

// Observed describes the fields with unexpected values: "soldOut is not set". It is empty if there are none.
func (f Fields) Observed() string {
	var parts []string
	for _, field := range f {
		if field.differs() {
			parts = append(parts, field.Name+" is "+field.Got)
		}
	}
	return english.WordSeries(parts, "and")
}
