// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/authoring/conformance"
	"lva.io/operators/scripts/authoring/mutate"
	"lva.io/operators/scripts/authoring/runs"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/replay"
)

// tables are the tables that a page can have, by name, besides layoutTables.
var tables = map[string]func(root, page string, list *manifest.Manifest) (*table, error){
	"checks":              checksOf,
	"conformance":         conformanceFigures,
	"conformance-reasons": conformanceReasons,
	"labs":                labs,
	"lectures":            lectures,
	"mutants":             mutants,
	"blind-sets":          blindSets,
	"runs":                recordedRuns,
}

// makeTable returns the lines of a table for a page, given by its path from the root.
func makeTable(l *layout, page, name string) ([]string, error) {
	if build, known := layoutTables[name]; known {
		table, err := build(l, page)
		if err != nil {
			return nil, err
		}
		return table.lines(), nil
	}
	build, known := tables[name]
	if !known {
		return nil, unknown("table", name, slices.AppendSeq(slices.Collect(maps.Keys(tables)), maps.Keys(layoutTables)))
	}
	list, err := manifest.Load(l.root)
	if err != nil {
		return nil, fmt.Errorf("there is no list of labs to make this table from: %w", err)
	}
	table, err := build(l.root, page, list)
	if err != nil {
		return nil, err
	}
	return table.lines(), nil
}

// unknown returns the error for a page that names a table or a diagram which does not exist.
func unknown(kind, name string, known []string) error {
	slices.Sort(known)
	return fmt.Errorf("there is no %s %s: there are %s", kind, name, strings.Join(known, ", "))
}

// noParts returns the error for a page that names a part of a table or of a generated diagram. Only pages have parts.
func noParts(kind, name, part string) error {
	return fmt.Errorf("the %s %s has no parts: leave out #%s", kind, name, part)
}

// checksOf lists the checks of the lab that the page describes, with their steps if there are any.
func checksOf(_, page string, list *manifest.Manifest) (*table, error) {
	folder := path.Base(path.Dir(page))
	i := slices.IndexFunc(list.Labs, func(lab manifest.Lab) bool { return lab.Name == folder })
	if i < 0 {
		return nil, fmt.Errorf("%s has no lab %s, whose checks this table could list", manifest.File, folder)
	}
	lab := &list.Labs[i]
	columns := []string{"check", "points", "what must be true"}
	if lab.Steps() > 0 {
		columns = slices.Insert(columns, 1, "step")
	}
	t := newTable(columns...)
	add := func(check manifest.Check, points string) {
		cells := []string{check.ID, points, check.Title}
		switch {
		case check.Step > 0:
			cells = slices.Insert(cells, 1, fmt.Sprint(check.Step))
		case lab.Steps() > 0:
			cells = slices.Insert(cells, 1, "")
		}
		t.add(cells...)
	}
	for _, check := range lab.Checks {
		if !check.Extension {
			add(check, fmt.Sprint(check.Points))
		}
	}
	if own := lab.OwnTests(); own != nil {
		add(*own, fmt.Sprint(own.Points))
	}
	for _, check := range lab.Checks {
		if check.Extension {
			add(check, fmt.Sprintf("+%d", check.Points))
		}
	}
	return t, nil
}

// labs lists what a student builds in each lab.
func labs(root, page string, list *manifest.Manifest) (*table, error) {
	t := newTable("lab", "what you do", "lecture")
	for _, lab := range list.Labs {
		_, title, err := lectureTitle(root, lab.Lecture)
		if err != nil {
			return nil, err
		}
		t.add(linkTo(page, lab.Name, labPage(lab)), strings.TrimSuffix(lab.Summary, "."), linkTo(page, title, lab.Lecture))
	}
	return t, nil
}

// lectures lists what a student learns in each lecture.
func lectures(root, page string, list *manifest.Manifest) (*table, error) {
	t := newTable("lecture", "lab", "you will know")
	for _, lab := range list.Labs {
		number, title, err := lectureTitle(root, lab.Lecture)
		if err != nil {
			return nil, err
		}
		t.add(linkTo(page, number+": "+title, lab.Lecture), linkTo(page, lab.Name, labPage(lab)), lab.Teaches)
	}
	return t, nil
}

// mutants lists the results of the automatic mutants of each lab's solution.
func mutants(root, _ string, list *manifest.Manifest) (*table, error) {
	figures, err := mutate.LoadFigures(root)
	if err != nil {
		return nil, err
	}
	t := newTable("lab", "mutants", "tried", "found", "found by the torture alone",
		"gaps", "equivalent", "stillborn", "found of those that are wrong", "with the torture")
	for _, lab := range list.Labs {
		f := figures[lab.Name]
		cells := []string{lab.Name}
		for _, n := range []int{f.Mutants, f.Tried(), f.Found, f.Tortured, f.Gaps + f.Survived, f.Equivalent, f.Stillborn} {
			cells = append(cells, fmt.Sprint(n))
		}
		t.add(append(cells, f.Share(), f.TorturedShare())...)
	}
	return t, nil
}

