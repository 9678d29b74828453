// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Pages lists the Markdown pages of the repository, by their paths from the root: the two at the top, those below docs/
// and one for each lab and solution. It leaves out the pages of installed npm modules.
func Pages(root string) ([]string, error) {
	var pages []string
	for _, pattern := range []string{
		"README.md", "CONTRIBUTING.md", "labs/*/README.md", "solutions/*/TASK.md", "solutions/*/README.md",
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, fmt.Errorf("finding %s: %w", pattern, err)
		}
		for _, name := range found {
			relative, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			pages = append(pages, filepath.ToSlash(relative))
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || path.Ext(entry.Name()) != ".md" {
			return err
		}
		relative, err := filepath.Rel(root, name)
		pages = append(pages, filepath.ToSlash(relative))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	slices.Sort(pages)
	return pages, nil
}

// Named returns the lectures and guides with these paths, from the root or from the working folder.
func Named(root string, args []string) ([]string, error) {
	all, err := Pages(root)
	if err != nil {
		return nil, err
	}
	var pages []string
	for _, arg := range args {
		page := arg
		if !slices.Contains(all, page) {
			absolute, err := filepath.Abs(arg)
			if err != nil {
				return nil, err
			}
			if page, err = filepath.Rel(root, absolute); err != nil {
				return nil, err
			}
			page = filepath.ToSlash(page)
		}
		if !slices.Contains(all, page) ||
			!strings.HasPrefix(page, "docs/lectures/") && !strings.HasPrefix(page, "docs/guides/") {
			return nil, fmt.Errorf("%s is not a page of docs/lectures or docs/guides", arg)
		}
		pages = append(pages, page)
	}
	return pages, nil
}

// Problem is a mistake in a page, and its position.
type Problem struct {
	Page    string // path from the root
	Line    int    // from 1
	Message string
}

func (p *Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.Page, p.Line, p.Message) }

var (
	opening = regexp.MustCompile(`^<!--\s*(code|table|diagram):\s*([^\s#]+)(?:#(\S+))?\s*-->$`)
	closing = regexp.MustCompile(`^<!--\s*/(code|table|diagram)\s*-->$`)
	attempt = regexp.MustCompile(`^<!--\s*/?\s*(code|table|diagram)\b`)
	fence   = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")
)

// usage is the syntax of each kind of marker.
var usage = map[string]string{
	"code":    "<!-- code: file#name --> in a line of its own, the file's path from the root of the repository",
	"table":   "<!-- table: name --> in a line of its own",
	"diagram": "<!-- diagram: name --> or <!-- diagram: page.md#heading --> in a line of its own",
}

// Refresh returns a page (given by its path from the root) with the current code, tables and diagrams of the files. It
// reports all mistakes, each as a *Problem of the joined error.
func Refresh(root, page string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	repository := newLayout(root)
	var out []string
	var problems []error
	problem := func(line int, format string, args ...any) {
		problems = append(problems, &Problem{Page: page, Line: line, Message: fmt.Sprintf(format, args...)})
	}
	var fenced openFence
	opened, kind := 0, "" // the open marker
	for i, line := range strings.Split(string(content), "\n") {
		number, text := i+1, strings.TrimSpace(line)
		if fenced.take(line) {
			if opened == 0 {
				out = append(out, line)
			}
			continue
		}
		// An end marker counts even in an open block. Otherwise code that was changed by hand could hide it.
		if end := closing.FindStringSubmatch(text); opened > 0 && end != nil && end[1] == kind {
			fenced, opened = "", 0
			out = append(out, line)
			continue
		}
		tried := attempt.FindStringSubmatch(text)
		if fenced != "" || tried == nil {
			if opened == 0 {
				out = append(out, line)
			}
			continue
		}
		reference := opening.FindStringSubmatch(text)
		switch {
		case opened > 0:
			problem(number, "the %[1]s of line %[2]d is not closed before this one: end it with <!-- /%[1]s -->", kind, opened)
		case closing.MatchString(text):
			problem(number, "<!-- /%[1]s --> without %[2]s before it",
				tried[1], "a "+strings.SplitAfter(usage[tried[1]], "-->")[0])
		case reference == nil:
			problem(number, "write %s", usage[tried[1]])
		default:
			opened, kind = number, reference[1]
			shown, err := generate(repository, page, kind, reference[2], reference[3])
			if err != nil {
				problem(number, "%v", err)
			}
			out = append(out, line)
			out = append(out, shown...)
		}
	}
	if opened > 0 {
		problem(opened, "this %[1]s is not closed: end it with <!-- /%[1]s -->", kind)
	}
	return []byte(strings.Join(out, "\n")), errors.Join(problems...)
}

