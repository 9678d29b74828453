// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Region is one task: a part of a solution's file that the lab does not have.
type Region struct {
	Name string
	// File is relative to the lab's folder, with slashes.
	File string
	// Begin, Else and End are the lines of the markers, from 1. Else is 0 if the lab gets nothing in place of the region.
	Begin, Else, End int
	// Step is the first step number in the lab's part, in the form `TODO(lab): N.`. It is 0 if there is none.
	Step int
}

// Problem is a mistake in a file, and its position.
type Problem struct {
	File    string
	Line    int // from 1
	Message string
}

func (p *Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message) }

// Source is a text file of a solution, with its regions.
type Source struct {
	Name    string
	Regions []Region

	lines   []string
	roles   []role
	differs bool
	labOnly bool
}

// role is the role of a line.
type role int

const (
	plain       role = iota // outside of regions: in the solution and in the lab
	taken                   // between begin and else: only in the solution
	replacement             // between else and end: only in the lab, without its comment sign
	marker                  // in neither
)

var (
	stepNumber   = regexp.MustCompile(`TODO\(lab\): ([0-9]+)\.`)
	regionName   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	spacedMarker = regexp.MustCompile(`^(//|#)\s+lab:(begin|else|end|differs|alone)\b`)
)

// CommentSign returns the sign that begins a comment, and therefore a marker, in a file of this name. It is empty for
// files without markers: prose may mention markers, and JSON has no comments.
func CommentSign(name string) string {
	switch path.Ext(name) {
	case ".go", ".mod", ".work":
		return "//"
	case ".md", ".json", ".txt", ".sum":
		return ""
	}
	if path.Base(name) == "LICENSE" {
		return ""
	}
	return "#"
}

// Parse finds the regions of a file. It reports all mistakes, each as a *Problem of the joined error.
func Parse(name string, content []byte) (*Source, error) {
	s := &Source{Name: name, lines: splitLines(string(content))}
	s.roles = make([]role, len(s.lines))
	sign := CommentSign(name)
	if sign == "" {
		return s, nil
	}
	m := markers{source: s, sign: sign}
	for i, line := range s.lines {
		m.line(i, strings.TrimSpace(line))
	}
	if m.open != nil {
		m.problem(m.open.Begin, "the region %q is not closed: end it with %slab:end", m.open.Name, sign)
	}
	return s, errors.Join(m.problems...)
}

// markers parses the markers in the lines of one file.
type markers struct {
	source   *Source
	sign     string
	open     *Region
	problems []error
}

