// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"lva.io/operators/scripts/classes/course/similarity"
)

const (
	// shownPairs is how many pairs are shown with their code, the most similar first. The page only names the other pairs.
	shownPairs = 40
	// shownLines is how many lines of code are shown for one side of a pair.
	shownLines = 400
	// shownChecks is how many of the checks that fail most are shown for a lab.
	shownChecks = 8
	// fewestStudents is the number of students from which on the page shows what is typical.
	fewestStudents = 2
)

// view holds what the template of the class page shows.
type view struct {
	*Class
	frame
	Figures        []figure
	Looks          []look
	Distributions  []distribution
	Hardest        []hardest
	Misconceptions []shownMisconception
	Clusters       []cluster
	Pairs          []shownPair
	// MorePairs are the pairs without code.
	MorePairs []shownPair
	Slots     []slot
	Runs      int
	Rows      []row
}

type figure struct{ Number, Text, Link string }

type look struct {
	Student, Link, Lab, Report string
	Why                        []string
	// rank is smaller for work that should be reviewed first.
	rank int
}

type shownMisconception struct {
	*Misconception
	Title string
	Lab   *Lab
}

type cluster struct {
	Lab   string
	Names []string
}

type shownPair struct {
	Alike
	LabTitle string
	Percent  int
	Sides    []side
	// Hidden is the number of matching regions that are not shown.
	Hidden int
}

type side struct{ A, B code }

type code struct {
	Student string
	similarity.Region
	Lines []string
	// More is the number of lines of the region that are not shown.
	More int
}

// Where returns the lines of the region in words.
func (c code) Where() string {
	if c.From == c.To {
		return fmt.Sprintf("%s, line %d", c.File, c.From)
	}
	return fmt.Sprintf("%s, lines %d to %d", c.File, c.From, c.To)
}

type row struct {
	ID, Name, Total string
	Cells           []cell
}

// cell is a student's work for one lab.
type cell struct {
	Text, Class, Report string
	// Notes are remarks besides the points.
	Notes []string
}

// newView collects what the page shows.
func newView(c *Class) *view {
	sorted := *c
	sorted.Students = slices.Clone(c.Students)
	slices.SortStableFunc(sorted.Students, func(a, b Student) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	v := &view{Class: &sorted, frame: newFrame(cmp.Or(c.Title, "Class"))}
	v.students()
	for i := range v.Labs {
		v.distribution(&v.Labs[i])
		v.hardest(&v.Labs[i])
	}
	for i := range c.Misconceptions {
		m := &c.Misconceptions[i]
		v.Misconceptions = append(v.Misconceptions, shownMisconception{m, howMany(len(m.Students)), v.lab(m.Lab)})
	}
	v.alike()
	v.timeline()
	v.figures()
	return v
}

func (v *view) students() {
	for i := range v.Students {
		s := &v.Students[i]
		r := row{ID: fmt.Sprintf("student-%d", i+1), Name: s.Name, Total: points(s.Total)}
		for j := range v.Labs {
			lab := &v.Labs[j]
			w := s.work(lab.Name)
			if w == nil {
				r.Cells = append(r.Cells, cell{Text: "–", Class: "missing", Notes: []string{"nothing handed in"}})
				continue
			}
			why := w.look()
			if len(why) > 0 {
				l := look{Student: s.Name, Link: r.ID, Lab: lab.Name, Report: w.Report, Why: why}
				if w.hasGrade() {
					l.rank = 1
				}
				v.Looks = append(v.Looks, l)
			}
			r.Cells = append(r.Cells, newCell(w, lab))
		}
		v.Rows = append(v.Rows, r)
	}
	// Failures of a run or of a reader come first: it may be enough to grade the work again.
	slices.SortStableFunc(v.Looks, func(a, b look) int { return cmp.Compare(a.rank, b.rank) })
}

func newCell(w *Work, lab *Lab) cell {
	c := cell{
		Text: points(w.Final), Class: class(w.Outcome, int(math.Floor(w.Final)), cmp.Or(w.Max, lab.full())), Report: w.Report,
	}
	if !w.hasGrade() {
		c.Text, c.Notes = "none", append(c.Notes, words(w.Outcome))
		return c
	}
	if w.Outcome != "graded" {
		c.Notes = append(c.Notes, words(w.Outcome))
	}
	if float64(w.Points) != w.Final {
		c.Notes = append(c.Notes, fmt.Sprintf("run: %d", w.Points))
	}
	if w.Late > 0 {
		c.Notes = append(c.Notes, count(w.Late, "day")+" late")
	}
	if w.Manual != 0 {
		c.Notes = append(c.Notes, "by hand: "+signed(w.Manual))
	}
	return c
}

// look returns the reasons why a person should review a work.
func (w *Work) look() []string {
	var why []string
	switch w.Outcome {
	case "error", "interrupted", "unfinished", "timed-out", OutcomeUnreadable:
		text := words(w.Outcome)
		if w.Reason != "" {
			text += ": " + w.Reason
		}
		why = append(why, text)
	}
	if len(w.Scores) > 1 && slices.Min(w.Scores) != slices.Max(w.Scores) {
		var all []string
		for _, score := range w.Scores {
			all = append(all, strconv.Itoa(score))
		}
		why = append(why, fmt.Sprintf("flaky: %s points in %d runs", strings.Join(all, ", "), len(w.Scores)))
	}
	return append(why, w.Look...)
}

// class returns the colour of a run: full, part or none for the points that the submission reached, or machine if the
// run decided nothing about the submission.
func class(outcome string, reached, total int) string {
	switch {
	case !(&Work{Outcome: outcome}).hasGrade():
		return "machine"
	case outcome == "graded" && reached >= total:
		return "full"
	case reached > 0:
		return "part"
	}
	return "none"
}

func words(outcome string) string {
	if outcome == "" {
		return "no outcome"
	}
	return strings.ReplaceAll(outcome, "-", " ")
}

func (v *view) alike() {
	byLab := map[string][]similarity.Pair{}
	for _, a := range v.Alike {
		byLab[a.Lab] = append(byLab[a.Lab], a.Pair)
		p := shownPair{Alike: a, LabTitle: a.Lab, Percent: int(math.Round(100 * a.Score))}
		if len(v.Pairs) >= shownPairs {
			v.MorePairs = append(v.MorePairs, p)
			continue
		}
		left := shownLines
		for _, m := range a.Matches {
			if left <= 0 {
				p.Hidden++
				continue
			}
			s := side{v.code(a.A, a.Lab, m.A, left), v.code(a.B, a.Lab, m.B, left)}
			left -= max(len(s.A.Lines), len(s.B.Lines), 1)
			p.Sides = append(p.Sides, s)
		}
		v.Pairs = append(v.Pairs, p)
	}
	for i := range v.Labs {
		for _, names := range similarity.Clusters(byLab[v.Labs[i].Name]) {
			if len(names) > 2 {
				v.Clusters = append(v.Clusters, cluster{v.Labs[i].Name, names})
			}
		}
	}
}

// code reads at most so many lines of a region.
func (v *view) code(student, lab string, r similarity.Region, most int) code {
	c := code{Student: student, Region: r}
	if v.Source == nil {
		return c
	}
	content, err := v.Source(student, lab, r.File)
	if err != nil {
		return c // The page only names the lines.
	}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if number < r.From || number > r.To {
			continue
		}
		if len(c.Lines) >= most {
			c.More++
			continue
		}
		c.Lines = append(c.Lines, strings.ReplaceAll(strings.TrimRight(string(line), "\r\n"), "\t", "    "))
	}
	return c
}

