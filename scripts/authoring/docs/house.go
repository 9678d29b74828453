// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// wings are the folders of scripts in the order of their imports: a wing may import only those before it. The rules of
// depguard in .golangci.yml have the same order.
var wings = []string{"services", "checkout", "grading", "checks", "authoring", "classes", "proving", "cmd"}

// scripts and clusters are the folders whose packages have a comment and are listed in docs/house.md.
const (
	scripts   = "scripts"
	clusters  = "clusters"
	node      = "clusters/node"
	solutions = "solutions"
)

// layout is the layout of a repository. Each folder is read once, however many tables of a page need it.
type layout struct {
	root string
	read map[string][]goPackage // by the folder that has the packages
}

func newLayout(root string) *layout { return &layout{root: root, read: map[string][]goPackage{}} }

// goPackage is a folder with Go files.
type goPackage struct {
	folder  string   // from the root, with slashes
	comment string   // the first sentence of its package comment, or nothing
	lines   goLines  // without generated files
	imports []string // the wings that it imports
}

// goLines counts the lines of Go files.
type goLines struct{ code, tests int }

func (l goLines) plus(other goLines) goLines {
	return goLines{code: l.code + other.code, tests: l.tests + other.tests}
}

// notOurs are the names of folders with input of tests, built programs and installed npm modules.
var notOurs = []string{"testdata", "bin", "out", "node_modules"}

// packages lists the packages in a folder of the repository and below it, in the order of their folders.
func (l *layout) packages(folder string) ([]goPackage, error) {
	if packages, known := l.read[folder]; known {
		return packages, nil
	}
	byFolder := map[string]*goPackage{}
	err := filepath.WalkDir(filepath.Join(l.root, folder), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); strings.HasPrefix(base, ".") || slices.Contains(notOurs, base) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		relative, err := filepath.Rel(l.root, filepath.Dir(name))
		if err != nil {
			return err
		}
		in := filepath.ToSlash(relative)
		if byFolder[in] == nil {
			byFolder[in] = &goPackage{folder: in}
		}
		return byFolder[in].add(name)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the packages of %s: %w", folder, err)
	}
	var packages []goPackage
	for _, found := range byFolder {
		packages = append(packages, *found)
	}
	slices.SortFunc(packages, func(a, b goPackage) int { return cmp.Compare(a.folder, b.folder) })
	l.read[folder] = packages
	return packages, nil
}

// add reads a file of the package.
func (p *goPackage) add(name string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return fmt.Errorf("reading Go: %w", err)
	}
	if text := file.Doc.Text(); text != "" && (p.comment == "" || filepath.Base(name) == "doc.go") {
		p.comment = new(doc.Package).Synopsis(text)
	}
	isTest := strings.HasSuffix(name, "_test.go")
	if lines := bytes.Count(content, []byte("\n")); !ast.IsGenerated(file) {
		if isTest {
			p.lines.tests += lines
		} else {
			p.lines.code += lines
		}
	}
	// The checks of a lab are test files, so they count as the package's code.
	if isTest && wingOf(p.folder) != "checks" {
		return nil
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		folder, internal := strings.CutPrefix(imported, "lva.io/operators/")
		if wing := wingOf(folder); internal && wing != "" && !slices.Contains(p.imports, wing) {
			p.imports = append(p.imports, wing)
		}
	}
	return nil
}

// wingOf returns the wing that a folder belongs to, or an empty string.
func wingOf(folder string) string {
	inScripts, _ := strings.CutPrefix(folder, scripts+"/")
	if inScripts == folder {
		return ""
	}
	wing, _, _ := strings.Cut(inScripts, "/")
	return wing
}

// Undocumented lists the folders of scripts and clusters whose package has no comment in any of its files.
func Undocumented(root string) ([]string, error) {
	var folders []string
	h := newLayout(root)
	for _, top := range []string{scripts, clusters} {
		packages, err := h.packages(top)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			if p.comment == "" {
				folders = append(folders, p.folder)
			}
		}
	}
	return folders, nil
}

// byWing lists the packages of scripts by their wings. A package elsewhere in scripts is an error.
func (l *layout) byWing() (map[string][]goPackage, error) {
	all, err := l.packages(scripts)
	if err != nil {
		return nil, err
	}
	found := map[string][]goPackage{}
	for _, p := range all {
		wing := wingOf(p.folder)
		if !slices.Contains(wings, wing) {
			return nil, fmt.Errorf("%s is in no wing: move it into one of %s, or add a wing to "+
				"scripts/authoring/docs/house.go and .golangci.yml", p.folder, strings.Join(wings, ", "))
		}
		found[wing] = append(found[wing], p)
	}
	return found, nil
}

// linesOf returns the sum of the lines of packages.
func linesOf(packages []goPackage) (sum goLines) {
	for _, p := range packages {
		sum = sum.plus(p.lines)
	}
	return sum
}

// layoutTables are the tables about the layout of the repository, by name.
var layoutTables = map[string]func(l *layout, page string) (*table, error){
	"wings":    wingTable,
	"packages": packageTable,
	"sizes":    sizeTable,
}

