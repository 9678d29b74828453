// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout"
)

// A precondition is a check of an earlier lab: what explains it is that lab's lecture.
func TestWhatToReadIsTheLectureOfTheCheck(t *testing.T) {
	t.Parallel()
	labs, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	lab, err := labs.Labs.Lab("3")
	if err != nil {
		t.Fatal(err)
	}
	c := choice{Checkout: labs, Lab: lab}
	for _, check := range lab.Checks {
		file, _, _ := strings.Cut(strings.TrimPrefix(check.Lecture, "docs/lectures/0"), "-")
		if got, want := c.screen("").Commands.Read(check.Lecture), "make read-"+file; got != want {
			t.Errorf("of %s one is to read %s, and it must be %s", check.ID, got, want)
		}
		if check.Precondition() && file != "1" {
			t.Errorf("the precondition %s is explained in %s", check.ID, check.Lecture)
		}
	}
}
