// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package html writes a report as a self-contained web page.
package html

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/replay"
)

// The page is split into several files, so that each can be read and edited in its own language.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/common.js
	commonScript string
	//go:embed page/page.js
	timelineScript string
	//go:embed page/replay.js
	replayScript string
)

// pageScript draws the timeline, and replays checks.
var pageScript = commonScript + timelineScript + replayScript

var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page.html").Funcs(template.FuncMap{
		"add":       func(a, b int) int { return a + b },
		"seconds":   pageSeconds,
		"trim":      func(prefix, text string) string { return strings.TrimPrefix(text, prefix) },
		"share":     pageShare,
		"quoted":    pageQuoted,
		"panics":    report.Panics,
		"breakable": pageBreakable,
	}).Parse(pageHTML)
})

// page is the data of the template.
type page struct {
	*report.Report
	// Reached are the points, and Of is the text after them: "of 100 points". For a run without a grade, they are "no"
	// and "grade".
	Reached, Of string
	Style       template.CSS
	Script      template.JS
	// Policy is the Content-Security-Policy. It allows only this page's own style and script. Even if text of a submission
	// were parsed as HTML, it could neither run nor load anything.
	Policy string
	// Verdict is full, part or none: full marks, some points, no grade.
	Verdict string
	// Ran is true if any check ran.
	Ran bool
	// Markers are the missing markers, each once.
	Markers []string
	Strip   []stripPart
	Data    pageData

	// lectures are the links to the lectures' pages, by their paths from the root of the repository.
	lectures map[string]string
}

// stripPart is one check in the bar of the score, in hundredths of its width.
type stripPart struct {
	X, Width float64
	Check    *report.Check
}

// pageData is the data from which the script draws the timeline and the replays.
type pageData struct {
	Checks   []pageCheck       `json:"checks"`
	Timeline []report.Moment   `json:"timeline"`
	Faults   map[string]string `json:"faults"`
	// Replays are the steps of the checks that can be replayed, by their indices in Checks.
	Replays map[int][]pageStep `json:"replays"`
	// Replay is the index of the check to replay first.
	Replay int `json:"replay"`
}

// pageStep is a replay.Step.
type pageStep struct {
	Moments []int    `json:"moments,omitempty"`
	At      float64  `json:"at"`
	What    string   `json:"what"`
	Request string   `json:"request,omitempty"`
	Choices []string `json:"choices,omitempty"`
}

type pageCheck struct {
	ID      string        `json:"id"`
	Title   string        `json:"title"`
	Status  report.Status `json:"status"`
	At      float64       `json:"at"`
	Seconds float64       `json:"seconds"`
}

