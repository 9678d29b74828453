// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/classroom50"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/gradescope"
)

// schema compiles the schema of a format.
func schema(t *testing.T, format string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(filepath.Join("testdata", "formats", format+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func conforms(schema *jsonschema.Schema, data []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(document)
}

func encode(t *testing.T, r report.Report, format formats.Format, o formats.Options) []byte {
	t.Helper()
	data, err := formats.Encode(&r, format, o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// decode reads JSON as a reader of a format does, without our types.
func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

type gradescopeFile struct {
	Score            *float64 `json:"score"`
	Output           string
	Visibility       string
	StdoutVisibility string `json:"stdout_visibility"`
	Leaderboard      any
	Tests            []struct {
		Score                        float64
		MaxScore                     float64 `json:"max_score"`
		Status, Name, Output, Number string
		Visibility                   string
	}
}

func gradescopeSum(g gradescopeFile) (score, maxScore float64, passed bool) {
	passed = len(g.Tests) > 0
	for _, test := range g.Tests {
		score += test.Score
		maxScore += test.MaxScore
		passed = passed && test.Status == "passed"
	}
	return score, maxScore, passed
}

func TestGradescopeOfEachOutcome(t *testing.T) {
	t.Parallel()
	schema := schema(t, "gradescope")
	all := samples()
	all["no-checks"] = withoutChecks()
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.Submission.Dir = "/srv/secret/submission"
			data := encode(t, r, formats.Gradescope, formats.Options{})
			if err := conforms(schema, data); err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			got := decode[gradescopeFile](t, data)
			score, maxScore, passed := gradescopeSum(got)
			if got.Score == nil || *got.Score != float64(r.Score) ||
				score != float64(r.Score) || maxScore != float64(r.MaxScore) {
				t.Errorf("score is %v and its tests sum to %v of %v, want %d of %d",
					*got.Score, score, maxScore, r.Score, r.MaxScore)
			}
			if passed != r.FullMarks() {
				t.Errorf("the result looks passed: %v, but full marks: %v", passed, r.FullMarks())
			}
			if r.Outcome != report.Graded {
				first := got.Tests[0]
				for _, text := range []string{got.Output, first.Output} {
					if !strings.Contains(text, r.Reason) {
						t.Errorf("%q lacks the reason why there is no grade: %s", text, r.Reason)
					}
				}
				if first.Status != "failed" || first.Name != r.Outcome.Headline() {
					t.Errorf("first test is %+v, want one that failed and is named %q", first, r.Outcome.Headline())
				}
			}
			if got.Leaderboard != nil || got.StdoutVisibility != "hidden" || got.Visibility != "visible" {
				t.Errorf("leaderboard is %v and standard output %s, want none and hidden", got.Leaderboard, got.StdoutVisibility)
			}
			if bytes.Contains(data, []byte("secret")) {
				t.Error("the result names a folder of the machine")
			}
		})
	}
}

func TestGradescopeOutput(t *testing.T) {
	t.Parallel()
	all := samples()
	for name, want := range map[string][]string{
		"faults-failed": {
			"seed 2718281828", "freezer-down: It stays", "keeps demo.lva.io/finalizer", "sorbet is gone", "evidence:  4.912s",
			"it needs freezer-down", "measured: requests that a fault hit: 6", "config/crd is not what",
		},
		"graded-forbidden": {"//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=get;update;patch"},
		"not-built":        {"internal/controller/icecream_controller.go:61:12: undefined: toppings"},
		"crashed":          {"panic: runtime error"},
		"interrupted":      {"not a verdict on the submission"},
	} {
		data := encode(t, all[name], formats.Gradescope, formats.Options{})
		got := decode[gradescopeFile](t, data)
		text := got.Output
		for _, test := range got.Tests {
			text += test.Name + "\n" + test.Output
		}
		for _, part := range want {
			if !strings.Contains(strings.ReplaceAll(text, "seed: ", "seed "), part) {
				t.Errorf("%s lacks %q:\n%s", name, part, text)
			}
		}
	}
}

// A result that is written while checks run is final if the container is killed. It must not look like the result of
// a complete run.
func TestGradescopeWhileChecksRun(t *testing.T) {
	t.Parallel()
	r := samples()["timed-out"]
	r.Outcome, r.Reason, r.Seconds, r.Score = report.Graded, "", 0, 0 // the state before the run is concluded
	for i := range r.Checks {
		r.Checks[i].Points = 0
	}
	data := encode(t, r, formats.Gradescope, formats.Options{Gradescope: gradescope.Options{Unfinished: true}})
	if err := conforms(schema(t, "gradescope"), data); err != nil {
		t.Fatal(err)
	}
	got := decode[gradescopeFile](t, data)
	if score, _, passed := gradescopeSum(got); *got.Score != 25 || score != 25 || passed {
		t.Errorf("score is %v, sum of the tests %v, passed %v; want the 25 points of three checks", *got.Score, score, passed)
	}
	if !strings.Contains(got.Output, "had not finished") || !strings.Contains(got.Output, "3 of 13 checks") {
		t.Errorf("output lacks the note that the run had not finished: %q", got.Output)
	}
	if last := got.Tests[12]; last.Output != "It has not run yet." || last.Status != "failed" {
		t.Errorf("last check is %+v, want one that has not run yet", last)
	}
}

func TestGradescopeVisibility(t *testing.T) {
	t.Parallel()
	for _, visibility := range gradescope.Visibilities {
		options := formats.Options{Gradescope: gradescope.Options{Visibility: visibility}}
		got := decode[gradescopeFile](t, encode(t, samples()["graded-failed"], formats.Gradescope, options))
		for _, test := range got.Tests {
			if got.Visibility != visibility || test.Visibility != visibility {
				t.Errorf("visibility of %s is %s, and that of the result %s; want %s",
					test.Name, test.Visibility, got.Visibility, visibility)
			}
		}
	}
	r := graded(nil)
	_, err := formats.Encode(&r, formats.Gradescope, formats.Options{Gradescope: gradescope.Options{Visibility: "never"}})
	wantError(t, err, `"never": choose one of visible, after_due_date`)
}

// withoutChecks returns the report of a run that ended before its checks were known.
func withoutChecks() report.Report {
	r := ended(report.Error, "the list of labs can't be read")
	r.Checks = nil
	return r
}

var classroom = classroom50.Options{
	Classroom: "operators", Assignment: "lab-2", AssignmentType: "individual", Owner: "alice",
	Submission: "submit/2026-03-02T10-14-30Z-a1b2c3d",
	Commit:     "https://git.example/course/operators-lab-2-alice/commit/a1b2c3d",
	Release:    "https://git.example/course/operators-lab-2-alice/releases/tag/submit%2F2026-03-02T10-14-30Z-a1b2c3d",
	Review:     "https://git.example/course/operators-lab-2-alice/compare/0000000...a1b2c3d",
}

type classroom50File struct {
	Score       int
	MaxScore    int `json:"max-score"`
	Datetime    string
	GradedAt    string `json:"graded_at"`
	SubmittedBy any    `json:"submitted_by"`
	Tests       []struct {
		Name     string `json:"test-name"`
		Passed   bool
		Score    int
		MaxScore int `json:"max-score"`
		Title    string
		Status   string
		Output   string
	}
}

func TestClassroom50OfEachOutcome(t *testing.T) {
	t.Parallel()
	schema := schema(t, "classroom50")
	all := samples()
	all["no-checks"] = withoutChecks()
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.Submission.Dir = "/srv/secret/submission"
			data := encode(t, r, formats.Classroom50, formats.Options{Classroom50: classroom})
			if err := conforms(schema, data); err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			got := decode[classroom50File](t, data)
			score, maxScore, passed := 0, 0, len(got.Tests) > 0
			for _, test := range got.Tests {
				score += test.Score
				maxScore += test.MaxScore
				passed = passed && test.Passed
				if test.Passed != (test.Status == "passed") || test.Passed != (test.Score == test.MaxScore && test.Score > 0) {
					t.Errorf("the test %+v contradicts itself", test)
				}
			}
			if got.Score != r.Score || got.MaxScore != r.MaxScore || score != got.Score || maxScore != got.MaxScore {
				t.Errorf("score is %d of %d, and the tests sum to %d of %d; want %d of %d",
					got.Score, got.MaxScore, score, maxScore, r.Score, r.MaxScore)
			}
			if passed != r.FullMarks() {
				t.Errorf("the result looks passed: %v, but full marks: %v", passed, r.FullMarks())
			}
			if r.Outcome != report.Graded && (got.Tests[0].Passed || !strings.Contains(got.Tests[0].Output, r.Reason)) {
				t.Errorf("first test is %+v, want one that did not pass, with the reason %q", got.Tests[0], r.Reason)
			}
			if got.Datetime != r.Started.UTC().Format("2006-01-02T15:04:05Z") || got.GradedAt < got.Datetime {
				t.Errorf("submitted at %s and graded at %s, want the run's times", got.Datetime, got.GradedAt)
			}
			if got.SubmittedBy != nil || bytes.Contains(data, []byte("secret")) {
				t.Error("the result has unknown data, or names a folder of the machine")
			}
		})
	}
}

