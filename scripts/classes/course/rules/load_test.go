// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestParseErrors checks that each mistake is reported with its line, and all of them at once.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, content string
		want          []string
	}{
		{"no YAML", "labs:\n  2: {deadline: [\n", []string{"class.yaml:", "this is not valid YAML"}},
		{"a tab", "labs:\n\t2: {}\n", []string{"class.yaml:2: this is not valid YAML"}},
		{"a list", "- 1\n", []string{"class.yaml:1: the file: got array, want object"}},
		{"a text", "hello\n", []string{"class.yaml:1: the file: got string, want object"}},
		{
			"a misspelled field", "title: x\nlabs:\n  2:\n    weight: 1\n    deadlin: 2026-07-01 12:00\n",
			[]string{"class.yaml:5: labs.2.deadlin: ", "expected: The fields deadline, weight"},
		},
		{"a misspelled field at the top", "title: x\ngrace: 3\n", []string{"class.yaml:2: grace: "}},
		{
			"a wrong type", "title: x\ngraceDays: many\n",
			[]string{"class.yaml:2: graceDays: got string, want integer; expected: A whole number of days from 0 to 100"},
		},
		{"too many", "graceDays: 101\n", []string{"class.yaml:1: graceDays: "}},
		{"half a day", "graceDays: 1.5\n", []string{"class.yaml:1: graceDays: "}},
		{"nothing", "late:\n", []string{"class.yaml:1: late: got null, want object"}},
		{"no attempt", "attempts: first\n", []string{"class.yaml:1: attempts: ", "best (the default) or last"}},
		{
			"points and percent", "late: {points: 1, percent: 1}\n",
			[]string{"class.yaml:1: late: ", "either points or percent"},
		},
		{"three decimals", "late: {percent: 0.125}\n", []string{"class.yaml:1: late.percent: ", "at most two decimals"}},
		{"not a number", "late: {percent: .nan}\n", []string{`class.yaml:1: ".nan" can't be read`}},
		{"an endless number", "late: {percent: .inf}\n", []string{`class.yaml:1: ".inf" can't be read`}},
		{"a number in words", "late: {percent: !!int ten}\n", []string{"class.yaml:1:"}},
		{"a negative weight", "labs:\n  2: {weight: -1}\n", []string{"class.yaml:2: labs.2.weight: "}},
		{
			"no lab", "labs:\n  reconciler: {weight: 1}\n",
			[]string{`class.yaml:2: labs.reconciler: "reconciler" is not the name of a lab`},
		},
		{
			"a lab twice", "labs:\n  2: {weight: 1}\n  02-reconciler: {weight: 1}\n",
			[]string{"class.yaml:", "are the same lab: merge them into one entry"},
		},
		{"a key twice", "labs:\n  2: {weight: 1}\n  2: {weight: 2}\n", []string{`class.yaml:3: "2" is already in line 2`}},
		{"a key that is a list", "[1, 2]: x\n", []string{"class.yaml:1: a key must be a string"}},
		{
			"a student's lab twice", "students:\n  ada:\n    labs:\n      2: {points: 1}\n      02: {points: 1}\n",
			[]string{"students.ada.labs.2: 02 and 2 are the same lab"},
		},
		{
			"no time zone", "timezone: Europe/Berln\n",
			[]string{`class.yaml:1: timezone: unknown time zone "Europe/Berln": write a name such as Europe/Berlin`},
		},
		{"the time zone of the machine", "timezone: Local\n", []string{"class.yaml:1: timezone: "}},
		{"a path as time zone", "timezone: ../../etc/passwd\n", []string{"class.yaml:1: timezone: "}},
		{
			"no time", "labs:\n  2:\n    deadline: tomorrow evening\n",
			[]string{
				`class.yaml:3: labs.2.deadline: "tomorrow evening" is not a valid time: write one such as "2026-10-25 23:59"`,
			},
		},
		{"no day", "labs:\n  2:\n    deadline: 2026-02-30 23:59\n", []string{"class.yaml:3: labs.2.deadline: "}},
		{"24 hours", "labs:\n  2:\n    deadline: 2026-02-28 24:00\n", []string{"class.yaml:3: labs.2.deadline: "}},
		{
			"a time that clocks skip", berlin + "labs:\n  2:\n    deadline: 2027-03-28 02:30\n",
			[]string{"class.yaml:4: labs.2.deadline: 2027-03-28 02:30 does not exist in Europe/Berlin, " +
				"where clocks are set forward over it"},
		},
		{
			"two mistakes", "graceDays: many\nlabs:\n  2: {weight: heavy}\n",
			[]string{"class.yaml:1: graceDays", "class.yaml:3: labs.2.weight"},
		},
		{
			"two mistakes of meaning", "labs:\n  2: {deadline: 01.02.2026 at 10}\n  3: {deadline: 2026-13-01 10:00}\n",
			[]string{"class.yaml:2: labs.2.deadline", "class.yaml:3: labs.3.deadline"},
		},
		{"a second document", "title: x\n---\ntitle: y\n", []string{"class.yaml:2: there is a second document"}},
		{"a terminal's control sequence", "title: \"\\e[2J\"\n", []string{"class.yaml:1: title: "}},
		{"an alias of the value that contains it", "a: &a [*a]\n", []string{"class.yaml:1: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("class.yaml", []byte(test.content))
			if err == nil {
				t.Fatal("Parse() error = nil")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Parse() error = %q, want %q in it", err, want)
				}
			}
		})
	}
}

