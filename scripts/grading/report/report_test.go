// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	readjunit "github.com/joshdk/go-junit"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/classroom50"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/junit"
	"lva.io/operators/scripts/grading/report/terminal"
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
				t.Errorf("what was read is not what was written (-written +read):\n%s", diff)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 3 {
				t.Errorf("the folder has %v (%v), want the three files only", entries, err)
			}
		})
	}
	for _, outcome := range report.Outcomes {
		if !outcomes[outcome] {
			t.Errorf("no sample has the outcome %s", outcome)
		}
	}
}

// JUnit is read by two parsers: go-junit as a tool that consumes it, and one of our own that is as strict as
// what the readers of such files demand (names, counts, times, failures with type and message).
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
				Passed: r.Count(report.Passed), Failed: r.Count(report.Failed), Skipped: r.Count(report.Skipped), Tests: len(r.Checks),
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
							t.Errorf("the failure of %s lacks %q:\n%s", check.ID, part, text)
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
		t.Errorf("got the suites %+v, want one for each lab", suites)
	}
}

// element is any XML element, with what stands directly in it.
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

// optional is a number whose absence means 0.
func (e element) optional(t *testing.T, name string) int {
	t.Helper()
	if !slices.ContainsFunc(e.Attrs, func(a xml.Attr) bool { return a.Name.Local == name }) {
		return 0
	}
	return e.number(t, name)
}

// count is the number of test cases in a suite, or of those with a child of a name.
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
	// Strict: undeclared entities, unclosed elements and characters that XML 1.0 forbids are errors.
	decoder := xml.NewDecoder(bytes.NewReader(data))
	var root element
	if err := decoder.Decode(&root); err != nil {
		t.Fatalf("not well-formed: %v", err)
	}
	if token, err := decoder.Token(); !errors.Is(err, io.EOF) {
		if text, ok := token.(xml.CharData); !ok || strings.TrimSpace(string(text)) != "" {
			t.Fatalf("something follows the root: %v, %v", token, err)
		}
	}
	seconds := regexp.MustCompile(`^[0-9]+\.[0-9]{3}$`)
	allowed := map[string][]string{
		"testsuites": {"testsuite"},
		"testsuite":  {"properties", "testcase", "system-out"},
		"testcase":   {"failure", "error", "skipped", "system-out"},
	}
	if root.XMLName.Local != "testsuites" {
		t.Fatalf("the root is <%s>", root.XMLName.Local)
	}
	var walk func(element)
	walk = func(e element) {
		for _, child := range e.Children {
			if names, ok := allowed[e.XMLName.Local]; ok && !slices.Contains(names, child.XMLName.Local) {
				t.Errorf("<%s> in <%s>", child.XMLName.Local, e.XMLName.Local)
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
			t.Errorf("%s=%d of the root, but those of the suites sum to %d", name, total, sum)
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

func TestSafe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"plain text stays", "a <b> & \"c\"\n\tä 冰", "a <b> & \"c\"\n\tä 冰"},
		{"colours go", "\x1b[1;31mERROR\x1b[0m done", "ERROR done"},
		{"cursor and screen go", "\x1b[2J\x1b[10;20Hx\x1b[?25l", "x"},
		{"window titles and links go", "\x1b]0;owned\x07a\x1b]8;;http://x\x1b\\b", "ab"},
		{"character sets go", "\x1b(0x\x1b=", "x"},
		{"an open sequence swallows nothing", "\x1b]0;the rest", `\x1b]0;the rest`},
		{"a half sequence at the end", "x\x1b[31", `x\x1b[31`},
		{"control characters are seen", "a\x00b\x07c\x7f", `a\x00b\x07c\x7f`},
		{"8-bit control sequences", "\u009b31mred", `\x9b31mred`},
		{"Windows lines", "a\r\nb", "a\nb"},
		{"a line that hides itself", "bad\rgood", `bad\x0dgood`},
		{"invalid UTF-8", "a\xff\xfeb", "a\uFFFDb"},
		{"text that turns around", "a\u202eb\u2066c\u2028d", `a\u202eb\u2066c\u2028d`},
		{"characters that XML forbids", "a\uFFFEb\uFFFFc", "a\uFFFDb\uFFFDc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := report.Safe(test.text); got != test.want {
				t.Errorf("Safe(%q) = %q, want %q", test.text, got, test.want)
			}
			if again := report.Safe(test.want); again != test.want {
				t.Errorf("a second time it is %q", again)
			}
		})
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("\x1b[31mred\x1b]0;title\x07\x00\xff")
	f.Add("]]>&<\u202e\r\x9b")
	f.Fuzz(func(t *testing.T, text string) {
		safe := report.Safe(text)
		if !utf8.ValidString(safe) || strings.ContainsAny(safe, "\x00\x07\x1b\r\x7f\u009b\u202e\uFFFE\uFFFF") {
			t.Errorf("Safe(%q) = %q", text, safe)
		}
		if again := report.Safe(safe); again != safe {
			t.Errorf("a second time %q is %q", safe, again)
		}
	})
}

