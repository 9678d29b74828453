// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package compare_test

import (
	"testing"

	"lva.io/operators/scripts/checks/compare"
)

func TestFields(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name               string
		fields             compare.Fields
		expected, observed string
	}{
		{"nothing", nil, "", ""},
		{"the same", compare.Fields{compare.Is("count", 2, new(2))}, "count is 2", ""},
		{"another value", compare.Fields{compare.Is("count", 2, new(1))}, "count is 2", "count is 1"},
		{"no value", compare.Fields{compare.Is("count", 2, nil)}, "count is 2", "count is not set"},
		{"no value where zero is wanted", compare.Fields{compare.Is("count", 0, nil)}, "count is 0", "count is not set"},
		{
			"no value where zero may be left out",
			compare.Fields{compare.IsOrZero("soldOut", false, nil)},
			"soldOut is false", "",
		},
		{
			"no value where it may not",
			compare.Fields{compare.IsOrZero("soldOut", true, nil)},
			"soldOut is true", "soldOut is not set",
		},
		{
			"an empty text",
			compare.Fields{compare.Is("reason", "Down", new("")), compare.Given("message", "")},
			"reason is Down and message is given", "reason is empty and message is empty",
		},
		{
			"one of several",
			compare.Fields{
				compare.Is("status", "True", new("True")),
				compare.Is("observedGeneration", 3, nil),
				compare.Given("message", "x"),
			},
			"status is True, observedGeneration is 3 and message is given", "observedGeneration is not set",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.fields.Expected(); got != test.expected {
				t.Errorf("Expected() = %q, want %q", got, test.expected)
			}
			if got := test.fields.Observed(); got != test.observed || test.fields.Same() != (test.observed == "") {
				t.Errorf("Observed() = %q, Same() = %t, want %q", got, test.fields.Same(), test.observed)
			}
		})
	}
}
