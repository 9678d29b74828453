// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lva.io/operators/scripts/grading/report"
)

// RenderTests prints the report of a student's own tests. page is the path of its page.
func RenderTests(w io.Writer, t *report.Tests, page string) {
	fmt.Fprintf(w, "\n%s: %s\n", t.Lab, t.Headline())
	if t.Reason != "" {
		fmt.Fprintf(w, "%s\n", report.Safe(t.Reason))
	}
	for _, d := range t.Diagnostics {
		fmt.Fprintf(w, "    %s\n", report.Safe(strings.TrimPrefix(d.Position()+": "+d.Message, ": ")))
	}
	for _, r := range []struct {
		title string
		run   *report.TestRun
	}{{"your operator", t.Own}, {"ours", t.Ours}} {
		if r.run == nil {
			continue
		}
		fmt.Fprintf(w, "  on %-14s %s\n", r.title, r.run.Summary())
		for _, line := range r.run.Output {
			fmt.Fprintf(w, "      %s\n", report.Safe(line))
		}
	}
	for _, notice := range t.Notices {
		fmt.Fprintf(w, "  note: %s\n", report.Safe(notice))
	}
	if t.Count(report.MutantFound)+t.Count(report.MutantMissed) > 0 {
		fmt.Fprintln(w)
		for _, m := range t.Mutants {
			if m.Fate != report.MutantUnseen {
				fmt.Fprintf(w, "  %-8s%s\n", m.Fate, report.Safe(m.Text()))
			}
		}
		fmt.Fprintf(w, "\n%s\n", t.Summary())
	}
	fmt.Fprintf(w, "It took %s. Report: %s\n", time.Duration(t.Seconds*float64(time.Second)).Round(time.Second), page)
}