// The worst that a submission can put into a report still makes valid JSON and well-formed XML of a limited size.
func TestHostileSubmission(t *testing.T) {
	t.Parallel()
	hostile := "]]><testcase name=\"forged\"/>\x1b[2J\x00\xff\r\n\uFFFE</failure>" + strings.Repeat("冰", 10_000)
	r := graded(func(r *report.Report) {
		fail(r, "burst", hostile, hostile, slices.Repeat([]string{hostile}, 200)...)
		skip(r, "restart", hostile)
	})
	r.Submission.Dir = hostile
	r.Notices = slices.Repeat([]string{hostile, "  "}, 300)
	r.OperatorLog = slices.Repeat([]string{hostile}, 1000)
	r.OperatorLog = append(r.OperatorLog, "the last line")
	r.Timeline = slices.Repeat([]report.Moment{
		{At: -1, Seconds: 1, Service: "api", What: hostile, Code: -7, Fault: hostile}, {Service: "api"},
	}, 300)
	r.Checks[0].Measurements = []report.Measurement{{Name: hostile, Value: 1, Unit: hostile}}
	r.Diagnostics = slices.Repeat([]report.Diagnostic{{File: hostile, Line: -1, Message: hostile}, {}}, 300)
	r.Forbidden = slices.Repeat([]report.Forbidden{{Verb: "get", Resource: hostile, Count: 1, Marker: hostile}}, 300)

	dir := t.TempDir()
	if err := formats.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	data := readFile(t, filepath.Join(dir, report.JUnitFile))
	checkJUnit(t, data)
	suites, err := readjunit.Ingest(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := suites[0].Totals.Tests; n != len(r.Checks) {
		t.Errorf("there are %d test cases, want %d: one was forged or lost", n, len(r.Checks))
	}
	read, err := report.Read(filepath.Join(dir, report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(read.OperatorLog); n != report.MaxLogLines || read.OperatorLog[n-1] != "the last line" {
		t.Errorf("of the log %d lines are kept, the last one is %q", n, read.OperatorLog[n-1])
	}
	burst := find(read, "burst")
	if n := len(burst.Evidence); n != report.MaxEvidence || burst.Evidence[n-1] != "… and 151 more" {
		t.Errorf("of the evidence %d lines are kept, the last one is %q", n, burst.Evidence[n-1])
	}
	if n := utf8.RuneCountInString(burst.Evidence[0]); n != report.MaxLine {
		t.Errorf("a line of evidence has %d characters, want %d", n, report.MaxLine)
	}
}

func TestMeasurementIsShortForPeople(t *testing.T) {
	t.Parallel()
	for want, measurement := range map[string]report.Measurement{
		"p99: 4.27 ms":     {Name: "p99", Value: 4.2689, Unit: "ms"},
		"p99: 0.00312 s":   {Name: "p99", Value: 0.003118, Unit: "s"},
		"retries: 4":       {Name: "retries", Value: 4},
		"writes: 123457":   {Name: "writes", Value: 123456.7},
		"drift: -12.3 ms":  {Name: "drift", Value: -12.34, Unit: "ms"},
		"nothing: 0 bytes": {Name: "nothing", Unit: "bytes"},
		"much: 1.23e+15":   {Name: "much", Value: 1234567890123456},
		"little: 1.2e-07":  {Name: "little", Value: 0.00000012},
	} {
		if got := measurement.String(); got != want {
			t.Errorf("%+v is %q, want %q", measurement, got, want)
		}
	}
}

func TestMeasurementsThatAreNoFiguresAreLeftOut(t *testing.T) {
	t.Parallel()
	r := graded(func(r *report.Report) {
		find(r, "burst").Measurements = append([]report.Measurement{
			{Name: "divided by zero", Value: math.Inf(1)}, {Name: "no number", Value: math.NaN()}, {Value: 1}, {Name: "kept\n", Value: 1},
		}, slices.Repeat([]report.Measurement{{Name: "more", Value: 2}}, 50)...)
	})
	read := writeAndRead(t, r)
	kept := find(read, "burst").Measurements
	if len(kept) != report.MaxMeasurements || kept[0] != (report.Measurement{Name: "kept", Value: 1}) {
		t.Errorf("%d measurements are kept, the first is %+v", len(kept), kept[0])
	}
}

// Of an operator that runs in circles, the moments that say something must not be crowded out by thousands of reads.
func TestTimelineKeepsWhatSaysMost(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	for i := range 10_000 {
		moment := report.Moment{At: float64(10_000 - i), Service: "api", What: "get icecreams banana", Code: 200}
		switch i % 100 {
		case 0:
			moment.What = "update icecreams banana"
		case 1:
			moment.Fault, moment.Code = "server-error", 500
		case 2:
			moment = report.Moment{At: moment.At, Service: "operator", What: "killed\x07"}
		}
		r.Timeline = append(r.Timeline, moment)
	}
	read := writeAndRead(t, r)
	if len(read.Timeline) != report.MaxTimeline {
		t.Fatalf("%d moments are kept, want %d", len(read.Timeline), report.MaxTimeline)
	}
	count := map[string]int{}
	for i, moment := range read.Timeline {
		count[moment.What+" "+moment.Fault]++
		if i > 0 && moment.At < read.Timeline[i-1].At {
			t.Fatalf("the moment %d is before the one before it", i)
		}
	}
	want := map[string]int{
		"update icecreams banana ": 100, "get icecreams banana server-error": 100, `killed\x07 `: 100, "get icecreams banana ": 1700,
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("kept are (-want +got):\n%s", diff)
	}
	again := *read
	again.Sanitize()
	if diff := cmp.Diff(*read, again); diff != "" {
		t.Errorf("a second time it changes:\n%s", diff)
	}

	writes := graded(nil)
	writes.Timeline = slices.Repeat([]report.Moment{{At: 1, Service: "api", What: "update icecreams banana", Code: 200}}, 3000)
	if read := writeAndRead(t, writes); len(read.Timeline) != report.MaxTimeline {
		t.Errorf("of 3000 writes %d are kept, want %d", len(read.Timeline), report.MaxTimeline)
	}
}

func writeAndRead(t *testing.T, r report.Report) *report.Report {
	t.Helper()
	dir := t.TempDir()
	if err := formats.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	read, err := report.Read(filepath.Join(dir, report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// Whoever reuses the lists of a report must not find them changed by writing it.
func TestWriteLeavesTheCallersListsAlone(t *testing.T) {
	t.Parallel()
	r := samples()["crashed"]
	r.OperatorLog[0], r.Checks[0].Title = "\x1b[31mred", "a\x07"
	if err := formats.Write(t.TempDir(), r); err != nil {
		t.Fatal(err)
	}
	if r.OperatorLog[0] != "\x1b[31mred" || r.Checks[0].Title != "a\x07" {
		t.Errorf("now they are %q and %q", r.OperatorLog[0], r.Checks[0].Title)
	}
}

func TestSanitizePutsWordsWhereThereAreNone(t *testing.T) {
	t.Parallel()
	r := graded(func(r *report.Report) {
		fail(r, "burst", "", "")
		skip(r, "restart", " ")
	})
	r.Outcome = report.Interrupted
	r.Steps = nil
	if err := formats.Write(t.TempDir(), r); err != nil {
		t.Error(err)
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
		{"a start that is no time", func(r map[string]any) { r["started"] = "today" }, "/started"},
		{"a line without end", func(r map[string]any) { r["notices"] = []any{strings.Repeat("x", 501)} }, "/notices/0"},
		{"points for nothing", func(r map[string]any) { check0(r)["points"] = 3 }, "toppings-count.*3 of 10"},
		{"a score that does not add up", func(r map[string]any) { r["score"] = 99 }, "score is 99.*100"},
		{"a highest score that does not", func(r map[string]any) { r["maxScore"] = 90 }, "90.*100"},
		{"a moment of an unknown service", func(r map[string]any) {
			r["timeline"] = []any{map[string]any{"at": 1, "seconds": 0, "service": "dns", "what": "get"}}
		}, "/timeline/0/service"},
		{"a seed that is none", func(r map[string]any) { r["seed"] = 0 }, "/seed"},
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
		wantError(t, report.Validate([]byte("<html>")), "no report")
	})
}

func check0(document map[string]any) map[string]any {
	return document["checks"].([]any)[0].(map[string]any)
}

func TestReadSaysWhatToDo(t *testing.T) {
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

// A report that contradicts itself must neither be written nor destroy the one that is there.
func TestWriteRefusesWithoutTouchingTheOldReport(t *testing.T) {
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

func TestWriteNamesTheFolderItCannotMake(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, formats.Write(filepath.Join(file, "out"), samples()["graded-full"]), "making a folder for the report.*file")
}

func TestSummary(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"graded-full":   "02-reconciler: 100 of 100 points, all 13 checks passed",
		"graded-failed": "02-reconciler: 35 of 100 points, 5 of 13 checks passed, fix first: newest-goes",
		"not-built":     "02-reconciler: 0 of 100 points, not-built: it does not compile: 7 errors",
		"interrupted":   "02-reconciler: no grade, interrupted: Ctrl-C ended the run",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := samples()[name]
			if got := r.Summary(); got != want {
				t.Errorf("Summary() = %q, want %q", got, want)
			}
		})
	}
}

func TestFullMarksNeedAGradeAndEveryCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edit func(*report.Report)
		want bool
	}{
		{"all passed", func(*report.Report) {}, true},
		{"crashed after the last check", func(r *report.Report) { r.Outcome = report.Crashed }, false},
		{"no checks", func(r *report.Report) { r.Checks = nil }, false},
		{"nothing to get", func(r *report.Report) { r.Score, r.MaxScore = 0, 0 }, false},
		{"one skipped", func(r *report.Report) { skip(r, "burst", "x") }, false},
		{"one failed", func(r *report.Report) { fail(r, "burst", "x", "y") }, false},
		{"some can't be decided here", func(r *report.Report) { r.Undecided = 25 }, false},
		{"a score too low", func(r *report.Report) { r.Score-- }, false},
		{"an extension that was not begun", func(r *report.Report) { extend(r, report.Skipped) }, true},
		{"an extension that failed", func(r *report.Report) { extend(r, report.Failed) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := graded(nil)
			test.edit(&r)
			if got := r.FullMarks(); got != test.want {
				t.Errorf("FullMarks() = %v, want %v", got, test.want)
			}
		})
	}
}

func TestPointsThatThisMachineCanDecide(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	r.Undecided = 25
	if want := fmt.Sprintf("%d of the %d points that this machine can decide", r.Score, r.MaxScore); r.Points() != want {
		t.Errorf("it has %s", r.Points())
	}
}

// A partial verdict looks like a grade nowhere: formats that publish one refuse it, and the others say what it is.
func TestAPartialVerdictIsNoGrade(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	r.Undecided = 25
	for _, format := range []formats.Format{formats.Classroom50, formats.Gradescope} {
		data, err := formats.Encode(&r, format, formats.Options{})
		const want = " publishes a grade, and the last run of lab 2 has none, since --without-node has left out checks worth 25 points: " +
			"grade it without --without-node, on a machine that can run Pods"
		if data != nil || err == nil || err.Error() != string(format)+want {
			t.Errorf("%s: %q, %v", format, data, err)
		}
	}
	for format, want := range map[formats.Format]string{
		formats.JUnit:    `message="The verdict is partial and no grade: --without-node has left out checks worth 25 points" type="partial"`,
		formats.HTML:     "<title>Partial, 100 of 100: ",
		formats.Markdown: "100 of the 100 points that this machine can decide",
	} {
		if data := encode(t, r, format, formats.Options{}); !strings.Contains(string(data), want) {
			t.Errorf("%s does not say %q:\n%s", format, want, data)
		}
	}
	if data := encode(t, r, formats.JUnit, formats.Options{}); !strings.Contains(string(data), `errors="1"`) {
		t.Errorf("JUnit counts no error:\n%s", data)
	}
}

// extend adds the check of an extension to a report.
func extend(r *report.Report, status report.Status) {
	check := report.Check{ID: "migrated", Title: "What is stored is migrated", Extension: true, MaxPoints: 10, Status: status}
	switch status {
	case report.Passed:
		check.Points = 10
	case report.Failed:
		check.Expected, check.Observed = "[v1beta1]", "[v1alpha1]"
	case report.Skipped:
		check.Reason = "skipped: the extension is not begun"
	}
	r.Checks = append(slices.Clone(r.Checks), check)
}

func TestMilestonesAreShownWithTheirPoints(t *testing.T) {
	t.Parallel()
	r := graded(nil)
	r.Checks = []report.Check{
		{ID: "lists", Title: "It lists", Part: "read", Status: report.Passed, Points: 30, MaxPoints: 30},
		{ID: "watches", Title: "It watches", Part: "read", Status: report.Failed, MaxPoints: 10, Expected: "an event", Observed: "none"},
		{ID: "creates", Title: "It creates", Part: "write", Status: report.Skipped, MaxPoints: 40, Reason: "skipped: lists failed"},
		{ID: "informs", Title: "An informer works", Status: report.Skipped, MaxPoints: 20, Reason: "skipped: lists failed"},
	}
	r.Score, r.MaxScore = 30, 100
	const want = "read 30 of 40, write 0 of 40"
	if got := r.MilestonesText(); got != want {
		t.Errorf("the milestones are %q, want %q", got, want)
	}
	r.Schema = report.Schema
	content, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Validate(content); err != nil {
		t.Error(err)
	}
	for _, format := range []formats.Format{formats.Markdown, formats.HTML} {
		if data := encode(t, r, format, formats.Options{}); !strings.Contains(string(data), "Milestones: "+want) {
			t.Errorf("%s does not show the milestones", format)
		}
	}
	var screen bytes.Buffer
	if err := terminal.Render(&screen, &r, terminal.Options{Screen: &terminal.Screen{}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(screen.String(), "milestones: "+want) {
		t.Errorf("the terminal does not show the milestones:\n%s", screen.String())
	}

	// A run that graded one milestone says its points as the score, and a run without a grade has none.
	r.Checks = r.Checks[:2]
	if got := r.MilestonesText(); got != "" {
		t.Errorf("with one milestone the text is %q", got)
	}
}

func TestAnExtensionIsShownBesideThePoints(t *testing.T) {
	t.Parallel()
	for status, want := range map[report.Status]struct {
		points   string
		complete bool
		tests    int
	}{
		report.Passed:  {"100 of 100 points, and 10 of 10 of the extension", true, 14},
		report.Failed:  {"100 of 100 points, and 0 of 10 of the extension", false, 14},
		report.Skipped: {"100 of 100 points", false, 13},
	} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			r := graded(nil)
			extend(&r, status)
			if r.Points() != want.points || r.Complete() != want.complete {
				t.Errorf("it has %s, complete: %v; want %s, %v", r.Points(), r.Complete(), want.points, want.complete)
			}
			r.Schema = report.Schema
			content, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Validate(content); err != nil {
				t.Error(err)
			}
			var written bytes.Buffer
			if err := classroom50.Write(&written, &r, classroom50.Options{}); err != nil {
				t.Fatal(err)
			}
			var result struct {
				Score    int   `json:"score"`
				MaxScore int   `json:"max-score"`
				Tests    []any `json:"tests"`
			}
			if err := json.Unmarshal(written.Bytes(), &result); err != nil {
				t.Fatal(err)
			}
			if result.Score != 100 || result.MaxScore != 100 || len(result.Tests) != want.tests {
				t.Errorf("a classroom gets %d of %d points, and %d tests; want 100 of 100, %d",
					result.Score, result.MaxScore, len(result.Tests), want.tests)
			}
		})
	}
}

