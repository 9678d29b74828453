// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package junit writes reports as JUnit XML.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"lva.io/operators/scripts/grading/report"
)

// Write writes JUnit XML with one suite for each report and one test case for each check. A run that was not graded,
// or only in part, has an additional test case with an error, so that it never looks like one that passed. Reports
// must be sanitized, as those of report.Read and formats.Write are.
func Write(w io.Writer, reports ...*report.Report) error {
	suites := junit.Testsuites{Name: "operator-labs"}
	total := 0.0
	for i, r := range reports {
		suite := testsuite(r)
		suite.ID = i
		suites.AddSuite(suite)
		total += r.Seconds
	}
	suites.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	if err := suites.WriteXML(w); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	return nil
}

func testsuite(r *report.Report) junit.Testsuite {
	suite := junit.Testsuite{Name: r.Lab, Time: seconds(r.Seconds)}
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
	if r.Undecided > 0 {
		suite.AddProperty("undecided", strconv.Itoa(r.Undecided))
	}
	for _, check := range r.Checks {
		suite.AddTestcase(testcase(r, check))
	}
	if r.Outcome != report.Graded {
		suite.AddTestcase(junit.Testcase{
			Name:      report.RunTest,
			Classname: r.Lab,
			Time:      seconds(r.Seconds),
			Error:     &junit.Result{Type: string(r.Outcome), Message: r.Reason, Data: r.RunText()},
		})
	}
	if r.Outcome == report.Graded && r.Undecided > 0 {
		reason := "The verdict is partial and not a grade: " + r.Partial()
		suite.AddTestcase(junit.Testcase{
			Name: report.RunTest, Classname: r.Lab, Time: seconds(r.Seconds),
			Error: &junit.Result{Type: "partial", Message: reason, Data: reason},
		})
	}
	if len(r.Notices) > 0 || len(r.Forbidden) > 0 {
		suite.SystemOut = &junit.Output{Data: r.Remarks()}
	}
	return suite
}

func testcase(r *report.Report, check report.Check) junit.Testcase {
	one := junit.Testcase{Name: check.ID, Classname: r.Lab, Time: seconds(check.Seconds)}
	switch check.Status {
	case report.Passed:
		one.SystemOut = &junit.Output{Data: fmt.Sprintf("%s (%d of %d points)", check.Title, check.Points, check.MaxPoints)}
	case report.Skipped:
		one.Skipped = &junit.Result{Message: check.Reason}
	default:
		one.Failure = &junit.Result{
			Type:    string(check.Status),
			Message: report.OneLine(check.Title + ": observed " + check.Observed),
			Data:    check.Text(),
		}
	}
	return one
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }
