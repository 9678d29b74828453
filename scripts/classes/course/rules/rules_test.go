// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, content string) *Rules {
	t.Helper()
	rules, err := Parse("class.yaml", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

const berlin = "timezone: Europe/Berlin\n"

// in returns an attempt at lab 2 of the tests below, which is due on 1 July at noon, UTC. The attempt is handed in a
// number of days and an hour later.
func in(number, points int, days int) Attempt {
	return Attempt{
		Number: number, Points: points, Max: 100, Valid: true, Submitted: time.Date(2026, 7, 1+days, 11, 0, 0, 0, time.UTC),
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	const due = "labs: {2: {deadline: 2026-07-01 12:00}}\n"
	undated := in(1, 80, 0)
	undated.Submitted = time.Time{}
	failed := in(2, 0, 0)
	failed.Valid = false
	for _, test := range []struct {
		name, rules string
		attempts    []Attempt
		want        Mark
	}{
		{
			"in time", due + "late: {percent: 10}\n",
			[]Attempt{in(1, 80, 0)},
			Mark{Attempt: 1, Points: 80, Max: 100, Final: 80},
		},
		{"nothing was handed in", due, nil, Mark{Max: 100, Missing: true}},
		{
			"without a time", due + "late: {percent: 10}\n",
			[]Attempt{undated},
			Mark{Attempt: 1, Points: 80, Max: 100, Final: 80},
		},
		{
			"percent of its points", due + "late: {percent: 10}\n",
			[]Attempt{in(1, 80, 2)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 2, Penalty: 16, Final: 64},
		},
		{
			"parts of a point", due + "late: {percent: 12.5}\n",
			[]Attempt{in(1, 85, 1)},
			Mark{Attempt: 1, Points: 85, Max: 100, Late: 1, Penalty: 10.625, Final: 74.375},
		},
		{
			"points", due + "late: {points: 7.5}\n",
			[]Attempt{in(1, 80, 2)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 2, Penalty: 15, Final: 65},
		},
		{
			"never more than it has", due + "late: {points: 50}\n",
			[]Attempt{in(1, 80, 5)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 5, Penalty: 80},
		},
		{
			"without a rule, being late costs nothing", due,
			[]Attempt{in(1, 80, 5)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 5, Final: 80},
		},
		{
			"accepted on the last day", due + "late: {percent: 10, days: 3}\n",
			[]Attempt{in(1, 80, 3)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 3, Penalty: 24, Final: 56},
		},
		{
			"too late", due + "late: {percent: 10, days: 3}\n",
			[]Attempt{in(1, 80, 4)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 4, Penalty: 80, TooLate: true},
		},
		{
			"nothing late is accepted", due + "late: {days: 0}\n",
			[]Attempt{in(1, 80, 1)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 1, Penalty: 80, TooLate: true},
		},
		{
			"a grace day", due + "late: {percent: 10, days: 3}\ngraceDays: 1\n",
			[]Attempt{in(1, 80, 4)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 4, GraceUsed: 1, Penalty: 24, Final: 56},
		},
		{
			"no grace day where being late costs nothing", due + "graceDays: 3\n",
			[]Attempt{in(1, 80, 4)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 4, Final: 80},
		},
		{
			"no grace day where it helps nothing", due + "late: {percent: 10, days: 1}\ngraceDays: 3\n",
			[]Attempt{in(1, 80, 9)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 9, Penalty: 80, TooLate: true},
		},
		{
			"the best attempt", due + "late: {percent: 10}\n",
			[]Attempt{in(1, 80, 0), in(2, 90, 1), in(3, 100, 3)},
			Mark{Attempt: 2, Points: 90, Max: 100, Late: 1, Penalty: 9, Final: 81},
		},
		{
			"the best attempt, with a grace day", due + "late: {percent: 10}\ngraceDays: 2\n",
			[]Attempt{in(1, 80, 0), in(2, 90, 1), in(3, 100, 3)},
			Mark{Attempt: 2, Points: 90, Max: 100, Late: 1, GraceUsed: 1, Final: 90},
		},
		{
			"the first of two equally good attempts", due,
			[]Attempt{in(2, 80, 0), in(1, 80, 0)},
			Mark{Attempt: 1, Points: 80, Max: 100, Final: 80},
		},
		{
			"the last attempt", due + "attempts: last\nlate: {percent: 10}\n",
			[]Attempt{in(3, 50, 2), in(1, 80, 0), in(2, 90, 1)},
			Mark{Attempt: 3, Points: 50, Max: 100, Late: 2, Penalty: 10, Final: 40},
		},
		{
			"the last attempt that was accepted", due + "attempts: last\nlate: {percent: 10, days: 1}\n",
			[]Attempt{in(1, 80, 0), in(2, 90, 1), in(3, 50, 2)},
			Mark{Attempt: 2, Points: 90, Max: 100, Late: 1, Penalty: 9, Final: 81},
		},
		{
			"no grace day that lets a worse attempt count", due + "attempts: last\nlate: {points: 0, days: 1}\ngraceDays: 1\n",
			[]Attempt{in(1, 80, 0), in(2, 90, 1), in(3, 50, 2)},
			Mark{Attempt: 2, Points: 90, Max: 100, Late: 1, Final: 90},
		},
		{
			"a lab's own rules",
			"late: {points: 50}\nlabs: {2: {deadline: 2026-07-01 12:00, late: {points: 1}, attempts: last}}\n",
			[]Attempt{in(1, 80, 1), in(2, 70, 1)},
			Mark{Attempt: 2, Points: 70, Max: 100, Late: 1, Penalty: 1, Final: 69},
		},
		{
			"an attempt without a grade", due,
			[]Attempt{in(1, 80, 0), failed},
			Mark{Attempt: 1, Points: 80, Max: 100, Final: 80},
		},
		{"no attempt has a grade", due, []Attempt{failed}, Mark{Max: 100, Ungraded: true}},
		{
			"points and a comment by hand",
			due + "late: {percent: 10}\nstudents: {ada: {labs: {2: {points: -2.5, comment: \"no tests\"}}}}\n",
			[]Attempt{in(1, 80, 1)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 1, Penalty: 8, Manual: -2.5, Comment: "no tests", Final: 69.5},
		},
		{
			"more than all points", due + "students: {ada: {labs: {2: {points: 5}}}}\n",
			[]Attempt{in(1, 100, 0)},
			Mark{Attempt: 1, Points: 100, Max: 100, Manual: 5, Final: 105},
		},
		{
			"never below nothing", due + "students: {ada: {labs: {2: {points: -500}}}}\n",
			[]Attempt{in(1, 80, 0)},
			Mark{Attempt: 1, Points: 80, Max: 100, Manual: -500},
		},
		{
			"points for work that was shown in person", due + "students: {ada: {labs: {2: {points: 40}}}}\n",
			nil,
			Mark{Max: 100, Manual: 40, Final: 40, Missing: true},
		},
		{
			"another student's", due + "students: {bob: {labs: {2: {points: 40}}}}\n",
			[]Attempt{in(1, 80, 0)},
			Mark{Attempt: 1, Points: 80, Max: 100, Final: 80},
		},
		{
			"a student's deadline", due + "late: {percent: 10}\nstudents: {ada: {labs: {2: {deadline: 2026-07-03 12:00}}}}\n",
			[]Attempt{in(1, 80, 2)},
			Mark{Attempt: 1, Points: 80, Max: 100, Final: 80},
		},
		{
			"a student's grace days", due + "late: {percent: 10}\nstudents: {ada: {graceDays: 1}}\n",
			[]Attempt{in(1, 80, 2)},
			Mark{Attempt: 1, Points: 80, Max: 100, Late: 2, GraceUsed: 1, Penalty: 8, Final: 72},
		},
		{
			"excused", due + "students: {ada: {labs: {2: {excused: true}}}}\n", nil,
			Mark{Max: 100, Missing: true, Excused: true},
		},
	} {
		marks, total := parse(t, test.rules).Marks("ada", map[string][]Attempt{"02-reconciler": test.attempts})
		if diff := cmp.Diff(test.want, marks["02-reconciler"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if total != test.want.Final {
			t.Errorf("%s: total = %v, want %v", test.name, total, test.want.Final)
		}
	}
}

func TestTotal(t *testing.T) {
	t.Parallel()
	labs := map[string][]Attempt{
		"01-icecream":   {{Number: 1, Points: 100, Max: 100, Valid: true}},
		"02-reconciler": {{Number: 1, Points: 25, Max: 50, Valid: true}},
		"03-finalizer":  nil,
	}
	for _, test := range []struct {
		name, rules string
		want        float64
	}{
		{"all labs weigh the same", "", 50},
		{"weights", "labs: {1: {weight: 3}, 3: {weight: 0.5}}", (3 + 0.5) / 4.5 * 100},
		{"a lab that counts nothing", "labs: {3: {weight: 0}}", 75},
		{"none counts", "labs: {1: {weight: 0}, 2: {weight: 0}, 3: {weight: 0}}", 0},
		{"excused", "students: {ada: {labs: {3: {excused: true}}}}", 75},
		{"excused from all", "students: {ada: {labs: {1: {excused: true}, 2: {excused: true}, 3: {excused: true}}}}", 0},
		{"labs that are not asked for", "labs: {4: {weight: 100}}", 50},
	} {
		if _, total := parse(t, test.rules).Marks("ada", labs); math.Abs(total-test.want) > 1e-9 {
			t.Errorf("%s: total = %v, want %v", test.name, total, test.want)
		}
	}
	marks, total := Default().Marks("ada", nil)
	if len(marks) != 0 || total != 0 {
		t.Errorf("Marks() without labs = %v, %v", marks, total)
	}
}

// TestManualPointsSurviveRegrade checks that a re-grade changes the points, but not the instructor's manual changes.
func TestManualPointsSurviveRegrade(t *testing.T) {
	t.Parallel()
	rules := parse(t, "students: {ada: {labs: {2: {points: 5, comment: explained it well}}}}")
	for _, points := range []int{40, 90} {
		marks, _ := rules.Marks("ada", map[string][]Attempt{"02-reconciler": {in(1, points, 0)}})
		if mark := marks["02-reconciler"]; mark.Final != float64(points+5) || mark.Comment != "explained it well" {
			t.Errorf("mark = %+v", mark)
		}
	}
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	rules := parse(t, `labs:
  2: {weight: 2}
  03-finaliser: {weight: 2}
students:
  ada:
    labs:
      9: {points: 1}
      02-reconciler: {points: 1}
  bod: {graceDays: 1}
`)
	got := rules.Unknown([]string{"ada", "bob"}, []string{"02-reconciler", "03-finalizer"})
	want := []string{
		"line 3: there is no lab 03-finaliser: correct the name, or remove the line",
		"line 7: there is no lab 9: correct the name, or remove the line",
		"line 9: no student named bod has submitted anything: correct the name, or remove the line",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Unknown() = %q, want %q", got, want)
	}
}
