// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	readjunit "github.com/joshdk/go-junit"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

func TestSafe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"plain text is kept", "a <b> & \"c\"\n\tä 冰", "a <b> & \"c\"\n\tä 冰"},
		{"colours are removed", "\x1b[1;31mERROR\x1b[0m done", "ERROR done"},
		{"cursor and screen sequences are removed", "\x1b[2J\x1b[10;20Hx\x1b[?25l", "x"},
		{"window titles and links are removed", "\x1b]0;owned\x07a\x1b]8;;http://x\x1b\\b", "ab"},
		{"character sets are removed", "\x1b(0x\x1b=", "x"},
		{"an open sequence swallows nothing", "\x1b]0;the rest", `\x1b]0;the rest`},
		{"a half sequence at the end", "x\x1b[31", `x\x1b[31`},
		{"control characters are escaped", "a\x00b\x07c\x7f", `a\x00b\x07c\x7f`},
		{"8-bit control sequences", "\u009b31mred", `\x9b31mred`},
		{"Windows lines", "a\r\nb", "a\nb"},
		{"a carriage return", "bad\rgood", `bad\x0dgood`},
		{"invalid UTF-8", "a\xff\xfeb", "a\uFFFDb"},
		{"bidirectional controls", "a\u202eb\u2066c\u2028d", `a\u202eb\u2066c\u2028d`},
		{"characters that XML forbids", "a\uFFFEb\uFFFFc", "a\uFFFDb\uFFFDc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := report.Safe(test.text); got != test.want {
				t.Errorf("Safe(%q) = %q, want %q", test.text, got, test.want)
			}
			if again := report.Safe(test.want); again != test.want {
				t.Errorf("a second call returns %q", again)
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
			t.Errorf("Safe(%q) = %q, which is not safe", text, safe)
		}
		if again := report.Safe(safe); again != safe {
			t.Errorf("Safe(%q) = %q, want no change", safe, again)
		}
	})
}

// The worst that a submission can put into a report still results in valid JSON and well-formed XML of a limited
// size.
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
		t.Errorf("got %d test cases, want %d: one was forged or lost", n, len(r.Checks))
	}
	read, err := report.Read(filepath.Join(dir, report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(read.OperatorLog); n != report.MaxLogLines || read.OperatorLog[n-1] != "the last line" {
		t.Errorf("kept %d lines of the log, the last one is %q", n, read.OperatorLog[n-1])
	}
	burst := find(read, "burst")
	if n := len(burst.Evidence); n != report.MaxEvidence || burst.Evidence[n-1] != "… and 151 more" {
		t.Errorf("kept %d lines of the evidence, the last one is %q", n, burst.Evidence[n-1])
	}
	if n := utf8.RuneCountInString(burst.Evidence[0]); n != report.MaxLine {
		t.Errorf("a line of evidence has %d characters, want %d", n, report.MaxLine)
	}
}

func TestMeasurementString(t *testing.T) {
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
			t.Errorf("String() of %+v = %q, want %q", measurement, got, want)
		}
	}
}

func TestInvalidMeasurementsAreDropped(t *testing.T) {
	t.Parallel()
	r := graded(func(r *report.Report) {
		find(r, "burst").Measurements = append([]report.Measurement{
			{Name: "divided by zero", Value: math.Inf(1)},
			{Name: "no number", Value: math.NaN()},
			{Value: 1},
			{Name: "kept\n", Value: 1},
		}, slices.Repeat([]report.Measurement{{Name: "more", Value: 2}}, 50)...)
	})
	read := writeAndRead(t, r)
	kept := find(read, "burst").Measurements
	if len(kept) != report.MaxMeasurements || kept[0] != (report.Measurement{Name: "kept", Value: 1}) {
		t.Errorf("kept %d measurements, the first is %+v", len(kept), kept[0])
	}
}

// Thousands of reads of an operator in an endless loop must not displace the important moments.
func TestTimelineKeepsImportantMoments(t *testing.T) {
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
		t.Fatalf("kept %d moments, want %d", len(read.Timeline), report.MaxTimeline)
	}
	count := map[string]int{}
	for i, moment := range read.Timeline {
		count[moment.What+" "+moment.Fault]++
		if i > 0 && moment.At < read.Timeline[i-1].At {
			t.Fatalf("moment %d is earlier than the one before it", i)
		}
	}
	want := map[string]int{
		"update icecreams banana ":          100,
		"get icecreams banana server-error": 100,
		`killed\x07 `:                       100,
		"get icecreams banana ":             1700,
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("kept moments (-want +got):\n%s", diff)
	}
	again := *read
	again.Sanitize()
	if diff := cmp.Diff(*read, again); diff != "" {
		t.Errorf("a second call changes the report:\n%s", diff)
	}

	writes := graded(nil)
	writes.Timeline = slices.Repeat([]report.Moment{
		{At: 1, Service: "api", What: "update icecreams banana", Code: 200},
	}, 3000)
	if read := writeAndRead(t, writes); len(read.Timeline) != report.MaxTimeline {
		t.Errorf("kept %d of 3000 writes, want %d", len(read.Timeline), report.MaxTimeline)
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

func TestSanitizeFillsEmptyTexts(t *testing.T) {
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

func TestReportOfTestsHasFewNotices(t *testing.T) {
	t.Parallel()
	r := report.Tests{Notices: slices.Repeat([]string{"a test skips itself"}, 100_000)}
	r.Sanitize()
	if n := len(r.Notices); n != 20 || r.Notices[n-1] != "… and 99981 more" {
		t.Errorf("kept %d notices, the last one is %q", n, r.Notices[n-1])
	}
}
