// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"strings"
	"testing"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
)

// A precondition is a check of an earlier lab, so that lab's lecture explains it.
func TestReadOpensLectureOfCheck(t *testing.T) {
	t.Parallel()
	labs, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	lab, err := labs.Labs.Lab("3")
	if err != nil {
		t.Fatal(err)
	}
	w := Work{Checkout: labs, Lab: lab}
	for _, check := range lab.Checks {
		file, _, _ := strings.Cut(strings.TrimPrefix(check.Lecture, "docs/lectures/0"), "-")
		if got, want := w.Screen("").Commands.Read(check.Lecture), "make read-"+file; got != want {
			t.Errorf("%s: read command = %s, want %s", check.ID, got, want)
		}
		if check.Precondition() && file != "1" {
			t.Errorf("the precondition %s has its lecture in lab %s, want lab 1", check.ID, check.Lecture)
		}
	}
}

func TestNoticeWithoutNamespaces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		foreign bool
		kept    process.Containment
		notice  bool
	}{
		{true, process.Namespaces, false},
		{true, process.Supervised, true},
		{true, process.Grouped, true},
		{true, "", false}, // it does not build, or runs as a Pod
		{false, process.Supervised, false},
		{false, process.Grouped, false},
	} {
		notice := (&Work{Foreign: test.foreign}).uncontained(string(test.kept))
		is := strings.Contains(notice, "no namespaces of its own") &&
			strings.Contains(notice, "Grade submissions of strangers")
		if is != test.notice || !is && notice != "" {
			t.Errorf("foreign %t, contained by %q: notice = %q", test.foreign, test.kept, notice)
		}
	}
}