// TestStudentNamesAreStrings checks that names that look like numbers or truth values stay strings.
func TestStudentNamesAreStrings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"ada", "0123456", "no", "1e3", "2026-01-01", "Ada-Müller", "ada@example.org", "~", "0x10",
	} {
		rules := parse(t, "students:\n  "+name+": {graceDays: 4}\n")
		if days := rules.graceDays(name); days != 4 {
			t.Errorf("%s has %d grace days", name, days)
		}
	}
}

func TestParseEmptyFile(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "\n", "# only a comment\n", "---\n", "{}\n", "\ufeff"} {
		rules, err := Parse("class.yaml", []byte(content))
		if err != nil {
			t.Errorf("%q: %v", content, err)
			continue
		}
		if _, total := rules.Marks("ada", map[string][]Attempt{
			"02-reconciler": {in(1, 80, 9)},
		}); total != 80 || rules.Zone != time.UTC {
			t.Errorf("%q: total = %v, zone = %s", content, total, rules.Zone)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "class.yaml")); err == nil ||
		!strings.Contains(err.Error(), "leave --rules out") {
		t.Errorf("Load() of a missing file: error = %v", err)
	}
	if _, err := Load(dir); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("Load() of a folder: error = %v", err)
	}
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("# large\n", fileLimit/8+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("Load() of a large file: error = %v", err)
	}
	file := filepath.Join(dir, "right.yaml")
	if err := os.WriteFile(file, []byte("title: Operators\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if rules, err := Load(file); err != nil || rules.Title != "Operators" {
		t.Errorf("Load() = %+v, %v", rules, err)
	}
}

// TestAliases checks that aliases save typing, but can't expand a small file into a large one.
func TestAliases(t *testing.T) {
	t.Parallel()
	rules := parse(t, "labs:\n  2: {late: &strict {percent: 50}, deadline: 2026-07-01 12:00}\n"+
		"  3: {late: *strict, deadline: 2026-07-01 12:00}\n")
	if marks, _ := rules.Marks("ada", map[string][]Attempt{
		"03-finalizer": {in(1, 80, 1)},
	}); marks["03-finalizer"].Final != 40 {
		t.Errorf("Marks() = %+v", marks)
	}
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n",
			i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	if _, err := Parse("class.yaml", []byte(bomb.String())); err == nil ||
		!strings.Contains(err.Error(), "there is too much in this file") {
		t.Errorf("Parse() error = %.300v", err)
	}
}

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocumentation checks that the examples of the page are correct, and it has a row for each field of the schema.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/reference/class-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := block.FindAllSubmatch(page, -1)
	if len(examples) < 2 {
		t.Errorf("the page has %d examples", len(examples))
	}
	for _, example := range examples {
		if _, err := Parse("class.yaml", example[1]); err != nil {
			t.Errorf("%s%v", example[1], err)
		}
	}
	for _, match := range regexp.MustCompile(`"(\w+)": \{`).FindAllSubmatch(SchemaJSON, -1) {
		switch name := string(match[1]); name {
		case "properties", "defs", "labName", "lab", "student", "decision", "propertyNames", "additionalProperties", "not":
		default:
			if !strings.Contains(string(page), "| `"+name+"` |") && !strings.Contains(string(page), "."+name+"` |") {
				t.Errorf("the page has no row for %s", name)
			}
		}
	}
}

// FuzzParse checks that for any file, reading ends, an error is printable and names a line, and marks are within
// bounds.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "labs: {2: {deadline: 2026-10-25 23:59}}",
		berlin + "graceDays: 3\nattempts: last\nlate: {percent: 10, days: 5}\n",
		"students:\n  ada:\n    graceDays: 1\n    labs:\n      2: {points: 2.5, comment: |\n        a\n        b\n      }\n",
		"a: &a [*a, *a]\n", "? [1]\n: 2\n", "labs: !!binary aGVsbG8=\n",
		"%YAML 1.1\n---\nx: y\n", "late: {points: 1e999}\n", "title: \"\\0\"\n",
		"labs: {2: {deadline: 9999-12-31 23:59, weight: 0.01}}\n",
		"labs: {2: {deadline: 0000-01-01 00:00}}\nlate: {points: 1}\n", "<<: {title: x}\n",
	} {
		f.Add([]byte(seed))
	}
	line := regexp.MustCompile(`^class\.yaml:\d+: `)
	f.Fuzz(func(t *testing.T, content []byte) {
		rules, err := Parse("class.yaml", content)
		if err != nil {
			for text := range strings.SplitSeq(err.Error(), "\n") {
				if text == "" {
					t.Errorf("%q: the error has an empty line: %q", content, err)
				}
			}
			if !line.MatchString(err.Error()) {
				t.Errorf("%q: the error names no line: %q", content, err)
			}
			return
		}
		marks, total := rules.Marks("ada", map[string][]Attempt{
			"02-reconciler": {in(1, 60, 3), in(2, 80, 6)}, "03-finalizer": nil,
		})
		if len(marks) != 2 || total < 0 || total != total {
			t.Errorf("%q: marks = %v, total = %v", content, marks, total)
		}
		for _, mark := range marks {
			if mark.Final < 0 || mark.Penalty < 0 || mark.Penalty > float64(mark.Points) ||
				mark.GraceUsed > mark.Late || mark.GraceUsed < 0 {
				t.Errorf("%q: mark = %+v", content, mark)
			}
		}
		rules.Unknown([]string{"ada"}, []string{"02-reconciler"})
	})
}
