// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestGoldenReports(t *testing.T) {
	t.Parallel()
	outcomes := map[report.Outcome]bool{}
	for name, r := range samples() {
		outcomes[r.Outcome] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := formats.Write(dir, r); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", readFile(t, filepath.Join(dir, report.JSONFile)))
			golden(t, name+".xml", readFile(t, filepath.Join(dir, report.JUnitFile)))

			read, err := report.Read(filepath.Join(dir, report.JSONFile))
			if err != nil {
				t.Fatal(err)
			}
			r.Sanitize()
			if diff := cmp.Diff(&r, read); diff != "" {
				t.Errorf("Read() returned another report (-written +read):\n%s", diff)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 3 {
				t.Errorf("folder contains %v (%v), want only the three files", entries, err)
			}
		})
	}
	for _, outcome := range report.Outcomes {
		if !outcomes[outcome] {
			t.Errorf("no sample has the outcome %s", outcome)
		}
	}
}

// Writing a report must not change its lists, which callers reuse.
func TestWriteKeepsCallerSlices(t *testing.T) {
	t.Parallel()
	r := samples()["crashed"]
	r.OperatorLog[0], r.Checks[0].Title = "\x1b[31mred", "a\x07"
	if err := formats.Write(t.TempDir(), r); err != nil {
		t.Fatal(err)
	}
	if r.OperatorLog[0] != "\x1b[31mred" || r.Checks[0].Title != "a\x07" {
		t.Errorf("the lists changed to %q and %q", r.OperatorLog[0], r.Checks[0].Title)
	}
}

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edit func(map[string]any)
		want string
	}{
		{"another version", func(r map[string]any) { r["schema"] = "operator-labs/report/v1" }, "version .*v1.*grade again"},
		{"an unknown field", func(r map[string]any) { r["grade"] = 1 }, "grade"},
		{"an unknown field of a check", func(r map[string]any) { check0(r)["hint"] = "x" }, "/checks/0.*hint"},
		{"an unknown outcome", func(r map[string]any) { r["outcome"] = "fine" }, "/outcome"},
		{"an unknown status", func(r map[string]any) { check0(r)["status"] = "ok" }, "/checks/0/status"},
		{"a missing field", func(r map[string]any) { delete(r, "environment") }, "environment"},
		{"no grade without a reason", func(r map[string]any) { r["outcome"] = "crashed" }, "reason"},
		{"a grade with a reason", func(r map[string]any) { r["reason"] = "x" }, "/reason"},
		{"a grade without checks", func(r map[string]any) { r["checks"], r["score"] = []any{}, 0 }, "/checks"},
		{"a failure without expectation", func(r map[string]any) { check0(r)["status"] = "failed" }, "expected"},
		{"a skip without reason", func(r map[string]any) { check0(r)["status"] = "skipped" }, "/checks/0.*reason"},
		{"a start that is not a time", func(r map[string]any) { r["started"] = "today" }, "/started"},
		{"a line without end", func(r map[string]any) { r["notices"] = []any{strings.Repeat("x", 501)} }, "/notices/0"},
		{"partial points", func(r map[string]any) { check0(r)["points"] = 3 }, "toppings-count.*3 of 10"},
		{"a score that does not add up", func(r map[string]any) { r["score"] = 99 }, "score is 99.*100"},
		{"a highest score that does not add up", func(r map[string]any) { r["maxScore"] = 90 }, "90.*100"},
		{"a moment of an unknown service", func(r map[string]any) {
			r["timeline"] = []any{map[string]any{"at": 1, "seconds": 0, "service": "dns", "what": "get"}}
		}, "/timeline/0/service"},
		{"a seed of 0", func(r map[string]any) { r["seed"] = 0 }, "/seed"},
		{"a check twice", func(r map[string]any) { r["checks"] = append(r["checks"].([]any), check0(r)) }, "twice"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			valid, err := samples()["graded-full"].JSON()
			if err != nil {
				t.Fatal(err)
			}
			var document map[string]any
			if err := json.Unmarshal(valid, &document); err != nil {
				t.Fatal(err)
			}
			test.edit(document)
			data, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			wantError(t, report.Validate(data), test.want)
		})
	}
	t.Run("no JSON", func(t *testing.T) {
		t.Parallel()
		wantError(t, report.Validate([]byte("<html>")), "not a report")
	})
}