// The schemas of the formats are written by hand, so this test checks that they reject invalid files.
func TestFormatSchemasRejectInvalid(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	valid := map[string][]byte{
		"gradescope":  encode(t, r, formats.Gradescope, formats.Options{}),
		"classroom50": encode(t, r, formats.Classroom50, formats.Options{Classroom50: classroom}),
	}
	for _, test := range []struct {
		format, name string
		edit         func(map[string]any)
	}{
		{"gradescope", "no score anywhere", func(d map[string]any) { delete(d, "score"); d["tests"] = []any{} }},
		{"gradescope", "an unknown visibility", func(d map[string]any) { d["visibility"] = "secret" }},
		{"gradescope", "an unknown status", func(d map[string]any) {
			d["tests"].([]any)[0].(map[string]any)["status"] = "skipped"
		}},
		{"gradescope", "an unknown key", func(d map[string]any) { d["seed"] = 1 }},
		{"classroom50", "an unknown key", func(d map[string]any) { d["outcome"] = "graded" }},
		{"classroom50", "half a point", func(d map[string]any) { d["score"] = 0.5 }},
		{"classroom50", "a branch as submission", func(d map[string]any) { d["submission"] = "main" }},
		{"classroom50", "a time of a zone", func(d map[string]any) { d["datetime"] = "2026-03-02T10:15:00+01:00" }},
		{"classroom50", "an unknown type", func(d map[string]any) { d["assignment_type"] = "pair" }},
		{"classroom50", "a test without a verdict", func(d map[string]any) {
			delete(d["tests"].([]any)[0].(map[string]any), "passed")
		}},
	} {
		t.Run(test.format+" "+test.name, func(t *testing.T) {
			t.Parallel()
			document := decode[map[string]any](t, valid[test.format])
			test.edit(document)
			data, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			if err := conforms(schema(t, test.format), data); err == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

func TestUnknownFormatIsRejected(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	_, err := formats.Encode(&r, "pdf", formats.Options{})
	wantError(t, err, `no format "pdf": choose one of classroom50, gradescope, html, json, junit, markdown`)
	for _, format := range formats.All {
		if data, err := formats.Encode(&r, format, formats.Options{Classroom50: classroom}); err != nil || len(data) == 0 {
			t.Errorf("%s: %d bytes, %v", format, len(data), err)
		}
	}
	if !slices.Contains(formats.All, formats.JSON) {
		t.Error("formats.All lacks JSON")
	}
}
