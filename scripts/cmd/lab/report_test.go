// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/classroom50"
	"lva.io/operators/scripts/grading/report/formats"
)

// reported creates a checkout in which lab 2 has a report.
func reported(t *testing.T) string {
	t.Helper()
	root := bare(t)
	stored, err := report.Read(filepath.Join(
		findCheckout(t).Root, "scripts", "grading", "report", "testdata", "graded-failed.json",
	))
	if err != nil {
		t.Fatal(err)
	}
	stored.Submission.Dir = filepath.Join(root, "labs", "02-reconciler")
	if err := formats.Write(filepath.Join(root, "out", "02-reconciler"), *stored); err != nil {
		t.Fatal(err)
	}
	return root
}

// Each format is written to standard output, for a pipe, or into a file, with the same content.
func TestReportInEveryForm(t *testing.T) {
	root := reported(t)
	for name, value := range map[string]string{
		"CLASSROOM": "operators", "ASSIGNMENT": "lab-2", "OWNER": "alice", "SUBMISSION_TAG": "submit/1",
		"COMMIT_URL": "https://git.example/c", "RELEASE_URL": "https://git.example/r",
	} {
		t.Setenv(name, value)
	}
	object := func(content string) bool { return json.Valid([]byte(content)) && strings.HasPrefix(content, "{") }
	for format, right := range map[string]func(string) bool{
		"terminal": func(c string) bool { return strings.Contains(c, "FAIL newest-goes") && !strings.Contains(c, "\x1b") },
		"json":     func(c string) bool { return report.Validate([]byte(c)) == nil },
		"junit": func(c string) bool {
			return xml.Unmarshal([]byte(c), new(struct{})) == nil && strings.Contains(c, "<testsuite ")
		},
		"gradescope":  func(c string) bool { return object(c) && strings.Contains(c, `"stdout_visibility"`) },
		"classroom50": func(c string) bool { return object(c) && strings.Contains(c, classroom50.Schema) },
		"markdown":    func(c string) bool { return strings.HasPrefix(c, "## Lab 2, The reconciler: 35 of 100 points") },
		"html":        func(c string) bool { return strings.HasPrefix(c, "<!doctype html>") },
	} {
		t.Run(format, func(t *testing.T) {
			printed := run(t, root, "report", "2", "--format", format)
			if printed.code != 0 || printed.stderr != "" || !right(printed.stdout) {
				t.Fatalf("exit code %d, %s\n%s", printed.code, printed.stderr, printed.stdout)
			}
			file := filepath.Join(t.TempDir(), "result")
			written := run(t, root, "report", "2", "--format", format, "-o", file)
			content, err := os.ReadFile(file)
			if err != nil || written.code != 0 || written.stdout != "" || string(content) != printed.stdout {
				t.Errorf("exit code %d, %v, %s%s; want the file to equal the output",
					written.code, err, written.stdout, written.stderr)
			}
		})
	}
}

// After an interrupted run, a person still sees the last verdict, and no report can be handed in.
func TestReportOfAnInterruptedRun(t *testing.T) {
	t.Parallel()
	for _, outcome := range []report.Outcome{report.Interrupted, report.Unfinished} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			root := reported(t)
			out := filepath.Join(root, "out", "02-reconciler")
			finished, err := report.Read(filepath.Join(out, report.JSONFile))
			if err != nil {
				t.Fatal(err)
			}
			interrupted := full(finished.Submission.Dir)
			interrupted.Outcome, interrupted.Reason, interrupted.Score = outcome, "it was ended", 0
			interrupted.Checks[0].Status, interrupted.Checks[0].Points = report.Skipped, 0
			if err := formats.Write(out, interrupted); err != nil {
				t.Fatal(err)
			}
			if got := run(t, root, "report", "2"); got.code != 0 || !strings.Contains(got.stdout, "it was ended") ||
				got.stderr != "" {
				t.Errorf("output before any run has ended:\n%s%s", got.stdout, got.stderr)
			}
			if err := formats.Write(filepath.Join(out, "verdict"), *finished); err != nil {
				t.Fatal(err)
			}
			if got := run(t, root, "report", "2"); got.code != 0 || !strings.Contains(got.stdout, "FAIL newest-goes") ||
				!strings.HasPrefix(got.stderr, "The last run, of ") ||
				!strings.Contains(got.stderr, ", did not end: this is the report of the last one that did, of ") {
				t.Errorf("got output\n%s%s", got.stdout, got.stderr)
			}
			if got := run(t, root, "report", "2", "--format", "json"); got.code != 0 ||
				!strings.Contains(got.stdout, `"outcome": "`+string(outcome)+`"`) || got.stderr != "" {
				t.Errorf("got JSON\n%s%s", got.stdout, got.stderr)
			}
		})
	}
}