// wingTable lists the purpose and the size of each wing.
func wingTable(l *layout, page string) (*table, error) {
	found, err := l.byWing()
	if err != nil {
		return nil, err
	}
	t := newTable("wing", "what it holds", "packages", "lines of code", "lines of tests")
	for _, wing := range wings {
		packages, folder := found[wing], path.Join(scripts, wing)
		if len(packages) == 0 {
			continue
		}
		purpose, count := "", len(packages)
		if packages[0].folder == folder {
			purpose, count = packages[0].comment, count-1 // the wing's own folder does not count as one of its packages
		}
		lines := linesOf(packages)
		t.add(linkTo(page, wing, folder), inCell(purpose), fmt.Sprint(count), hundreds(lines.code), hundreds(lines.tests))
	}
	return t, nil
}

// packageTable lists the packages of each wing and of clusters, below a row for the wing itself.
func packageTable(l *layout, page string) (*table, error) {
	found, err := l.byWing()
	if err != nil {
		return nil, err
	}
	t := newTable("package", "what it does")
	add := func(group string, packages []goPackage) {
		if len(packages) == 0 {
			return
		}
		if packages[0].folder != group { // it only holds packages
			packages = append([]goPackage{{folder: group}}, packages...)
		}
		for _, p := range packages {
			link := linkTo(page, "`"+p.folder+"`", p.folder)
			if p.folder == group {
				link = "**" + link + "**"
			}
			t.add(link, inCell(p.comment))
		}
	}
	for _, wing := range wings {
		add(path.Join(scripts, wing), found[wing])
	}
	others, ofNode, err := l.clusters()
	add(clusters, others)
	add(node, ofNode)
	return t, err
}

// clusters lists the packages of clusters: those of the embedded cluster's node, and all others.
func (l *layout) clusters() (others, ofNode []goPackage, err error) {
	all, err := l.packages(clusters)
	for _, p := range all {
		if p.folder == node || strings.HasPrefix(p.folder, node+"/") {
			ofNode = append(ofNode, p)
		} else {
			others = append(others, p)
		}
	}
	return others, ofNode, err
}

// sizeTable lists how many lines the parts of the repository have.
func sizeTable(l *layout, page string) (*table, error) {
	found, err := l.byWing()
	if err != nil {
		return nil, err
	}
	t := newTable("folder", "lines of code", "lines of tests")
	add := func(folder, suffix string, lines goLines) {
		if lines != (goLines{}) {
			t.add(linkTo(page, "`"+folder+"`", folder)+suffix, hundreds(lines.code), hundreds(lines.tests))
		}
	}
	var all goLines
	for _, wing := range wings {
		lines := linesOf(found[wing])
		all = all.plus(lines)
		add(path.Join(scripts, wing), "", lines)
	}
	add(scripts, ", all wings", all)
	others, ofNode, err := l.clusters()
	if err != nil {
		return nil, err
	}
	add(clusters, ", without its node", linesOf(others))
	add(node, "", linesOf(ofNode))
	// The labs are generated from the solutions, which come after this table.
	packages, err := l.packages(solutions)
	if err != nil {
		return nil, err
	}
	add(solutions, "", linesOf(packages))
	return t, nil
}

// hundreds rounds a number of lines to hundreds, so that a page does not become stale with every commit.
func hundreds(lines int) string {
	rounded := (lines + 50) / 100 * 100
	switch {
	case lines == 0:
		return "0"
	case rounded == 0:
		return "under 50"
	case rounded < 1000:
		return fmt.Sprint(rounded)
	}
	return fmt.Sprintf("%d,%03d", rounded/1000, rounded%1000)
}

// inCell returns a sentence of a comment as Markdown. VitePress takes < for a tag.
func inCell(sentence string) string { return strings.ReplaceAll(sentence, "<", "&lt;") }

// wingDiagram draws which wing imports which. It leaves out an import that another imported wing implies. It never
// leaves out an import against the order.
func wingDiagram(l *layout) ([]string, error) {
	found, err := l.byWing()
	if err != nil {
		return nil, err
	}
	lines, arrows := []string{"flowchart LR"}, []string(nil)
	reached := map[string][]string{} // the wings that a wing imports, directly or indirectly
	for i, wing := range wings {
		if len(found[wing]) > 0 {
			lines = append(lines, "    "+wing)
		}
		direct := importsOf(wing, found[wing])
		for _, imported := range direct {
			inOrder := slices.Contains(wings[:i], imported)
			implied := inOrder && slices.ContainsFunc(direct, func(other string) bool {
				return slices.Contains(reached[other], imported)
			})
			if !implied {
				arrows = append(arrows, "    "+wing+" --> "+imported)
			}
			if inOrder {
				reached[wing] = append(append(reached[wing], imported), reached[imported]...)
			}
		}
	}
	return append(lines, arrows...), nil
}

// importsOf lists the other wings that the packages of a wing import, in the order of wings.
func importsOf(wing string, packages []goPackage) (imports []string) {
	for _, other := range wings {
		imported := slices.ContainsFunc(packages, func(p goPackage) bool { return slices.Contains(p.imports, other) })
		if imported && other != wing {
			imports = append(imports, other)
		}
	}
	return imports
}