func check0(document map[string]any) map[string]any {
	return document["checks"].([]any)[0].(map[string]any)
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	_, err := report.Read(file)
	wantError(t, err, "no report .*report.json: grade the lab first")
	if err := os.WriteFile(file, []byte(`{"schema":"operator-labs/report/v0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = report.Read(file)
	wantError(t, err, "report.json: .*v0")
}

// An inconsistent report must neither be written nor replace the existing file.
func TestInvalidReportKeepsOldFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := samples()["graded-full"]
	if err := formats.Write(dir, good); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, filepath.Join(dir, report.JSONFile))
	bad := good
	bad.Score = 7
	wantError(t, formats.Write(dir, bad), "02-reconciler: the score is 7")
	if after := readFile(t, filepath.Join(dir, report.JSONFile)); !bytes.Equal(before, after) {
		t.Error("the old report changed")
	}
}

func TestWriteReportsFolderError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, formats.Write(filepath.Join(file, "out"), samples()["graded-full"]),
		"creating a folder for the report.*file")
}

func TestExplainedCheckIsNearestToCause(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// failed are the checks that failed, and causes the causes that they list.
		failed []string
		causes map[string][]string
		want   string
		also   []string
	}{
		{"nothing failed", nil, nil, "", nil},
		{"the first", []string{"newest-goes", "settles"}, nil, "newest-goes", []string{"settles"}},
		{
			"a cause that failed",
			[]string{"newest-goes", "settles", "least-privilege"},
			map[string][]string{"newest-goes": {"least-privilege"}},
			"least-privilege",
			[]string{"newest-goes", "settles"},
		},
		{
			"a cause that did not",
			[]string{"newest-goes", "settles"},
			map[string][]string{"newest-goes": {"least-privilege"}},
			"newest-goes",
			[]string{"settles"},
		},
		{
			"the likeliest of two",
			[]string{"newest-goes", "status-subresource", "least-privilege"},
			map[string][]string{"newest-goes": {"burst", "least-privilege", "status-subresource"}},
			"least-privilege",
			[]string{"newest-goes", "status-subresource"},
		},
		{
			"the cause of a cause",
			[]string{"newest-goes", "settles", "least-privilege"},
			map[string][]string{"newest-goes": {"least-privilege"}, "least-privilege": {"settles"}},
			"settles",
			[]string{"newest-goes", "least-privilege"},
		},
		{
			"the cause of another failure",
			[]string{"newest-goes", "burst", "settles"},
			map[string][]string{"burst": {"settles"}},
			"newest-goes",
			[]string{"burst", "settles"},
		},
		{
			"a circle, which labs.yaml can't have",
			[]string{"newest-goes", "settles"},
			map[string][]string{"newest-goes": {"settles"}, "settles": {"newest-goes"}},
			"settles",
			[]string{"newest-goes"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := graded(func(r *report.Report) {
				for _, id := range test.failed {
					fail(r, id, "it is right", "it is wrong")
				}
				for id, causes := range test.causes {
					find(r, id).Causes = causes
				}
			})
			got := ""
			if explained := r.Explained(); explained != nil {
				got = explained.ID
			}
			var also []string
			for _, check := range r.AlsoFailed() {
				also = append(also, check.ID)
			}
			if got != test.want || !slices.Equal(also, test.also) {
				t.Errorf("Explained() = %q and AlsoFailed() = %q, want %q and %q", got, also, test.want, test.also)
			}
		})
	}
}

// The schema and the Go types are written by hand, so this test compares them.
func TestSchemaDescribesEveryField(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(report.SchemaJSON, &schema); err != nil {
		t.Fatal(err)
	}
	definitions := schema["$defs"].(map[string]any)
	seen := 0
	var compare func(reflect.Type, map[string]any)
	compare = func(goType reflect.Type, object map[string]any) {
		seen++
		properties := object["properties"].(map[string]any)
		if object["additionalProperties"] != false {
			t.Errorf("%s allows unknown fields", goType)
		}
		required, _ := object["required"].([]any)
		for field := range goType.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			property, ok := properties[name].(map[string]any)
			if !ok {
				t.Errorf("%s.%s has no property %q", goType, field.Name, name)
				continue
			}
			delete(properties, name)
			if slices.Contains(required, any(name)) == (options == "omitempty") {
				t.Errorf("%s.%s must be either required or omitempty", goType, field.Name)
			}
			target := property
			if items, ok := property["items"].(map[string]any); ok {
				target = items
			}
			elem := field.Type
			if elem.Kind() == reflect.Slice {
				elem = elem.Elem()
			}
			if ref, ok := target["$ref"].(string); ok {
				compare(elem, definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any))
				continue
			}
			if unit := regexp.MustCompile("in seconds|in the unit that unit names"); elem.Kind() == reflect.Float64 &&
				!unit.MatchString(property["description"].(string)) {
				t.Errorf("description of %s.%s lacks the unit", goType, field.Name)
			}
			if text, _ := property["description"].(string); len(text) < 10 {
				t.Errorf("%s.%s has no description", goType, field.Name)
			}
		}
		for name := range properties {
			t.Errorf("the schema has property %q, but %s has no such field", name, goType)
		}
	}
	compare(reflect.TypeFor[report.Report](), schema)
	if want := 1 + len(definitions); seen != want {
		t.Errorf("compared %d objects, want %d", seen, want)
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	for want, diagnostic := range map[string]report.Diagnostic{
		"main.go:3:7": {File: "main.go", Line: 3, Column: 7},
		"main.go:3":   {File: "main.go", Line: 3},
		"main.go":     {File: "main.go", Column: 7},
		"":            {Line: 3},
	} {
		if got := diagnostic.Position(); got != want {
			t.Errorf("Position() of %+v = %q, want %q", diagnostic, got, want)
		}
	}
}

func wantError(t *testing.T, err error, pattern string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that matches %q", pattern)
	}
	if !regexp.MustCompile("(?s)" + pattern).MatchString(err.Error()) {
		t.Errorf("error is %q, want one that matches %q", err, pattern)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(readFile(t, file)), string(got)); diff != "" {
		t.Errorf("%s (-want +got; `go test -update` rewrites it):\n%s", file, diff)
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
