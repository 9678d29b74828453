// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// distribution is the histogram of a lab.
type distribution struct {
	Lab    *Lab
	Bins   []bin
	Median string
	// Graded students have a grade, Without counts those whose work could not be graded, and Missing those who handed in
	// nothing.
	Graded, Without, Missing int
}

// bin is a bar of a histogram.
type bin struct {
	Label, Range string
	Students     int
	// Height is in pixels, 0 to barHeight.
	Height int
}

// barHeight is the height of the highest bar of a histogram, in pixels.
const barHeight = 84

// hardest holds the checks of a lab that fail most.
type hardest struct {
	Lab    *Lab
	Checks []checkFigures
	Graded int
	// Others is the number of checks that are not shown, because fewer students fail them.
	Others int
}

type checkFigures struct {
	ID, Title, Lecture   string
	Failed, Skipped      int
	FailedPart, WithSkip float64 // hundredths of the bar
	Percent              int
	labsOrder            int
}

type slot struct {
	Number int
	Bars   []bar
}

// bar is a run in a slot, in hundredths of the time.
type bar struct {
	X, Width    float64
	Class, Text string
}

func (v *view) distribution(lab *Lab) {
	d := distribution{Lab: lab, Bins: make([]bin, 11)}
	var all []float64
	for i := range v.Students {
		w := v.Students[i].work(lab.Name)
		switch {
		case w == nil:
			d.Missing++
		case !w.hasGrade():
			d.Without++
		default:
			d.Graded++
			part := w.Final / float64(lab.full())
			all = append(all, w.Final)
			d.Bins[min(10, max(0, int(math.Floor(part*10+1e-9))))].Students++
		}
	}
	most := 1
	for _, b := range d.Bins {
		most = max(most, b.Students)
	}
	for i := range d.Bins {
		b := &d.Bins[i]
		b.Label, b.Range = strconv.Itoa(10*i), fmt.Sprintf("%d to below %d percent", 10*i, 10*i+10)
		if i == 10 {
			b.Range = "full marks"
		}
		b.Height = (barHeight*b.Students + most - 1) / most
	}
	if len(all) > 0 {
		slices.Sort(all)
		d.Median = points((all[(len(all)-1)/2] + all[len(all)/2]) / 2)
	}
	v.Distributions = append(v.Distributions, d)
}

func (v *view) hardest(lab *Lab) {
	h := hardest{Lab: lab}
	figures := map[string]*checkFigures{}
	get := func(id string) *checkFigures {
		if figures[id] == nil {
			figures[id] = &checkFigures{ID: id, Title: id, labsOrder: len(lab.Checks)}
			if check := lab.check(id); check != nil {
				figures[id].Title, figures[id].Lecture = check.Title, check.Lecture
				figures[id].labsOrder = slices.IndexFunc(lab.Checks, func(c Check) bool { return c.ID == id })
			}
		}
		return figures[id]
	}
	for i := range v.Students {
		w := v.Students[i].work(lab.Name)
		if w == nil || !w.hasGrade() {
			continue
		}
		h.Graded++
		for _, f := range w.Failed {
			get(f.Check).Failed++
		}
		for _, id := range w.Skipped {
			get(id).Skipped++
		}
	}
	for _, f := range figures {
		if f.Failed > 0 {
			part := 100 / float64(h.Graded)
			f.FailedPart, f.WithSkip = part*float64(f.Failed), part*float64(f.Failed+f.Skipped)
			f.Percent = int(math.Round(f.FailedPart))
			h.Checks = append(h.Checks, *f)
		}
	}
	slices.SortFunc(h.Checks, func(a, b checkFigures) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.labsOrder, b.labsOrder), cmp.Compare(a.ID, b.ID))
	})
	if h.Others = len(h.Checks) - shownChecks; h.Others > 0 {
		h.Checks = h.Checks[:shownChecks]
	}
	if len(h.Checks) > 0 {
		v.Hardest = append(v.Hardest, h)
	}
}

func (v *view) timeline() {
	end, slots := v.Took, 0
	for _, s := range v.Run {
		end, slots = max(end, s.Start+s.Took), max(slots, s.Slot+1)
	}
	const mostSlots = 256
	if end <= 0 || slots > mostSlots {
		return
	}
	v.Runs = len(v.Run)
	v.Slots = make([]slot, slots)
	for i := range v.Slots {
		v.Slots[i].Number = i + 1
	}
	part := func(d time.Duration) float64 { return 100 * float64(d) / float64(end) }
	for _, s := range slices.SortedStableFunc(slices.Values(v.Run), func(a, b Span) int {
		return cmp.Compare(a.Start, b.Start)
	}) {
		if s.Slot < 0 {
			continue
		}
		text := fmt.Sprintf("%s, %s: %s after %s, %s",
			s.Student, s.Lab, duration(s.Took), duration(s.Start), words(s.Outcome))
		if s.Max > 0 {
			text += fmt.Sprintf(", %d of %d", s.Points, s.Max)
		}
		total := s.Max
		if total == 0 {
			total = math.MaxInt
		}
		v.Slots[s.Slot].Bars = append(v.Slots[s.Slot].Bars, bar{
			part(s.Start), max(.05, .9*part(s.Took)), class(s.Outcome, s.Points, total), text,
		})
	}
	v.Took = end
}
