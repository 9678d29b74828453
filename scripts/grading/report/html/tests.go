// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package html

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"sync"

	"lva.io/operators/scripts/grading/report"
)

//go:embed page/tests.html
var testsHTML string

var testsTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("tests.html").Funcs(template.FuncMap{
		"seconds": pageSeconds, "share": pageShare, "quoted": pageQuoted, "breakable": pageBreakable,
	}).Parse(testsHTML)
})

// testsPage is the data of the template.
type testsPage struct {
	*report.Tests
	Style   template.CSS
	Policy  string
	Verdict string
	// Counted are the mutants that count or were not tried, and Unseen those that no test can see.
	Counted, Unseen []report.TestedMutant
	Strip           []testsPart
}

// testsPart is one mutant in the bar of the score, in hundredths of its width.
type testsPart struct {
	X, Width float64
	report.TestedMutant
}

// Class returns the CSS class of the mutant, which decides its colour.
func (p testsPart) Class() string { return fateClass(p.Fate) }

func fateClass(fate report.MutantFate) string {
	switch fate {
	case report.MutantFound:
		return "passed"
	case report.MutantMissed:
		return "failed"
	default:
		return "skipped"
	}
}

// WriteTests writes the page of a report about tests. The page loads nothing and runs no script, and shows everything
// that comes from a submission as text. The report must be sanitized.
func WriteTests(w io.Writer, t *report.Tests) error {
	parsed, err := testsTemplate()
	if err != nil {
		return fmt.Errorf("reading the template of the page: %w", err)
	}
	p := testsPage{
		Tests: t, Style: template.CSS(pageStyle), Verdict: "part", //nolint:gosec // our own file
		Policy: fmt.Sprintf("default-src 'none'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
			digest(pageStyle)),
	}
	switch {
	case t.FullMarks():
		p.Verdict = "full"
	case t.Outcome != report.Graded:
		p.Verdict = "none"
	}
	for _, m := range t.Mutants {
		if m.Fate == report.MutantUnseen {
			p.Unseen = append(p.Unseen, m)
			continue
		}
		p.Counted = append(p.Counted, m)
	}
	const gap = 0.4
	width := (100 + gap) / float64(max(1, len(p.Counted)))
	for i, m := range p.Counted {
		p.Strip = append(p.Strip, testsPart{X: width * float64(i), Width: max(gap, width-gap), TestedMutant: m})
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, p); err != nil {
		return fmt.Errorf("writing the page of the tests of %s: %w", t.Lab, err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// Class returns the CSS class of a mutant in the list, which decides its colour.
func (p testsPage) Class(m report.TestedMutant) string { return fateClass(m.Fate) }
