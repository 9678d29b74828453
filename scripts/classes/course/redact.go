// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"cmp"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lva.io/operators/scripts/classes/course/page"
	"lva.io/operators/scripts/grading/report"
)

// hiddenDir replaces the folder in which the submission was graded.
const hiddenDir = "/submission"

// Redactor produces the version of a report that its student may read. It removes the seed, from which all submissions
// of the class are graded, the unpublished parts of checks, and the folders of the machine.
type Redactor struct {
	// folders are the folders of the machine, the longest first. paths matches one of them with the rest of the path.
	folders []string
	paths   *regexp.Regexp
}

// NewRedactor returns a redactor that hides these folders of the machine. Of a path below them it keeps the last part.
// It ignores relative and empty names, and the root.
func NewRedactor(folders ...string) *Redactor {
	d := &Redactor{}
	for _, folder := range folders {
		d.folders = append(d.folders, spellings(folder)...)
	}
	slices.SortFunc(d.folders, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	d.folders = slices.Compact(d.folders)
	if len(d.folders) == 0 {
		return d
	}
	quoted := make([]string, len(d.folders))
	for i, folder := range d.folders {
		quoted[i] = regexp.QuoteMeta(folder)
	}
	d.paths = regexp.MustCompile("(?:" + strings.Join(quoted, "|") + ")(?:/[^\\s\"'`:;,()<>\\[\\]{}|]*)?")
	return d
}

// spellings returns the names of a folder: as given, and with links resolved.
func spellings(folder string) []string {
	if !filepath.IsAbs(folder) || filepath.Clean(folder) == "/" {
		return nil
	}
	names := []string{filepath.Clean(folder)}
	if resolved, err := filepath.EvalSymlinks(folder); err == nil && resolved != names[0] && resolved != "/" {
		names = append(names, resolved)
	}
	return names
}

// Redact returns the report for its student: see page.Redact. It does not modify the report.
func (d *Redactor) Redact(r *report.Report, lab *page.Lab) (*report.Report, error) {
	own := insideOf(r.Submission.Dir)
	inside := *r
	inside.Submission.Dir = hiddenDir
	return page.Redact(&inside, lab, func(text string) string { return d.outside(own(text)) })
}

// Text returns a text in which the folders of the machine are hidden.
func (d *Redactor) Text(text string) string { return d.outside(text) }

// insideOf returns a function that shortens paths in a folder, so that they begin there.
func insideOf(dir string) func(text string) string {
	var all []*regexp.Regexp
	for _, name := range spellings(dir) {
		all = append(all, regexp.MustCompile(regexp.QuoteMeta(name)+`(/|$|[^\w.-])`))
	}
	return func(text string) string {
		for _, paths := range all {
			text = paths.ReplaceAllStringFunc(text, func(found string) string {
				after := paths.FindStringSubmatch(found)[1]
				if after == "/" {
					return ""
				}
				return "." + after
			})
		}
		return text
	}
}

// outside replaces a path on the machine with its last part.
func (d *Redactor) outside(text string) string {
	if d.paths == nil {
		return text
	}
	text = d.paths.ReplaceAllStringFunc(text, func(found string) string {
		if slices.Contains(d.folders, strings.TrimRight(found, "/")) {
			return "…"
		}
		return "…/" + path.Base(found)
	})
	// A long text may end anywhere, even within a path.
	rest, shortened := strings.CutSuffix(text, "…")
	if !shortened {
		return text
	}
	for _, folder := range d.folders {
		for n := len(folder) - 1; n > 1; n-- {
			if before, ends := strings.CutSuffix(rest, folder[:n]); ends {
				return before + "…"
			}
		}
	}
	return text
}
