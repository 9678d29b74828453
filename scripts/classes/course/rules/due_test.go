// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"math/rand/v2"
	"testing"
	"time"
)

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestDeadlines uses the time zone of Berlin, where clocks are set back on 2026-10-25 at 03:00, and set forward on
// 2027-03-28 at 02:00.
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
		{
			"half an hour of summer time", "timezone: Australia/Lord_Howe\n",
			"2026-04-05 01:45", "2026-04-04T15:15:59.999999999Z",
		},
	} {
		for _, quote := range []string{"", `"`} {
			rules := parse(t, test.zone+"labs:\n  2: {deadline: "+quote+test.deadline+quote+"}\n")
			if got := rules.Deadline("ada", "02-reconciler"); !got.Equal(moment(t, test.want)) {
				t.Errorf("%s: Deadline() for %s = %s, want %s",
					test.name, test.deadline, got.UTC().Format(time.RFC3339Nano), test.want)
			}
		}
	}
	if got := Default().Deadline("ada", "02-reconciler"); !got.IsZero() {
		t.Errorf("Deadline() without rules = %s, want zero", got)
	}
}

// TestDeadlineOfStudent checks that students may have their own deadlines, and a rule for lab 2 does not apply to lab
// 12.
func TestDeadlineOfStudent(t *testing.T) {
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

// TestLateDays checks that a day ends when clocks show the deadline's time again.
func TestLateDays(t *testing.T) {
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
		t.Errorf("lateDays() without a deadline = %d", days)
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

// TestLateDaysMatchCount checks that the number of started days equals the result of counting them one by one, in zones
// of many kinds.
func TestLateDaysMatchCount(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
		"Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia",
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
