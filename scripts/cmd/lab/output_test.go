// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"lva.io/operators/scripts/proving/gate"
)

func TestDownloadsOfTestsAreCounted(t *testing.T) {
	t.Parallel()
	var to bytes.Buffer
	calls, counted := 0, 0
	o := &output{to: &to, onOutput: func() { calls++ }, downloads: func(n int) { counted = n }}
	for _, piece := range []string{"go: downloading a v1\ngo: down", "loading b v2\n", "# x\n", "x.go:1: ", "no\n"} {
		if n, err := io.WriteString(o, piece); err != nil || n != len(piece) {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(piece), err)
		}
		if counted == 2 && to.Len() == 0 && calls > 0 {
			t.Error("a download ends the bar")
		}
	}
	if want := "# x\nx.go:1: no\n"; to.String() != want || counted != 2 || calls == 0 {
		t.Errorf("passed on %q, want %q; counted %d downloads", to.String(), want, counted)
	}
}

func TestTestOutcomes(t *testing.T) {
	t.Parallel()
	const (
		prints  = `{"Action":"output","Package":"a","Test":"TestA","Output":"it is broken\n"}` + "\n"
		fails   = `{"Action":"fail","Package":"a","Test":"TestA"}` + "\n"
		partly  = `{"Action":"fail","Package":"a","Test":"TestA/part"}` + "\n"
		passes  = `{"Action":"pass","Package":"a","Test":"TestA"}` + "\n"
		skips   = `{"Action":"skip","Package":"a","Test":"TestB"}` + "\n"
		begins  = `{"Action":"run","Package":"a","Test":"TestC"}` + "\n"
		pkg     = `{"Action":"fail","Package":"a"}` + "\n"
		passing = `{"Action":"pass","Package":"a"}` + "\n"
		left    = `{"Action":"output","Package":"b","Output":"it left a process\n"}` + "\n"
		other   = `{"Action":"fail","Package":"b"}` + "\n"
	)
	for _, test := range []struct {
		name, events    string
		passed, skipped int
		failed, flaky   string
	}{
		{"all pass", passes + skips + passing, 1, 1, "", ""},
		{"a failure", prints + fails + pkg, 0, 0, "a TestA: it is broken\n", ""},
		{"a failure of a part", prints + partly + fails + pkg, 0, 0, "a TestA/part: ", ""},
		{"passes when repeated", prints + fails + pkg + passes + passing, 1, 0, "", "a TestA: it is broken\n"},
		{"fails again", prints + fails + pkg + prints + fails + pkg, 0, 0, "a TestA: it is broken\nit is broken\n", ""},
		{"ends with the program", begins + pkg, 0, 0, "a TestC: ", ""},
		{"a package leaves something behind", passes + passing + left + other, 1, 0, "b: it left a process\n", ""},
		{"a flaky test hides a leftover", prints + fails + pkg + passes + pkg, 1, 0, "a: ", "a TestA: it is broken\n"},
		{"succeeds when repeated", left + other + `{"Action":"pass","Package":"b"}`, 0, 0, "b: it left a process\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ended, err := parseEvents(strings.NewReader(test.events))
			if err != nil {
				t.Fatal(err)
			}
			shown := func(all []gate.Flaky) (text string) {
				for _, f := range all {
					text += f.Name + ": " + f.Output
				}
				return text
			}
			if ended.passed != test.passed || ended.skipped != test.skipped ||
				shown(ended.failed) != test.failed || shown(ended.flaky) != test.flaky {
				t.Errorf("got %d passed, %d skipped, failed %q, flaky %q",
					ended.passed, ended.skipped, shown(ended.failed), shown(ended.flaky))
			}
		})
	}
	if _, err := parseEvents(strings.NewReader(passing + `{"Action":"fail`)); err == nil {
		t.Error("parseEvents() accepted half an event")
	}
}