func (m *markers) problem(line int, format string, args ...any) {
	m.problems = append(m.problems, &Problem{File: m.source.Name, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (m *markers) line(i int, text string) {
	number := i + 1
	word, isMarker := strings.CutPrefix(text, m.sign+"lab:")
	switch {
	case isMarker:
		m.source.roles[i] = marker
		m.marker(number, word)
	case strings.HasPrefix(text, "//lab:"), strings.HasPrefix(text, "#lab:"):
		m.problem(number, "in this kind of file a marker begins with %slab:", m.sign)
	case spacedMarker.MatchString(text):
		m.problem(number, "a marker has no space after the comment sign: write %slab:", m.sign)
	case m.open != nil && m.open.Else != 0:
		m.source.roles[i] = replacement
		if step := stepNumber.FindStringSubmatch(text); step != nil && m.open.Step == 0 {
			m.open.Step, _ = strconv.Atoi(step[1]) // a number that is too large counts as missing
		}
		if text != "" && !strings.HasPrefix(text, m.sign) {
			m.problem(number, "a line between lab:else and lab:end must be a comment (%s): "+
				"the solution would contain it", m.sign)
		}
	case m.open != nil:
		m.source.roles[i] = taken
	}
}

func (m *markers) marker(number int, text string) {
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "begin":
		if m.open != nil {
			m.problem(number, "the region %q begins within the region %q of line %d: "+
				"regions can't be nested", rest, m.open.Name, m.open.Begin)
			return
		}
		if !regionName.MatchString(rest) {
			m.problem(number, "lab:begin needs the name of the task, as in %slab:begin count-toppings", m.sign)
		}
		m.open = &Region{Name: rest, File: m.source.Name, Begin: number}
	case "else", "end":
		switch {
		case rest != "":
			m.problem(number, "nothing may follow lab:%s", word)
		case m.open == nil:
			m.problem(number, "lab:%s without a lab:begin before it", word)
		case word == "else" && m.open.Else != 0:
			m.problem(number, "the region %q has a lab:else already, in line %d", m.open.Name, m.open.Else)
		case word == "else":
			m.open.Else = number
		default:
			m.open.End = number
			m.source.Regions = append(m.source.Regions, *m.open)
			m.open = nil
		}
	case "differs":
		if rest == "" {
			m.problem(number, "lab:differs needs the reason why this file is not that of the lab before")
		}
		m.source.differs = true
	case "alone":
		if rest == "" {
			m.problem(number, "lab:alone needs the reason why no other lab has this file")
		}
		m.source.labOnly = true
	default:
		m.problem(number, "lab:%s is no marker: there are lab:begin, lab:else, lab:end, lab:differs and lab:alone", word)
	}
}

// Own reports whether the file belongs to this lab: it has a task in it, or a marker that it differs from the earlier
// lab.
func (s *Source) Own() bool { return len(s.Regions) > 0 || s.differs }

// LabOnly reports whether the labs that start from this one leave out the file.
func (s *Source) LabOnly() bool { return s.labOnly }

// Solution returns the file as the solution shows it: without markers and without the lines that only the lab has.
func (s *Source) Solution() []byte {
	return joinLines(s.SolutionLines(1, len(s.lines)))
}

// Len returns the number of lines.
func (s *Source) Len() int { return len(s.lines) }

// SolutionLines returns a range of lines (from 1, both ends included) as Solution has them.
func (s *Source) SolutionLines(from, to int) []string {
	var text assembly
	for i := from - 1; i < to; i++ {
		if s.roles[i] == plain || s.roles[i] == taken {
			text.add(s.lines[i])
		} else {
			text.seam = true
		}
	}
	return text.end()
}

// Skeleton returns the file as the lab gets it, with the steps up to done completed. 0: no step is completed.
func (s *Source) Skeleton(done int) []byte {
	ready := func(i int) bool {
		at := slices.IndexFunc(s.Regions, func(r Region) bool { return r.Begin <= i+1 && i+1 <= r.End })
		return at >= 0 && s.Regions[at].Step > 0 && s.Regions[at].Step <= done
	}
	var text assembly
	for i, line := range s.lines {
		switch role := s.roles[i]; {
		case role == plain, role == taken && ready(i):
			text.add(line)
		case role == replacement && !ready(i):
			text.add(uncomment(line, CommentSign(s.Name)))
		default:
			text.seam = true
		}
	}
	return joinLines(text.end())
}

// untouched reports whether a file of a lab still has the initial lines of a region, with the solution's lines around
// them. A student may keep the comment of a task and write the code below it.
func (s *Source) untouched(r Region, content []byte) bool {
	var expected []string
	open := false // whether the last line belongs to the region
	for i, line := range s.lines {
		inside := r.Else <= i && i < r.End-1
		if s.roles[i] == replacement {
			line = uncomment(line, CommentSign(s.Name))
		}
		if line = strings.TrimSpace(line); line == "" || s.roles[i] != replacement && s.roles[i] != plain {
			continue
		}
		switch {
		case inside:
			expected, open = append(expected, line), true
		case open && s.roles[i] == plain:
			return contains(written(content), append(expected, line))
		case open:
			return contains(written(content), expected)
		case s.roles[i] == plain:
			expected = []string{line}
		default:
			expected = nil
		}
	}
	return contains(written(content), expected)
}

// written returns the non-empty lines, without their indentation.
func written(content []byte) (lines []string) {
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// contains reports whether lines contains others as consecutive lines.
func contains(lines, others []string) bool {
	for i := range len(lines) - len(others) + 1 {
		if slices.Equal(lines[i:i+len(others)], others) {
			return true
		}
	}
	return false
}

// uncomment removes the comment sign and the one space after it, and keeps the indentation.
func uncomment(line, sign string) string {
	indentation := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), sign), " ")
	if rest == "" {
		return ""
	}
	return indentation + rest
}

// assembly collects lines. Where lines were left out (a seam), the empty lines around them would meet. One empty line
// is enough there, and at the edge of a block there is none.
type assembly struct {
	lines []string
	seam  bool
}

func (a *assembly) add(line string) {
	text := strings.TrimSpace(line)
	if a.seam && text == "" && a.blank() {
		return
	}
	if a.seam && (strings.HasPrefix(text, "}") || strings.HasPrefix(text, ")")) {
		a.trim()
	}
	a.seam = a.seam && text == ""
	a.lines = append(a.lines, line)
}

// blank reports whether no empty line should follow.
func (a *assembly) blank() bool {
	if len(a.lines) == 0 {
		return true
	}
	last := strings.TrimSpace(a.lines[len(a.lines)-1])
	return last == "" || strings.HasSuffix(last, "{") || strings.HasSuffix(last, "(")
}

func (a *assembly) trim() {
	for len(a.lines) > 0 && strings.TrimSpace(a.lines[len(a.lines)-1]) == "" {
		a.lines = a.lines[:len(a.lines)-1]
	}
}

func (a *assembly) end() []string {
	if a.seam {
		a.trim()
	}
	return a.lines
}

func splitLines(content string) []string {
	if content == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(content, "\n"), "\n")
}

func joinLines(lines []string) []byte {
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}