func (v *view) figures() {
	works, full := 0, 0
	for i := range v.Students {
		for _, w := range v.Students[i].Works {
			works++
			if w.hasGrade() && w.Outcome == "graded" && w.Max > 0 && w.Points >= w.Max {
				full++
			}
		}
	}
	v.Figures = []figure{
		{strconv.Itoa(len(v.Students)), plural(len(v.Students), "student"), "#students"},
		{strconv.Itoa(works), plural(works, "submission"), "#distribution"},
		{strconv.Itoa(full), "with full marks", "#distribution"},
	}
	if len(v.Students) >= fewestStudents && len(v.Labs) > 0 {
		totals := make([]float64, len(v.Students))
		for i, s := range v.Students {
			totals[i] = s.Total
		}
		slices.Sort(totals)
		v.Figures = append(v.Figures, figure{
			points((totals[(len(totals)-1)/2]+totals[len(totals)/2])/2) + " %", "is the median", "#distribution",
		})
	}
	verb := "need"
	if len(v.Looks) == 1 {
		verb = "needs"
	}
	v.Figures = append(v.Figures,
		figure{strconv.Itoa(len(v.Looks)), verb + " a second look", "#look"},
		figure{strconv.Itoa(len(v.Alike)), plural(len(v.Alike), "pair") + " alike", "#alike"},
	)
}

// These functions are for the templates.

// points formats points with at most two digits after the point, without trailing zeros.
func points(p float64) string {
	if math.IsNaN(p) || math.IsInf(p, 0) {
		return "unknown"
	}
	return strconv.FormatFloat(math.Round(p*100)/100, 'f', -1, 64)
}

// signed formats points that are added or subtracted.
func signed(p float64) string {
	if p > 0 {
		return "+" + points(p)
	}
	return points(p)
}

func share(part float64) string { return strconv.FormatFloat(part, 'f', 2, 64) }

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

func count(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(n, noun)) }

// howMany returns the beginning of a sentence about students.
func howMany(n int) string {
	small := []string{
		"No student", "One student", "Two", "Three", "Four", "Five",
		"Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve",
	}
	switch {
	case n < 2:
		return small[max(0, n)]
	case n < len(small):
		return small[n] + " students"
	}
	return count(n, "student")
}

// duration formats a duration: in tenths of a second below a minute, in minutes and seconds below an hour, and in hours
// and minutes from then on.
func duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// lectureLink returns a link to a heading of a lecture. It is empty without a base, and for a heading that is not on a
// page of the documents.
func lectureLink(base, lecture string) string {
	file, anchor, _ := strings.Cut(lecture, "#")
	if !isRelative(base) || !strings.HasPrefix(file, "docs/") || strings.Contains(file, "..") {
		return ""
	}
	return base + (&url.URL{Path: file, Fragment: anchor}).String()
}

// reportLink returns a path below the page, or an empty string.
func reportLink(path string) string {
	if !isRelative(path) || strings.Contains(path, "..") {
		return ""
	}
	return (&url.URL{Path: path}).String()
}

// isRelative returns false for a path that a browser could interpret as another host or a scheme.
func isRelative(path string) bool {
	return path != "" && !strings.HasPrefix(path, "/") && !strings.ContainsAny(path, ":\\")
}

// visible replaces characters that are invisible, or that change how other text is shown: control characters and those
// that change the direction of text (https://trojansource.codes).
func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069,
		r == 0x200e, r == 0x200f, r == 0x061c:
		return unicode.ReplacementChar
	}
	return r
}