func TestTheCheckNearestToTheCauseIsExplained(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// failed are the checks that failed, and causes what they are caused by.
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
				t.Errorf("%q is explained, and also failed %q; want %q and %q", got, also, test.want, test.also)
			}
		})
	}
}

// The schema and the Go types are written by hand, so a test holds them together.
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
			property, ok := properties[name].(map[string]any)
			if !ok {
				t.Errorf("%s.%s has no property %q", goType, field.Name, name)
				continue
			}
			delete(properties, name)
			if slices.Contains(required, any(name)) == (options == "omitempty") {
				t.Errorf("%s.%s: must be required, or omitempty, and not both", goType, field.Name)
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
				t.Errorf("the description of %s.%s lacks the unit", goType, field.Name)
			}
			if text, _ := property["description"].(string); len(text) < 10 {
				t.Errorf("%s.%s is not described", goType, field.Name)
			}
		}
		for name := range properties {
			t.Errorf("the schema has %q, and %s has not", name, goType)
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
			t.Errorf("the position of %+v is %q, want %q", diagnostic, got, want)
		}
	}
}

func wantError(t *testing.T, err error, pattern string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that matches %q", pattern)
	}
	if !regexp.MustCompile("(?s)" + pattern).MatchString(err.Error()) {
		t.Errorf("the error is %q, want one that matches %q", err, pattern)
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
		t.Errorf("%s (-want +got; `go test -update` writes it anew):\n%s", file, diff)
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
