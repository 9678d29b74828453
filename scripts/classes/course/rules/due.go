// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"fmt"
	"strings"
	"time"
)

// due is a deadline: the last moment that is in time.
type due struct{ end time.Time }

// The forms of a deadline without an offset. One without seconds lasts to the end of its minute.
const (
	toTheMinute = "2006-01-02 15:04"
	toTheSecond = "2006-01-02 15:04:05"
)

// parseDue reads a deadline. Its time zone is the course's, in which late days are counted, even if the text has its
// own offset.
func parseDue(text string, zone *time.Location) (*due, error) {
	text = strings.TrimSpace(text)
	for _, form := range []string{
		time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00",
	} {
		if at, err := time.Parse(form, text); err == nil {
			if !strings.Contains(form, ":05") {
				at = at.Add(time.Minute - time.Nanosecond)
			}
			return &due{at.In(zone)}, nil
		}
	}
	local := strings.Replace(text, "T", " ", 1)
	for _, form := range []string{toTheMinute, toTheSecond} {
		wall, err := time.Parse(form, local)
		if err != nil {
			continue
		}
		at, exists := inZone(wall, zone)
		if !exists {
			return nil, fmt.Errorf("%s does not exist in %s, where clocks are set forward over it: "+
				"write an earlier or a later time", wall.Format(toTheMinute), zone)
		}
		if form == toTheMinute {
			at = at.Add(time.Minute - time.Nanosecond)
		}
		return &due{at}, nil
	}
	return nil, fmt.Errorf("%q is not a valid time: write one such as %q, or with an offset, such as %q",
		text, "2026-10-25 23:59", "2026-10-25T23:59:00+01:00")
}

// inZone returns the moment at which clocks in a zone show a time. If they show it twice, because they are set back, it
// returns the later moment. If they skip it, exists is false, and the moment is close to it.
func inZone(wall time.Time, zone *time.Location) (at time.Time, exists bool) {
	year, month, day := wall.Date()
	hour, minute, second := wall.Clock()
	at = time.Date(year, month, day, hour, minute, second, wall.Nanosecond(), zone)
	if !sameClock(at, wall) {
		return at, false
	}
	// Zones change their offset by a day at most, and clocks are not set back again the day after.
	_, before := at.Zone()
	_, after := at.Add(24 * time.Hour).Zone()
	if repeated := at.Add(time.Duration(before-after) * time.Second); repeated.After(at) && sameClock(repeated, wall) {
		return repeated, true
	}
	return at, true
}

func sameClock(at, wall time.Time) bool {
	return at.Format(toTheSecond) == wall.Format(toTheSecond)
}

// lateDays returns how many days after the deadline have started at a moment. It returns 0 if the moment is in time. A
// day ends when clocks in the course's zone show the deadline's time again, so a day on which the clocks change has 23
// or 25 hours.
func (d *due) lateDays(at time.Time) int {
	if d == nil || at.IsZero() || !at.After(d.end) {
		return 0
	}
	const day = 24 * 60 * 60
	seconds := at.Unix() - d.end.Unix() // a time.Duration is limited to 292 years
	if seconds > 1_000_000*day || seconds < 0 {
		return 1_000_000 // the clock was wrong
	}
	// The estimate is off by a day or two, for zones that have changed their offset.
	days := max(1, int(seconds/day)-1)
	for at.After(d.after(days)) {
		days++
	}
	for days > 1 && !at.After(d.after(days-1)) {
		days--
	}
	return days
}

// after returns the end of a number of days after the deadline.
func (d *due) after(days int) time.Time {
	year, month, day := d.end.Date()
	hour, minute, second := d.end.Clock()
	at, _ := inZone(time.Date(year, month, day+days, hour, minute, second, d.end.Nanosecond(), time.UTC), d.end.Location())
	return at
}

// ParseTime reads a time in the format of a deadline. A time without seconds means the end of its minute. A time
// without an offset is in the given zone. If the zone is nil, it is an error.
func ParseTime(text string, zone *time.Location) (time.Time, error) {
	in := zone
	if in == nil {
		in = time.UTC
	}
	read, err := parseDue(text, in)
	if err != nil {
		return time.Time{}, err
	}
	if zone == nil {
		// A text with an offset is the same moment in all zones.
		if other, err := parseDue(text, time.FixedZone("", 3600)); err != nil || !other.end.Equal(read.end) {
			return time.Time{}, fmt.Errorf("%q has no time zone: write one such as %q", text, "2026-10-25T23:59:00+01:00")
		}
	}
	return read.end, nil
}
