// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	readjunit "github.com/joshdk/go-junit"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/junit"
)

// Two parsers read the JUnit files: go-junit, as a tool that consumes them, and one of our own, which is as strict as
// readers of such files are (names, counts, times, failures with type and message).
func TestJUnitOfEachOutcome(t *testing.T) {
	t.Parallel()
	for name, r := range samples() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.Sanitize()
			var data bytes.Buffer
			if err := junit.Write(&data, &r); err != nil {
				t.Fatal(err)
			}
			checkJUnit(t, data.Bytes())

			suites, err := readjunit.Ingest(data.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if len(suites) != 1 || suites[0].Name != r.Lab {
				t.Fatalf("got %d suites, want one named %s", len(suites), r.Lab)
			}
			want := readjunit.Totals{
				Passed: r.Count(report.Passed), Failed: r.Count(report.Failed),
				Skipped: r.Count(report.Skipped), Tests: len(r.Checks),
			}
			if r.Outcome != report.Graded {
				want.Error++
				want.Tests++
			}
			got := suites[0].Totals
			got.Duration = 0
			if got != want {
				t.Errorf("totals are %+v, want %+v", got, want)
			}
			for i, check := range r.Checks {
				test := suites[0].Tests[i]
				if test.Name != check.ID || test.Classname != r.Lab {
					t.Errorf("test case %d is %s in %s, want %s in %s", i, test.Name, test.Classname, check.ID, r.Lab)
				}
				var text string
				if test.Error != nil {
					text = test.Error.Error()
				}
				switch check.Status {
				case report.Failed:
					for _, part := range append(slices.Clone(check.Evidence), check.Expected, check.Observed) {
						if !strings.Contains(text, part) {
							t.Errorf("failure of %s lacks %q:\n%s", check.ID, part, text)
						}
					}
				case report.Skipped:
					if test.Message != check.Reason {
						t.Errorf("%s is skipped with %q, want %q", check.ID, test.Message, check.Reason)
					}
				case report.Passed:
				}
			}
			if passes := got.Failed == 0 && got.Error == 0 && got.Skipped == 0; passes != r.FullMarks() {
				t.Errorf("JUnit looks passed: %v, but full marks: %v", passes, r.FullMarks())
			}
		})
	}
}

func TestJUnitOfSeveralLabs(t *testing.T) {
	t.Parallel()
	all := samples()
	one, two := all["graded-full"], all["not-built"]
	one.Lab = "01-icecream"
	one.Sanitize()
	two.Sanitize()
	var data bytes.Buffer
	if err := junit.Write(&data, &one, &two); err != nil {
		t.Fatal(err)
	}
	checkJUnit(t, data.Bytes())
	suites, err := readjunit.Ingest(data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(suites) != 2 || suites[0].Name != "01-icecream" || suites[1].Name != "02-reconciler" {
		t.Errorf("got suites %+v, want one for each lab", suites)
	}
}

// element is any XML element, with its direct children and text.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
	Text     string     `xml:",chardata"`
}

func (e element) attr(t *testing.T, name string) string {
	t.Helper()
	for _, attr := range e.Attrs {
		if attr.Name.Local == name {
			return attr.Value
		}
	}
	t.Errorf("<%s> lacks the attribute %s", e.XMLName.Local, name)
	return ""
}

func (e element) number(t *testing.T, name string) int {
	t.Helper()
	n, err := strconv.Atoi(e.attr(t, name))
	if err != nil {
		t.Errorf("%s of <%s>: %v", name, e.XMLName.Local, err)
	}
	return n
}

// optional returns a numeric attribute. A missing one means 0.
func (e element) optional(t *testing.T, name string) int {
	t.Helper()
	if !slices.ContainsFunc(e.Attrs, func(a xml.Attr) bool { return a.Name.Local == name }) {
		return 0
	}
	return e.number(t, name)
}

// count returns the number of test cases in a suite, or of those that have a child with this name.
func (e element) count(child string) int {
	n := 0
	for _, testcase := range e.Children {
		if testcase.XMLName.Local == "testcase" && (child == "" ||
			slices.ContainsFunc(testcase.Children, func(c element) bool { return c.XMLName.Local == child })) {
			n++
		}
	}
	return n
}

func checkJUnit(t *testing.T, data []byte) {
	t.Helper()
	// A strict decoder returns errors for undeclared entities, unclosed elements and characters that XML 1.0 forbids.
	decoder := xml.NewDecoder(bytes.NewReader(data))
	var root element
	if err := decoder.Decode(&root); err != nil {
		t.Fatalf("not well-formed: %v", err)
	}
	if token, err := decoder.Token(); !errors.Is(err, io.EOF) {
		if text, ok := token.(xml.CharData); !ok || strings.TrimSpace(string(text)) != "" {
			t.Fatalf("content after the root: %v, %v", token, err)
		}
	}
	seconds := regexp.MustCompile(`^[0-9]+\.[0-9]{3}$`)
	allowed := map[string][]string{
		"testsuites": {"testsuite"},
		"testsuite":  {"properties", "testcase", "system-out"},
		"testcase":   {"failure", "error", "skipped", "system-out"},
	}
	if root.XMLName.Local != "testsuites" {
		t.Fatalf("root is <%s>", root.XMLName.Local)
	}
	var walk func(element)
	walk = func(e element) {
		for _, child := range e.Children {
			if names, ok := allowed[e.XMLName.Local]; ok && !slices.Contains(names, child.XMLName.Local) {
				t.Errorf("<%s> is not allowed in <%s>", child.XMLName.Local, e.XMLName.Local)
			}
			walk(child)
		}
		switch e.XMLName.Local {
		case "testsuite":
			for name, child := range map[string]string{"tests": "", "failures": "failure", "errors": "error"} {
				if got, want := e.number(t, name), e.count(child); got != want {
					t.Errorf("%s=%d of %s, but there are %d", name, got, e.attr(t, "name"), want)
				}
			}
			if n := e.count("skipped"); n > 0 && e.number(t, "skipped") != n {
				t.Errorf("skipped is not %d", n)
			}
		case "testcase":
			if e.attr(t, "name") == "" || e.attr(t, "classname") == "" {
				t.Error("a test case without name or class")
			}
			if results := len(e.Children) - strings.Count(childNames(e), "system-out"); results > 1 {
				t.Errorf("%s has more than one result: %s", e.attr(t, "name"), childNames(e))
			}
		case "failure", "error":
			if e.attr(t, "type") == "" || e.attr(t, "message") == "" || strings.TrimSpace(e.Text) == "" {
				t.Errorf("<%s> without type, message or text", e.XMLName.Local)
			}
		case "skipped":
			if e.attr(t, "message") == "" {
				t.Error("<skipped> without message")
			}
		}
		if e.XMLName.Local == "testsuite" || e.XMLName.Local == "testcase" {
			if time := e.attr(t, "time"); !seconds.MatchString(time) {
				t.Errorf("time=%q is not seconds", time)
			}
		}
	}
	walk(root)
	for _, name := range []string{"tests", "failures", "errors", "skipped"} {
		sum := 0
		for _, suite := range root.Children {
			sum += suite.optional(t, name)
		}
		if total := root.optional(t, name); total != sum {
			t.Errorf("root has %s=%d, but the suites sum to %d", name, total, sum)
		}
	}
}

func childNames(e element) string {
	names := make([]string, len(e.Children))
	for i, child := range e.Children {
		names[i] = child.XMLName.Local
	}
	return strings.Join(names, " ")
}
