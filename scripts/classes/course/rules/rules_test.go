// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
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

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

const berlin = "timezone: Europe/Berlin\n"

// In Berlin, clocks are set back on 2026-10-25 at 03:00, and set forward on 2027-03-28 at 02:00.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, zone, deadline, want string }{
		{"in summer", berlin, "2026-07-01 23:59", "2026-07-01T21:59:59.999999999Z"},
		{"in winter", berlin, "2026-12-01 23:59", "2026-12-01T22:59:59.999999999Z"},
		{"the day that has 25 hours", berlin, "2026-10-25 23:59", "2026-10-25T22:59:59.999999999Z"},
		{"the day before it", berlin, "2026-10-24 23:59", "2026-10-24T21:59:59.999999999Z"},
		{"the day that has 23 hours", berlin, "2027-03-28 23:59", "2027-03-28T21:59:59.999999999Z"},
		{"an hour that comes twice ends with the second one", berlin, "2026-10-25 02:30", "2026-10-25T01:30:59.999999999Z"},
		{"to the second", berlin, "2026-07-01 23:59:00", "2026-07-01T21:59:00Z"},
		{"with a T", berlin, "2026-07-01T23:59", "2026-07-01T21:59:59.999999999Z"},
		{"with an offset", berlin, "2026-07-01T23:59:00+05:00", "2026-07-01T18:59:00Z"},
		{"in UTC by name", berlin, "2026-07-01T23:59:00Z", "2026-07-01T23:59:00Z"},
		{"with an offset to the minute", berlin, "2026-07-01 23:59+05:00", "2026-07-01T18:59:59.999999999Z"},
		{"without a time zone it is UTC", "", "2026-07-01 23:59", "2026-07-01T23:59:59.999999999Z"},
		{"half an hour of summer time", "timezone: Australia/Lord_Howe\n", "2026-04-05 01:45", "2026-04-04T15:15:59.999999999Z"},
	} {
		for _, quote := range []string{"", `"`} {
			rules := parse(t, test.zone+"labs:\n  2: {deadline: "+quote+test.deadline+quote+"}\n")
			if got := rules.Deadline("ada", "02-reconciler"); !got.Equal(moment(t, test.want)) {
				t.Errorf("%s: %s ends at %s, want %s", test.name, test.deadline, got.UTC().Format(time.RFC3339Nano), test.want)
			}
		}
	}
	if got := Default().Deadline("ada", "02-reconciler"); !got.IsZero() {
		t.Errorf("without rules the deadline is %s", got)
	}
}

// Students may have their own deadlines, and a rule for lab 2 does not apply to lab 12.
func TestWhoseDeadline(t *testing.T) {
	t.Parallel()
	rules := parse(t, `
labs:
  2: {deadline: 2026-07-01 12:00}
  03-finalizer: {deadline: 2026-07-08 12:00}
students:
  ada: {labs: {02-reconciler: {deadline: 2026-07-03 12:00}}}
`)
	for _, test := range []struct {
		student, lab string
		day          int
	}{
		{"ada", "02-reconciler", 3},
		{"bob", "02-reconciler", 1},
		{"", "02-reconciler", 1},
		{"ada", "03-finalizer", 8},
		{"ada", "12-capstone", 0},
	} {
		got := rules.Deadline(test.student, test.lab)
		if got.IsZero() != (test.day == 0) || !got.IsZero() && got.Day() != test.day {
			t.Errorf("lab %s of %s is due at %s, want day %d", test.lab, test.student, got, test.day)
		}
	}
}