func TestReportPublishesNoPartialVerdict(t *testing.T) {
	root := reported(t)
	for name, value := range map[string]string{
		"CLASSROOM": "operators", "ASSIGNMENT": "lab-2", "OWNER": "alice", "SUBMISSION_TAG": "submit/1",
		"COMMIT_URL": "https://git.example/c", "RELEASE_URL": "https://git.example/r",
	} {
		t.Setenv(name, value)
	}
	partial := full(filepath.Join(root, "labs", "02-reconciler"))
	partial.Undecided = 25
	if err := formats.Write(filepath.Join(root, "out", "02-reconciler"), partial); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"classroom50", "gradescope"} {
		file := filepath.Join(t.TempDir(), "result.json")
		got := run(t, root, "report", "2", "--format", format, "-o", file)
		if _, err := os.Stat(file); err == nil || got.code != 1 || strings.Count(got.stderr, "\n") != 1 ||
			!strings.Contains(got.stderr, format+" publishes a grade, but the last run of lab 2 has none, "+
				"because --without-node skipped checks worth 25 points") {
			t.Errorf("%s: exit code %d, %q; reading the file: %v", format, got.code, got.stderr, err)
		}
	}
}

func TestReportErrors(t *testing.T) {
	t.Parallel()
	root := reported(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"report", "1"}, "grade the lab first"},
		{[]string{"report", "2", "--format", "pdf"}, `there is no format "pdf": choose one of `},
		{[]string{"report", "2", "--format", "gradescope", "--visibility", "never"}, "choose one of visible, after_due_date"},
		{[]string{"report", "2", "--format", "classroom50"}, "CLASSROOM (the short name of the classroom) is not set"},
		{[]string{"report", "2", "-o", filepath.Join(root, "missing", "file")}, "missing"},
	} {
		got := run(t, root, test.args...)
		if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, test.want) ||
			strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q; want one line with %q", test.args, got.code, got.stderr, test.want)
		}
	}
}

// A replay of the last run or of a report asks no questions if there is no terminal.
func TestReplay(t *testing.T) {
	root := reported(t)
	stored, err := report.Read(filepath.Join(
		findCheckout(t).Root, "scripts", "proving", "browser", "testdata", "real-failed.json",
	))
	if err != nil {
		t.Fatal(err)
	}
	stored.Lab = "02-reconciler"
	stored.Submission.Dir = filepath.Join(root, "labs", "02-reconciler")
	if err := formats.Write(filepath.Join(root, "out", "02-reconciler"), *stored); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "out", "02-reconciler", report.JSONFile)
	for _, test := range []struct {
		name, wanted string
		code         int
		args         []string
	}{
		{"the check to fix first", "freezer-down (failed)", 0, []string{"2"}},
		{"another check", "killed-between (passed)", 0, []string{"2", "--check", "killed-between"}},
		{"a file", "freezer-down (failed)", 0, []string{file}},
		{
			"an unknown check", `the report has no check "nonsense": it has finalizer-added,`, 1,
			[]string{"2", "--check", "nonsense"},
		},
		{"a missing file", "there is no report missing.json", 1, []string{"missing.json"}},
		{"no run", "there is no report", 1, []string{"3"}},
		{
			"a file and a folder", "--dir, --main and --solution belong to the number of a lab", 1,
			[]string{file, "--solution"},
		},
		{"nothing", "replay needs one lab or one report", 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			printed := run(t, root, append([]string{"replay"}, test.args...)...)
			if all := printed.stdout + printed.stderr; printed.code != test.code || !strings.Contains(all, test.wanted) {
				t.Errorf("exit code %d, want %d and %q:\n%s", printed.code, test.code, test.wanted, all)
			}
			if strings.Contains(printed.stdout, "What does the operator do next?") {
				t.Errorf("a question was asked without a terminal:\n%s", printed.stdout)
			}
		})
	}
}