// openFence is the fence of the code block that contains a line. It is empty outside of blocks.
type openFence string

// take looks at the next line of a page, and reports whether it belongs to a block: it opens or closes one, or is a
// part of one.
func (f *openFence) take(line string) bool {
	mark := fence.FindStringSubmatch(line)
	if mark == nil {
		return false
	}
	switch {
	case *f == "":
		*f = openFence(mark[1])
	case strings.HasPrefix(mark[1], string(*f)) && strings.TrimSpace(line) == mark[1]:
		*f = ""
	}
	return true
}

// WithoutMarkers returns a page without the markers of its code, tables and diagrams. The text between them stays.
func WithoutMarkers(page []byte) []byte {
	var out []byte
	var fenced openFence
	for line := range bytes.Lines(page) {
		if fenced.take(string(line)) || fenced != "" || !attempt.MatchString(strings.TrimSpace(string(line))) {
			out = append(out, line...)
		}
	}
	return out
}

// generate returns the text between two markers.
func generate(l *layout, page, kind, name, part string) ([]string, error) {
	switch kind {
	case "table":
		if part != "" {
			return nil, noParts(kind, name, part)
		}
		return makeTable(l, page, name)
	case "diagram":
		return makeDiagram(l, name, part)
	}
	// A student who reads a lecture in an editor also sees its folded parts, and would no longer find the solution alone.
	if strings.HasPrefix(page, "docs/lectures/") && strings.HasPrefix(name, "solutions/") {
		return nil, fmt.Errorf("a lecture shows no solution, since an editor that it is read in folds nothing: "+
			"link to it, as %s",
			linkTo(page, "the solution", strings.TrimSuffix(name+"#"+part, "#")))
	}
	shown, err := show(l.root, name, part)
	return block(language(name), shown), err
}

// block returns a fenced code block. Its fence is longer than any in the code.
func block(language string, lines []string) []string {
	mark := "```"
	for slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, mark) }) {
		mark += "`"
	}
	return slices.Concat([]string{mark + language}, lines, []string{mark})
}

// Change describes a page whose code, tables or diagrams differ from the files.
type Change struct {
	Page       string // path from the root
	Have, Want []byte
}

// Stale lists the pages whose code, tables or diagrams differ from the files. The error lists the mistakes of all
// pages.
func Stale(root string) ([]Change, error) {
	pages, err := Pages(root)
	if err != nil {
		return nil, err
	}
	var changes []Change
	var problems []error
	for _, page := range pages {
		want, err := Refresh(root, page)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		have, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(have, want) {
			changes = append(changes, Change{Page: page, Have: have, Want: want})
		}
	}
	return changes, errors.Join(problems...)
}

// Check returns the mistakes of all pages: code, tables and diagrams that can't be generated or are stale, and dead
// links.
func Check(root string) error {
	changes, err := Stale(root)
	problems := []error{err}
	for _, change := range changes {
		problems = append(problems, &Problem{
			Page: change.Page, Line: firstDifference(change.Have, change.Want),
			Message: "what the marker before it names has changed: run `make fix`",
		})
	}
	return errors.Join(append(problems, CheckLinks(root))...)
}

// Fix refreshes the code, tables and diagrams in all pages and returns the pages that changed. It skips a page with a
// mistake, and the README of a lab, which comes from the TASK.md of its solution.
func Fix(root string) ([]string, error) {
	changes, err := Stale(root)
	var changed []string
	for _, change := range changes {
		if strings.HasPrefix(change.Page, "labs/") {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(change.Page)), change.Want, 0o644); err != nil {
			return changed, err
		}
		changed = append(changed, change.Page)
	}
	return changed, err
}

// firstDifference returns the number of the first line, from 1, in which two pages differ.
func firstDifference(have, want []byte) int {
	a, b := strings.Split(string(have), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i + 1
		}
	}
	return min(len(a), len(b)) + 1
}
