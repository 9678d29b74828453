// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/classes/course/rules"
	"lva.io/operators/scripts/grading/report"
)

// gradebookOf reads the gradebook of a class. It returns fields by student and column.
func gradebookOf(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, GradebookFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]map[string]string{}
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, column := range records[0] {
			row[column] = record[i]
		}
		rows[row["student"]] = row
	}
	return rows
}

func TestGradebook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := mustRun(t, dir, &fake{})
	rows := gradebookOf(t, dir)
	if len(rows) != 24 {
		t.Errorf("the gradebook has %d students", len(rows))
	}
	for student, want := range map[string]string{
		"student-01": string(report.Graded),   // the same work as two others
		"student-03": string(report.Graded),   // graded at the second try
		"student-04": string(report.Error),    // never graded
		"student-05": string(report.NotBuilt), // no points, as it must be
		"student-06": string(report.Error),    // the grader panics
		"student-07": string(report.Error),    // its report contradicts itself
		"student-23": Unusable,
	} {
		row := rows[student]
		if got := row["01-icecream outcome"]; got != want {
			t.Errorf("%s: the outcome is %q, want %q: %v", student, got, want, row)
		}
		if got := row["01-icecream final"] == ""; got != (want == string(report.Error)) {
			t.Errorf("%s: the final grade is %q", student, row["01-icecream final"])
		}
		if got := row["total"] == ""; got != (want == string(report.Error)) {
			t.Errorf("%s: the total is %q", student, row["total"])
		}
		if page := row["01-icecream report"]; page != "" {
			if _, err := os.Stat(filepath.Join(dir, page)); err != nil {
				t.Errorf("%s: %v", student, err)
			}
		}
	}
	if a, b := rows["student-01"], rows["student-09"]; a["01-icecream points"] != b["01-icecream points"] {
		t.Errorf("equal work has %s and %s points", a["01-icecream points"], b["01-icecream points"])
	}
	for _, name := range []string{
		"report.html", "report.md", "report.json", "junit.xml", "gradescope.json", "classroom50.json",
	} {
		if _, err := os.Stat(filepath.Join(dir, StudentsDir, "student-09", "01-icecream", "1", name)); err != nil {
			t.Error(err)
		}
	}
	// Equal work is graded in the folder of one student. The report of the other one names the other's folder.
	file := filepath.Join(dir, StudentsDir, "student-09", "01-icecream", "1", report.JSONFile)
	if one, err := report.Read(file); err != nil || !strings.Contains(one.Submission.Dir, "student-09") {
		t.Errorf("the report = %+v, %v", one, err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, PageFile)); err != nil ||
		!strings.Contains(string(content), c.Title) {
		t.Errorf("reading the page of the class: %v", err)
	}
	if err := RemoveResults(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{GradebookFile, PageFile, FeedbackDir, StudentsDir} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s still exists", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, journalFile)); err != nil {
		t.Error(err)
	}
}

// TestGradeWaitsForOtherAttempts checks that a grade that may be too low is not published: an attempt without a verdict
// might have been the best one.
func TestGradeWaitsForOtherAttempts(t *testing.T) {
	t.Parallel()
	attempt := func(number, score int, outcome report.Outcome) Attempt {
		a := Attempt{Result: &Result{
			Record: Record{Outcome: outcome, Score: score, Max: 100},
			Report: &report.Report{Outcome: outcome, Score: score, MaxScore: 100},
		}}
		a.Attempt = number
		return a
	}
	broken := Attempt{}
	broken.Attempt, broken.Problem = 2, "its archive is broken"
	for _, c := range []struct {
		name     string
		mark     rules.Mark
		attempts []Attempt
		known    bool
		outcome  string
	}{
		{"nothing", rules.Mark{Missing: true}, nil, true, Missing},
		{"one", rules.Mark{Attempt: 1, Points: 60, Max: 100}, []Attempt{attempt(1, 60, report.Graded)}, true, "graded"},
		{
			"one graded attempt and an error",
			rules.Mark{Attempt: 1, Points: 60, Max: 100},
			[]Attempt{attempt(1, 60, report.Graded), attempt(2, 0, report.Error)},
			false, "graded",
		},
		{
			"full marks and an error",
			rules.Mark{Attempt: 1, Points: 100, Max: 100},
			[]Attempt{attempt(1, 100, report.Graded), attempt(2, 0, report.Error)},
			true, "graded",
		},
		{
			"one graded attempt and a broken archive",
			rules.Mark{Attempt: 1, Points: 60, Max: 100},
			[]Attempt{attempt(1, 60, report.Graded), broken},
			true, "graded",
		},
		{"only a broken archive", rules.Mark{Ungraded: true, Max: 100}, []Attempt{broken}, true, Unusable},
		{"only errors", rules.Mark{Ungraded: true, Max: 100}, []Attempt{attempt(1, 0, report.Interrupted)}, false, "error"},
		{"excused", rules.Mark{Excused: true, Max: 100}, []Attempt{attempt(1, 0, report.Error)}, true, Excused},
		{"not yet", rules.Mark{Ungraded: true, Max: 100}, []Attempt{{}}, false, Ungraded},
	} {
		cell := newCell("02-reconciler", c.mark, c.attempts)
		if cell.Known != c.known || cell.Outcome != c.outcome {
			t.Errorf("%s: known %t, %s: %+v", c.name, cell.Known, cell.Outcome, cell)
		}
	}
}

