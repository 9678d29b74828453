// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// runTestcase is the name of the test case that a run without a grade gets in addition. No id of a check has parentheses.
const runTestcase = "(run)"

// WriteJUnit writes JUnit XML with one suite for each report and one test case for each check. A run that was not graded has
// a test case with an error besides, so that it never looks like one that passed. Reports must be sanitized: Read and Write
// have done that.
func WriteJUnit(w io.Writer, reports ...*Report) error {
	suites := junit.Testsuites{Name: "operator-labs"}
	total := 0.0
	for i, r := range reports {
		suite := r.testsuite()
		suite.ID = i
		suites.AddSuite(suite)
		total += r.Seconds
	}
	suites.Time = junitSeconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	if err := suites.WriteXML(w); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	return nil
}

func (r *Report) testsuite() junit.Testsuite {
	suite := junit.Testsuite{Name: r.Lab, Time: junitSeconds(r.Seconds)}
	suite.SetTimestamp(r.Started)
	for _, property := range [][2]string{
		{"title", r.Title},
		{"outcome", string(r.Outcome)},
		{"score", strconv.Itoa(r.Score)},
		{"maxScore", strconv.Itoa(r.MaxScore)},
		{"dir", r.Submission.Dir},
		{"module", r.Submission.Module},
		{"kubernetes", r.Environment.Kubernetes},
	} {
		suite.AddProperty(property[0], property[1])
	}
	for _, check := range r.Checks {
		suite.AddTestcase(r.testcase(check))
	}
	if r.Outcome != Graded {
		suite.AddTestcase(junit.Testcase{
			Name:      runTestcase,
			Classname: r.Lab,
			Time:      junitSeconds(r.Seconds),
			Error:     &junit.Result{Type: string(r.Outcome), Message: r.Reason, Data: r.runText()},
		})
	}
	if len(r.Notices) > 0 || len(r.Forbidden) > 0 {
		suite.SystemOut = &junit.Output{Data: r.remarks()}
	}
	return suite
}

func (r *Report) testcase(check Check) junit.Testcase {
	testcase := junit.Testcase{Name: check.ID, Classname: r.Lab, Time: junitSeconds(check.Seconds)}
	switch check.Status {
	case Passed:
		testcase.SystemOut = &junit.Output{Data: fmt.Sprintf("%s (%d of %d points)", check.Title, check.Points, check.MaxPoints)}
	case Skipped:
		testcase.Skipped = &junit.Result{Message: check.Reason}
	default:
		testcase.Failure = &junit.Result{
			Type:    string(check.Status),
			Message: oneLine(check.Title + ": observed " + check.Observed),
			Data:    check.text(),
		}
	}
	return testcase
}

// text is all there is to say of a failed check.
func (c *Check) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "expected: %s\nobserved: %s\n", c.Expected, c.Observed)
	for _, line := range c.Evidence {
		fmt.Fprintf(&text, "evidence: %s\n", line)
	}
	if c.Lecture != "" {
		fmt.Fprintf(&text, "lecture: %s\n", c.Lecture)
	}
	fmt.Fprintf(&text, "points: %d of %d\n", c.Points, c.MaxPoints)
	return text.String()
}

// runText is what explains why a run has no grade.
func (r *Report) runText() string {
	var text strings.Builder
	text.WriteString(r.Reason + "\n")
	for _, diagnostic := range r.Diagnostics {
		if position := diagnostic.Position(); position != "" {
			text.WriteString(position + ": ")
		}
		text.WriteString(diagnostic.Message + "\n")
	}
	for _, line := range r.OperatorLog {
		text.WriteString("log: " + line + "\n")
	}
	return text.String()
}

func (r *Report) remarks() string {
	var text strings.Builder
	for _, f := range r.Forbidden {
		fmt.Fprintf(&text, "forbidden (%d requests); if you want them, add above Reconcile: %s\n", f.Count, f.Marker)
	}
	for _, notice := range r.Notices {
		fmt.Fprintf(&text, "notice: %s\n", notice)
	}
	return text.String()
}

func junitSeconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }
