// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"strings"
	"testing"
)

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
			ended, err := ReadTests(strings.NewReader(test.events))
			if err != nil {
				t.Fatal(err)
			}
			shown := func(all []Flaky) (text string) {
				for _, f := range all {
					text += f.Name + ": " + f.Output
				}
				return text
			}
			if ended.Passed != test.passed || ended.Skipped != test.skipped ||
				shown(ended.Failed) != test.failed || shown(ended.Flaky) != test.flaky {
				t.Errorf("got %d passed, %d skipped, failed %q, flaky %q",
					ended.Passed, ended.Skipped, shown(ended.Failed), shown(ended.Flaky))
			}
		})
	}
	if _, err := ReadTests(strings.NewReader(passing + `{"Action":"fail`)); err == nil {
		t.Error("ReadTests() accepted half an event")
	}
}