// blindSets lists the results of the blind sets of each lab.
func blindSets(root, _ string, list *manifest.Manifest) (*table, error) {
	figures, err := mutate.LoadFigures(root)
	if err != nil {
		return nil, err
	}
	t := newTable("lab", "set", "written", "mutants", "no mistake after all",
		"found", "found of those that are wrong", "right designs with full marks")
	for _, lab := range list.Labs {
		for _, f := range figures[lab.Name].Blind {
			m := f.Mutants
			t.add(lab.Name, f.Set, f.Written, fmt.Sprint(m.Mutants-m.Stillborn-m.Undecided), fmt.Sprint(m.Equivalent),
				fmt.Sprint(m.Found), m.Share(), fmt.Sprintf("%d of %d", f.Right, f.Designs))
		}
	}
	return t, nil
}

// recordedRuns lists the runs that the site shows.
func recordedRuns(root, page string, list *manifest.Manifest) (*table, error) {
	t := newTable("lab", "run", "what was graded", "points", "replay first")
	for i := range list.Labs {
		all, err := runs.Required(root, &list.Labs[i])
		if err != nil {
			return nil, err
		}
		for _, run := range all {
			recorded, err := run.Recorded(root)
			if err != nil {
				return nil, err
			}
			points, first := fmt.Sprintf("%d of %d", recorded.Score, recorded.MaxScore), ""
			if recorded.Outcome != report.Graded {
				points = string(recorded.Outcome)
			}
			if check, err := replay.Choose(recorded, ""); err == nil { // otherwise there is nothing to replay
				first = "`" + check.ID + "`"
			}
			t.add(linkTo(page, run.Lab.Name, labPage(*run.Lab)), linkTo(page, run.Name, run.File()), run.Shown(), points, first)
		}
	}
	return t, nil
}

// conformanceFigures counts the results of Kubernetes' conformance tests.
func conformanceFigures(root, _ string, _ *manifest.Manifest) (*table, error) {
	results, err := conformance.Published(root)
	if err != nil {
		return nil, err
	}
	t := newTable("group", "tests", "passed", "failed", "not run")
	sum := conformance.Figures{SIG: "**all**"}
	add := func(f conformance.Figures) {
		t.add(f.SIG, fmt.Sprint(f.All()), fmt.Sprint(f.Passed), fmt.Sprint(f.Failed), fmt.Sprint(f.NotRun))
	}
	for _, f := range conformance.Count(results) {
		sum.Passed, sum.Failed, sum.NotRun = sum.Passed+f.Passed, sum.Failed+f.Failed, sum.NotRun+f.NotRun
		add(f)
	}
	add(sum)
	return t, nil
}

// conformanceReasons lists the conformance tests that did not pass.
func conformanceReasons(root, _ string, _ *manifest.Manifest) (*table, error) {
	results, err := conformance.Published(root)
	if err != nil {
		return nil, err
	}
	t := newTable("test", "", "why")
	for _, result := range results {
		if result.Verdict != conformance.Passed {
			t.add(strings.TrimSuffix(result.Test, " [Conformance]"), string(result.Verdict), result.Why)
		}
	}
	return t, nil
}

func labPage(lab manifest.Lab) string { return path.Join("labs", lab.Name, "README.md") }

// lectureTitle splits the first heading of a lecture, "# Lecture 2: Reconcile", into its number and its title.
func lectureTitle(root, lecture string) (number, title string, err error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(lecture)))
	if err != nil {
		return "", "", fmt.Errorf("reading the lecture's title: %w", err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	heading, isLecture := strings.CutPrefix(first, "# Lecture ")
	number, title, hasTitle := strings.Cut(heading, ": ")
	if !isLecture || !hasTitle {
		return "", "", fmt.Errorf("%s begins with %q: write a heading like `# Lecture 2: Reconcile`", lecture, first)
	}
	return number, title, nil
}

// linkTo returns a link from one page to another, both given by their paths from the root.
func linkTo(page, text, target string) string {
	relative, err := filepath.Rel(filepath.FromSlash(path.Dir(page)), filepath.FromSlash(target))
	if err != nil { // both are below the root, so a relative path exists
		panic(err)
	}
	return fmt.Sprintf("[%s](%s)", text, filepath.ToSlash(relative))
}

// table is a Markdown table.
type table struct{ rows [][]string }

func newTable(header ...string) *table { return &table{rows: [][]string{header}} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) lines() []string {
	var lines []string
	for i, cells := range t.rows {
		var line strings.Builder
		for _, cell := range cells {
			line.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		lines = append(lines, line.String()+"|")
		if i == 0 {
			lines = append(lines, strings.Repeat("|---", len(cells))+"|")
		}
	}
	return lines
}