// Write writes a self-contained page. It loads nothing, works from a file, and shows everything that comes from a
// submission as text. The report must be sanitized. dir is the folder of the page, and its links to the lectures are
// relative to this folder. The page has no such links if the folder is not known, or is not in a checkout of this
// repository.
func Write(w io.Writer, r *report.Report, dir string) error {
	parsed, err := pageTemplate()
	if err != nil {
		return fmt.Errorf("reading the template of the page: %w", err)
	}
	p := page{
		Report: r,
		Style:  template.CSS(pageStyle), Script: template.JS(pageScript), Verdict: "part", //nolint:gosec // our own files
		Ran: len(r.Checks) > 0 && !r.EndedBeforeChecks(),
		Policy: fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; "+
			"img-src data:; base-uri 'none'; form-action 'none'",
			digest(pageStyle), digest(pageScript)),
	}
	switch {
	case r.FullMarks():
		p.Verdict = "full"
	case r.Outcome != report.Graded:
		p.Verdict = "none"
	}
	for _, f := range r.Forbidden {
		if !slices.Contains(p.Markers, f.Marker) {
			p.Markers = append(p.Markers, f.Marker)
		}
	}
	p.Reached, p.Of, _ = strings.Cut(r.Points(), " ")
	p.Strip = strip(r)
	p.Data = data(r)
	p.lectures = lectureLinks(r, dir)
	var out bytes.Buffer // an incomplete page must not be written
	if err := parsed.Execute(&out, p); err != nil {
		return fmt.Errorf("writing the page of %s: %w", r.Lab, err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// lectureLinks finds the lectures of a report's checks in the checkout around a folder.
func lectureLinks(r *report.Report, dir string) map[string]string {
	links := map[string]string{}
	if dir == "" {
		return links
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return links
	}
	for i := range r.Checks {
		// A report's content is not trusted. A link must have a page of the documentation as its target.
		page, _, _ := strings.Cut(r.Checks[i].Lecture, "#")
		if _, known := links[page]; known || !strings.HasPrefix(page, "docs/") ||
			path.Ext(page) != ".md" || path.Clean(page) != page {
			continue
		}
		for root := dir; ; root = filepath.Dir(root) {
			file := filepath.Join(root, filepath.FromSlash(page))
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				if relative, err := filepath.Rel(dir, file); err == nil {
					links[page] = filepath.ToSlash(relative)
				}
				break
			}
			if root == filepath.Dir(root) {
				break
			}
		}
	}
	return links
}

// LectureLink returns the link from the page to a heading of a lecture, or an empty string if the page can't link to
// it.
func (p page) LectureLink(lecture string) string {
	file, anchor, _ := strings.Cut(lecture, "#")
	link := p.lectures[file]
	if link == "" {
		return ""
	}
	return (&url.URL{Path: link, Fragment: anchor}).String()
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// strip divides the bar among the checks by their points.
func strip(r *report.Report) []stripPart {
	const gap = 0.4
	total := 0
	for _, check := range r.Checks {
		total += check.MaxPoints
	}
	var parts []stripPart
	x := 0.0
	for i := range r.Checks {
		width := (100 + gap) * float64(r.Checks[i].MaxPoints) / float64(max(1, total))
		parts = append(parts, stripPart{X: x, Width: max(gap, width-gap), Check: &r.Checks[i]})
		x += width
	}
	return parts
}

func data(r *report.Report) pageData {
	d := pageData{Timeline: r.Timeline, Faults: map[string]string{}, Replays: map[int][]pageStep{}}
	replayable := replay.Of(r)
	d.Replay = replay.First(r, replayable)
	for i, steps := range replayable {
		for _, step := range steps {
			d.Replays[i] = append(d.Replays[i], pageStep{step.Moments, step.At, step.What(r), step.Request, step.Choices})
		}
	}
	for _, check := range r.Checks {
		d.Checks = append(d.Checks, pageCheck{
			ID: check.ID, Title: check.Title, Status: check.Status, At: check.At, Seconds: check.Seconds,
		})
	}
	for _, moment := range r.Timeline {
		if text := replay.FaultText(moment.Fault); text != "" {
			d.Faults[moment.Fault] = text
		}
	}
	return d
}

func pageSeconds(seconds float64) string {
	switch {
	case seconds >= 100:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds >= 10:
		return fmt.Sprintf("%.1f s", seconds)
	}
	return fmt.Sprintf("%.2f s", seconds)
}

// pageQuoted renders text between backticks as code. Everything is escaped first.
func pageQuoted(text string) template.HTML {
	parts := strings.Split(text, "`")
	if len(parts)%2 == 0 {
		parts = []string{text} // an unpaired backtick does not mark code
	}
	var out strings.Builder
	for i, part := range parts {
		escaped := template.HTMLEscapeString(part)
		if i%2 == 1 {
			escaped = "<code>" + escaped + "</code>"
		}
		out.WriteString(escaped)
	}
	return template.HTML(out.String()) //nolint:gosec // every part of it was escaped above
}

// pageBreakable lets a narrow screen break a path or a marker after its separators.
func pageBreakable(text string) template.HTML {
	escaped := template.HTMLEscapeString(text)
	breaks := strings.NewReplacer("/", "/<wbr>", ",", ",<wbr>", "verbs=", "<wbr>verbs=")
	return template.HTML(breaks.Replace(escaped)) //nolint:gosec // escaped above
}

func pageShare(value float64) string { return fmt.Sprintf("%.2f", value) }

// The following parts of a page are easier to read in Go than in a template.

func (p page) Headline() string {
	switch {
	case p.Outcome != report.Graded:
		return p.Outcome.Headline()
	case p.Verdict == "full":
		return fmt.Sprintf("All %d checks passed", len(p.Checks))
	default:
		return fmt.Sprintf("%d of %d checks passed", p.Count(report.Passed), len(p.Checks))
	}
}

func (p page) When() string { return p.Started.UTC().Format("2 January 2006, 15:04 UTC") }

func (p page) Requests() []string {
	var requests []string
	for _, f := range p.Forbidden {
		resource := f.Resource
		if f.Subresource != "" {
			resource += "/" + f.Subresource
		}
		requests = append(requests, fmt.Sprintf("%s %s, %s", f.Verb, resource, times(f.Count)))
	}
	return requests
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Measured returns the checks with measurements.
func (p page) Measured() []report.Check {
	var checks []report.Check
	for _, check := range p.Checks {
		if len(check.Measurements) > 0 {
			checks = append(checks, check)
		}
	}
	return checks
}