// A day ends when clocks show the deadline's time again.
func TestStartedDays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, deadline, submitted string
		want                      int
	}{
		{"in the last second", "2026-07-01 23:59", "2026-07-01T21:59:59Z", 0},
		{"a second later", "2026-07-01 23:59", "2026-07-01T22:00:00Z", 1},
		{"a day later", "2026-07-01 23:59", "2026-07-02T21:59:59Z", 1},
		{"a second more", "2026-07-01 23:59", "2026-07-02T22:00:00Z", 2},
		{"long before", "2026-07-01 23:59", "2020-01-01T00:00:00Z", 0},
		{"on the long day, due on the day before it", "2026-10-24 23:59", "2026-10-25T22:59:59Z", 1},
		{"after the long day", "2026-10-24 23:59", "2026-10-25T23:00:00Z", 2},
		{"due on the long day", "2026-10-25 23:59", "2026-10-25T22:59:59Z", 0},
		{"due on the long day, a second later", "2026-10-25 23:59", "2026-10-25T23:00:00Z", 1},
		{"due on the long day, in the next night", "2026-10-25 23:59", "2026-10-26T22:59:59Z", 1},
		{"on the short day, due on the day before it", "2027-03-27 23:59", "2027-03-28T21:59:59Z", 1},
		{"after the short day, though 24 hours have not passed", "2027-03-27 23:59", "2027-03-28T22:30:00Z", 2},
		{"due on the short day", "2027-03-28 23:59", "2027-03-28T21:59:59Z", 0},
		{"a day that would end in the hour that is skipped", "2027-03-27 02:30", "2027-03-28T01:30:00Z", 1},
		{"a day that ends in the hour that comes twice, in its second half", "2026-10-24 02:30", "2026-10-25T01:30:30Z", 1},
		{"and after it", "2026-10-24 02:30", "2026-10-25T01:31:00Z", 2},
		{"a deadline with an offset, on the long day of the course", "2026-10-24T23:59:00+02:00", "2026-10-25T22:59:00Z", 1},
		{"over the end of a month", "2026-01-31 12:00", "2026-02-01T12:00:00Z", 2},
		{"at the end of time", "2026-07-01 23:59", "9999-12-31T00:00:00Z", 1_000_000},
		{"due at the beginning of time", "0001-01-01 00:00", "2026-07-01T00:00:00Z", 739798},
		{"ten years later", "2026-07-01 23:59", "2036-07-01T21:59:00Z", 3653},
	} {
		due, err := parseDue(test.deadline, zone(t, "Europe/Berlin"))
		if err != nil {
			t.Fatal(err)
		}
		if got := due.lateDays(moment(t, test.submitted)); got != test.want {
			t.Errorf("%s: due %s, handed in %s: %d days late, want %d", test.name, test.deadline, test.submitted, got, test.want)
		}
	}
	var none *due
	if days := none.lateDays(time.Now()); days != 0 {
		t.Errorf("without a deadline it is %d days late", days)
	}
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// The number of started days equals the result of counting them one by one, in zones of many kinds.
func TestStartedDaysAreCounted(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia",
	} {
		place := zone(t, name)
		for range 300 {
			end := &due{time.Unix(1_700_000_000+random.Int64N(100_000_000), 0).In(place)}
			at := end.end.Add(time.Duration(random.Int64N(int64(40 * 24 * time.Hour))))
			want := 0
			for at.After(end.after(want)) {
				want++
			}
			if got := end.lateDays(at); got != want {
				t.Fatalf("%s: due %s, handed in %s: %d days, want %d", name, end.end, at, got, want)
			}
			if length := end.after(want + 1).Sub(end.after(want)); length < 22*time.Hour || length > 26*time.Hour {
				t.Fatalf("%s: the day after %s has %s", name, end.after(want), length)
			}
		}
	}
}

// in is an attempt at lab 2 of the tests below, which is due on 1 July at noon, UTC, handed in a number of days and an
// hour later.
func in(number, points int, days int) Attempt {
	return Attempt{Number: number, Points: points, Max: 100, Valid: true, Submitted: time.Date(2026, 7, 1+days, 11, 0, 0, 0, time.UTC)}
}

