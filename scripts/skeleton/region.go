// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Region is one task: a part of a solution's file that the lab does not have.
type Region struct {
	Name string
	// File is relative to the lab's folder, with slashes.
	File string
	// Begin, Else and End are the lines of the markers, from 1. Else is 0 if the lab gets nothing in the region's place.
	Begin, Else, End int
}

// Problem is a mistake in a file, and where it is.
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
}

// role is what a line is for.
type role int

const (
	plain       role = iota // outside of regions: in the solution and in the lab
	taken                   // between begin and else: only in the solution
	replacement             // between else and end: only in the lab, without its comment sign
	marker                  // in neither
)

var (
	regionName   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	spacedMarker = regexp.MustCompile(`^(//|#)\s+lab:(begin|else|end|differs)\b`)
)

// CommentSign is what begins a comment, and so a marker, in files of this name. It is empty for files that have no
// markers: prose may talk of them, and JSON has no comments.
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

// Parse finds the regions of a file. All mistakes are reported, each as a *Problem of the joined error.
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

// markers goes through the lines of one file.
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
		if text != "" && !strings.HasPrefix(text, m.sign) {
			m.problem(number, "a line between lab:else and lab:end must be a comment (%s): the solution would contain it", m.sign)
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
			m.problem(number, "the region %q begins within the region %q of line %d: regions can't be nested", rest, m.open.Name, m.open.Begin)
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
	default:
		m.problem(number, "lab:%s is no marker: there are lab:begin, lab:else, lab:end and lab:differs", word)
	}
}

// Own reports whether the file belongs to this lab: it has a task in it, or says that it differs from the lab before.
func (s *Source) Own() bool { return len(s.Regions) > 0 || s.differs }

// Solution is the file as the solution reads: without markers and what is for the lab only.
func (s *Source) Solution() []byte {
	return joinLines(s.SolutionLines(1, len(s.lines)))
}

// Len is the number of lines.
func (s *Source) Len() int { return len(s.lines) }

// SolutionLines are the lines from one to another (from 1, both included) as Solution has them.
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

// Skeleton is the file as the lab gets it.
func (s *Source) Skeleton() []byte {
	var text assembly
	for i, line := range s.lines {
		switch s.roles[i] {
		case plain:
			text.add(line)
		case replacement:
			text.add(uncomment(line, CommentSign(s.Name)))
		case taken, marker:
			text.seam = true
		}
	}
	return joinLines(text.end())
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

// assembly collects lines. Where something was left out (a seam) the empty lines around it would meet: one of them is
// enough, and none at the edge of a block.
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
