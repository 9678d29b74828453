// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package builds

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"lva.io/operators/clusters/images/named"
)

func TestReadReturnsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		is   error
	}{
		{"made", nil, nil},
		{"unknown", fmt.Errorf("the catalogue: %w", named.ErrUnknown), named.ErrUnknown},
		{"failed", errors.New("x.go:1: no such thing"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stream := bytes.NewReader(slices.Concat(Progress("one"), Progress("two"), Answer(test.err)))
			var messages []string
			err := Read(stream, func(message string) { messages = append(messages, message) })
			if !slices.Equal(messages, []string{"one", "two"}) {
				t.Errorf("messages = %q, want one and two", messages)
			}
			switch {
			case test.is != nil && !errors.Is(err, test.is), test.is == nil && fmt.Sprint(err) != fmt.Sprint(test.err):
				t.Errorf("Read() error = %v, want %v", err, test.err)
			}
		})
	}
}

func TestMissingResultIsAnError(t *testing.T) {
	t.Parallel()
	if err := Read(bytes.NewReader(Progress("one")), func(string) {}); err == nil {
		t.Error("Read() of a build without a result returned no error")
	}
}