func TestMarksOfALab(t *testing.T) {
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
		{"in time", due + "late: {percent: 10}\n", []Attempt{in(1, 80, 0)}, Mark{Attempt: 1, Points: 80, Max: 100, Final: 80}},
		{"nothing was handed in", due, nil, Mark{Max: 100, Missing: true}},
		{"without a time", due + "late: {percent: 10}\n", []Attempt{undated}, Mark{Attempt: 1, Points: 80, Max: 100, Final: 80}},
		{
			"percent of what it has", due + "late: {percent: 10}\n",
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
			"being late costs nothing unless a rule says so", due,
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
		{"the first one of two that are as good", due, []Attempt{in(2, 80, 0), in(1, 80, 0)}, Mark{Attempt: 1, Points: 80, Max: 100, Final: 80}},
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
			"a lab's own rules", "late: {points: 50}\nlabs: {2: {deadline: 2026-07-01 12:00, late: {points: 1}, attempts: last}}\n",
			[]Attempt{in(1, 80, 1), in(2, 70, 1)},
			Mark{Attempt: 2, Points: 70, Max: 100, Late: 1, Penalty: 1, Final: 69},
		},
		{"an attempt without a grade", due, []Attempt{in(1, 80, 0), failed}, Mark{Attempt: 1, Points: 80, Max: 100, Final: 80}},
		{"no attempt has a grade", due, []Attempt{failed}, Mark{Max: 100, Ungraded: true}},
		{
			"points and a comment by hand", due + "late: {percent: 10}\nstudents: {ada: {labs: {2: {points: -2.5, comment: \"no tests\"}}}}\n",
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
			"points for what was shown in person", due + "students: {ada: {labs: {2: {points: 40}}}}\n",
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
		{"excused", due + "students: {ada: {labs: {2: {excused: true}}}}\n", nil, Mark{Max: 100, Missing: true, Excused: true}},
	} {
		marks, total := parse(t, test.rules).Marks("ada", map[string][]Attempt{"02-reconciler": test.attempts})
		if diff := cmp.Diff(test.want, marks["02-reconciler"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if total != test.want.Final {
			t.Errorf("%s: the total is %v, want %v", test.name, total, test.want.Final)
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
			t.Errorf("%s: the total is %v, want %v", test.name, total, test.want)
		}
	}
	marks, total := Default().Marks("ada", nil)
	if len(marks) != 0 || total != 0 {
		t.Errorf("without labs the marks are %v and %v", marks, total)
	}
}

// trial is a course with a student, as numbers that a brute force can go through.
type trial struct {
	text     string
	budget   int
	limits   []int // grace days of each lab at most
	weights  []int64
	late     []lateRule
	last     []bool
	manual   []int64
	attempts [][]Attempt
	days     [][]int
}

type lateRule struct {
	points, percent int64
	cutoff          int
}

func randomTrial(random *rand.Rand) *trial {
	labs := 1 + random.IntN(4)
	made := &trial{budget: random.IntN(6)}
	var text, manual strings.Builder
	fmt.Fprintf(&text, "graceDays: %d\nlabs:\n", made.budget)
	for i := range labs {
		rule := lateRule{cutoff: random.IntN(6)}
		rule.percent = random.Int64N(4) * 15
		word := fmt.Sprintf("percent: %d", rule.percent)
		if random.IntN(2) == 0 {
			rule.percent, rule.points = 0, random.Int64N(4)*9
			word = fmt.Sprintf("points: %d", rule.points)
		}
		limit, weight, points, isLast := random.IntN(6), random.Int64N(4), random.Int64N(41)-20, random.IntN(2) == 0
		fmt.Fprintf(&text, "  %d: {deadline: 2026-07-01 12:00, weight: %d, graceDays: %d, attempts: %s, late: {%s, days: %d}}\n",
			i+1, weight, limit, map[bool]string{true: "last", false: "best"}[isLast], word, rule.cutoff)
		fmt.Fprintf(&manual, "%d: {points: %d}, ", i+1, points)
		var attempts []Attempt
		var days []int
		at, full := 0, []int{100, 100, 30, 70}[random.IntN(4)]
		for n := range random.IntN(4) {
			at += random.IntN(4)
			attempt := in(n+1, random.IntN(full+1), at)
			attempt.Max, attempt.Valid = full, random.IntN(8) > 0
			attempts, days = append(attempts, attempt), append(days, at)
		}
		made.limits, made.weights, made.late, made.last = append(made.limits, limit), append(made.weights, weight),
			append(made.late, rule), append(made.last, isLast)
		made.manual, made.attempts, made.days = append(made.manual, points), append(made.attempts, attempts), append(made.days, days)
	}
	made.text = text.String() + "students: {ada: {labs: {" + strings.TrimSuffix(manual.String(), ", ") + "}}}\n"
	return made
}

// lab is what a lab is worth with exactly so many grace days, in percent, computed as the page describes it and not as
// the code does.
func (c *trial) lab(i, grace int) *big.Rat {
	var points *big.Rat
	full := 100
	for pass := range 2 { // those that are accepted, and if there are none, all
		for n, attempt := range c.attempts[i] {
			if !attempt.Valid {
				continue
			}
			full = attempt.Max
			days := max(0, c.days[i][n]-grace)
			left := big.NewRat(0, 1)
			if days <= c.late[i].cutoff {
				left.SetFrac64(int64(attempt.Points)*100-int64(days)*(c.late[i].points*100+c.late[i].percent*int64(attempt.Points)), 100)
			} else if pass == 0 {
				continue
			}
			if left.Sign() < 0 {
				left.SetInt64(0)
			}
			if points == nil || c.last[i] || left.Cmp(points) > 0 {
				points = left
			}
		}
		if points != nil {
			break
		}
	}
	if points == nil {
		points = big.NewRat(0, 1)
	}
	points = new(big.Rat).Add(points, big.NewRat(c.manual[i], 1))
	if points.Sign() < 0 {
		points.SetInt64(0)
	}
	return points.Mul(points, big.NewRat(100, int64(full)))
}

// try goes through all ways to spend grace days, and returns the best total and the fewest days with which it is
// reached.
func (c *trial) try(i, left int) (worth *big.Rat, used int) {
	if i == len(c.attempts) {
		return new(big.Rat), 0
	}
	for grace := range min(left, c.limits[i]) + 1 {
		rest, more := c.try(i+1, left-grace)
		sum := new(big.Rat).Mul(c.lab(i, grace), big.NewRat(c.weights[i], 1))
		sum.Add(sum, rest)
		if worth == nil || sum.Cmp(worth) > 0 || sum.Cmp(worth) == 0 && grace+more < used {
			worth, used = sum, grace+more
		}
	}
	return worth, used
}

func TestGraceDaysAreUsedAsIsBestForTheStudent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same ones each time
	helped := 0
	for range 3000 {
		c := randomTrial(random)
		labs, weights := map[string][]Attempt{}, int64(0)
		for i, attempts := range c.attempts {
			labs[fmt.Sprintf("%02d-lab", i+1)] = attempts
			weights += c.weights[i]
		}
		marks, total := parse(t, c.text).Marks("ada", labs)
		worth, days := c.try(0, c.budget)
		want := 0.0
		if weights > 0 {
			want, _ = worth.Quo(worth, big.NewRat(weights, 1)).Float64()
		}
		used := 0
		for i := range c.attempts {
			mark := marks[fmt.Sprintf("%02d-lab", i+1)]
			used += mark.GraceUsed
			if mark.GraceUsed > c.limits[i] || mark.GraceUsed > mark.Late {
				t.Fatalf("%s\n%v\nlab %d used %d grace days", c.text, c.attempts, i+1, mark.GraceUsed)
			}
			final, _ := c.lab(i, mark.GraceUsed).Float64()
			if got := mark.Final / float64(mark.Max) * 100; math.Abs(got-final) > 1e-9 {
				t.Fatalf("%s\n%v\nlab %d has %v %%, want %v", c.text, c.attempts, i+1, got, final)
			}
		}
		if math.Abs(total-want) > 1e-9 || used != days || used > c.budget {
			t.Fatalf("%s\n%v\nthe total is %v with %d grace days, want %v with %d", c.text, c.attempts, total, used, want, days)
		}
		if used > 0 {
			helped++
		}
	}
	if helped < 300 {
		t.Errorf("grace days were of use in %d trials: these trials try little", helped)
	}
}

// A re-grade changes the points, but not the instructor's manual changes.
func TestWhatTheInstructorAddedSurvivesARegrade(t *testing.T) {
	t.Parallel()
	rules := parse(t, "students: {ada: {labs: {2: {points: 5, comment: explained it well}}}}")
	for _, points := range []int{40, 90} {
		marks, _ := rules.Marks("ada", map[string][]Attempt{"02-reconciler": {in(1, points, 0)}})
		if mark := marks["02-reconciler"]; mark.Final != float64(points+5) || mark.Comment != "explained it well" {
			t.Errorf("the mark is %+v", mark)
		}
	}
}

func TestNamesThatNobodyHas(t *testing.T) {
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
		t.Errorf("the notices are %q, want %q", got, want)
	}
}