func TestGradebookHasNoFormulas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"=HYPERLINK(1)": "'=HYPERLINK(1)", "-5": "-5", "-5+3": "'-5+3",
		"@x": "'@x", "+1": "+1", "ada": "ada", "": "", "\t=1": "'\t=1",
	} {
		if got := plain(text); got != want {
			t.Errorf("plain(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestRowsGroupAttempts(t *testing.T) {
	t.Parallel()
	c := fakeClass()
	c.Results = map[Key]Result{}
	for i := range c.Submissions {
		c.Submissions[i].Submitted = time.Date(2026, 11, i%28+1, 0, 0, 0, 0, time.UTC)
	}
	for _, row := range c.Rows() {
		for _, cell := range row.Cells {
			want := 1
			if row.Student == "student-02" && cell.Lab == "02-reconciler" {
				want = 2
			}
			if len(cell.Attempts) != want {
				t.Errorf("%s, %s: %d attempts", row.Student, cell.Lab, len(cell.Attempts))
			}
		}
	}
}

// TestRulesApplyToResults checks that the rules of a course affect the gradebook, the page of the class and the
// feedback.
func TestRulesApplyToResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	journal := openJournal(t, dir)
	defer closeJournal(t, journal)
	c := fakeClass()
	var err error
	c.Rules, err = rules.Parse("class.yaml",
		[]byte("late: {percent: 10}\nlabs: {1: {deadline: 2026-11-10 23:59}}\nstudents:\n"+
			"  student-01: {labs: {1: {points: -2.5, comment: Look again.}, 2: {excused: true}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Submissions {
		c.Submissions[i].Submitted = time.Date(2026, 11, 12, 12, 0, 0, 0, time.UTC)
	}
	if c.Results, err = Run(t.Context(), Options{
		Jobs: c.Jobs(), Grader: &fake{}, Journal: journal, Slots: 3,
	}); err != nil {
		t.Fatal(err)
	}
	if err := WriteResults(dir, c, About{Redactor: NewRedactor()}); err != nil {
		t.Fatal(err)
	}
	row := gradebookOf(t, dir)["student-01"]
	points, err := strconv.ParseFloat(row["01-icecream points"], 64)
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]string{
		"01-icecream late days": "2", "01-icecream final": decimal(max(0, points*0.8-2.5)),
		"01-icecream comment":   "Look again.",
		"02-reconciler outcome": Excused, "02-reconciler final": "", "total": decimal(max(0, points*0.8-2.5)),
	} {
		if row[column] != want {
			t.Errorf("%s is %q, want %q: %v", column, row[column], want, row)
		}
	}
	content, err := os.ReadFile(filepath.Join(dir, FeedbackDir, "student-01.zip"))
	if err != nil {
		t.Fatal(err)
	}
	grades := unzip(t, content)[GradesFile]
	for _, want := range []string{
		"2 days late", "-2.5 by hand", "Look again.", "does not count for you", `href="01-icecream/report.html"`,
	} {
		if !strings.Contains(grades, want) {
			t.Errorf("the feedback does not contain %q", want)
		}
	}
}
