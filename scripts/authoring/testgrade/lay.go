// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/grading/submission"
)

// testedPackage is a package that has tests.
type testedPackage struct {
	// folder is the package's folder, and runs is the folder in which its tests run. Both are slash-separated from the
	// module's root. They differ if the submission has the package in another folder than the solution, since its tests
	// find config/ from there.
	folder, runs string
}

// layout maps the packages of the submission to those of the solution, by folder.
type layout struct {
	from, to *submission.Submission
	folders  map[string]string
	// submissionNames and solutionNames are the names of their packages, by folder.
	submissionNames, solutionNames map[string]string
	// extra has the folders of packages that tests import and the solution does not have.
	extra []string
}

// copyTests replaces the tests of the solution in a folder by those of a submission. Both are copies with only regular
// files. The notices list the tests that were left out.
func copyTests(from, to *submission.Submission) (tested []testedPackage, notices []string, err error) {
	l := &layout{
		from: from, to: to, folders: map[string]string{},
		submissionNames: packageNames(from), solutionNames: packageNames(to),
	}
	for folder, name := range l.submissionNames {
		if match := counterpart(folder, name, l.solutionNames); match != "" {
			l.folders[folder] = match
		}
	}
	if err := removeTests(to); err != nil {
		return nil, nil, err
	}
	for _, folder := range slices.Sorted(maps.Keys(from.Packages())) {
		tests := testFiles(from.Packages()[folder])
		if len(tests) == 0 {
			continue
		}
		match, ok := l.folders[folder]
		if !ok {
			notices = append(notices, fmt.Sprintf("%s has no counterpart in our solution, which has %s: "+
				"its tests (%d files) were left out",
				folder, strings.Join(slices.Sorted(maps.Keys(l.solutionNames)), ", "), len(tests)))
			continue
		}
		for _, test := range tests {
			if err := l.put(test, path.Join(match, path.Base(test)), l.solutionNames[match]); err != nil {
				return nil, nil, err
			}
		}
		if err := copyTree(filepath.Join(from.Dir, filepath.FromSlash(folder), "testdata"),
			filepath.Join(to.Dir, filepath.FromSlash(folder), "testdata"), includes); err != nil {
			return nil, nil, err
		}
		if err := os.MkdirAll(filepath.Join(to.Dir, filepath.FromSlash(folder)), 0o700); err != nil {
			return nil, nil, err
		}
		tested = append(tested, testedPackage{folder: match, runs: folder})
	}
	if len(tested) == 0 {
		return nil, notices, errNoTests
	}
	for i := 0; i < len(l.extra); i++ { // the loop adds elements
		for _, file := range from.Packages()[l.extra[i]] {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			if err := l.put(file, file, ""); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := refuseEmbeddedSources(to.Dir); err != nil {
		return nil, nil, err
	}
	return tested, notices, mergeModules(from, to)
}

var errNoTests = errors.New("there are no tests of the lab's packages: " +
	"write them into files that end with _test.go, beside the code that they test")

// holdBack removes a version from the definitions of a copy, as grading does. An extension of the lab adds this
// version, and the lab's own tests start an API server without a conversion webhook.
func holdBack(s *submission.Submission, version string) error {
	files, err := filepath.Glob(filepath.Join(s.Dir, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a definition: %w", err)
		}
		var definition unstructured.Unstructured
		if err := yaml.Unmarshal(content, &definition.Object); err != nil {
			return fmt.Errorf("reading %s: %w", filepath.Base(file), err)
		}
		reduced, held := submission.WithoutVersion(&definition, version)
		if !held {
			continue
		}
		if content, err = yaml.Marshal(reduced.Object); err != nil {
			return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return fmt.Errorf("writing a definition: %w", err)
		}
	}
	return nil
}

// packageNames returns the names of the packages that are not programs, by folder.
func packageNames(s *submission.Submission) map[string]string {
	names := map[string]string{}
	for folder, files := range s.Packages() {
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(),
				filepath.Join(s.Dir, filepath.FromSlash(file)), nil, parser.PackageClauseOnly)
			if err != nil {
				continue // the compiler reports it better
			}
			name := strings.TrimSuffix(parsed.Name.Name, "_test")
			if name != "main" {
				names[folder] = name
			}
		}
	}
	return names
}

// counterpart returns the folder of the solution's package that corresponds to one of a submission. It is the package
// in the same folder, or else the only one with a similar name. Older versions of kubebuilder wrote controllers/ for
// internal/controller/, and apis/ for api/. Empty: there is none.
func counterpart(folder, name string, solutionNames map[string]string) string {
	if _, same := solutionNames[folder]; same {
		return folder
	}
	plain := func(text string) string { return strings.TrimSuffix(strings.ToLower(text), "s") }
	var candidates []string
	for other, otherName := range solutionNames {
		if plain(name) != plain(otherName) {
			continue
		}
		// Packages of types and packages of webhooks can both be named v1.
		if strings.Contains(folder, "webhook") == strings.Contains(other, "webhook") {
			candidates = append(candidates, other)
		}
	}
	if len(candidates) != 1 {
		return ""
	}
	return candidates[0]
}

func testFiles(files []string) (tests []string) {
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			tests = append(tests, file)
		}
	}
	slices.Sort(tests)
	return tests
}

// removeTests removes the tests of a module.
func removeTests(s *submission.Submission) error {
	for _, files := range s.Packages() {
		for _, test := range testFiles(files) {
			if err := os.Remove(filepath.Join(s.Dir, filepath.FromSlash(test))); err != nil {
				return fmt.Errorf("removing the solution's own tests: %w", err)
			}
		}
	}
	return nil
}

// put writes a file of the submission into the solution, with imports of the solution's packages. If packageName is not
// empty, the file becomes part of that package.
func (l *layout) put(file, as, packageName string) error {
	content, err := os.ReadFile(filepath.Join(l.from.Dir, filepath.FromSlash(file)))
	if err != nil {
		return fmt.Errorf("reading a test: %w", err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, content, parser.ImportsOnly)
	if err == nil { // otherwise the compiler reports the error
		content = l.rewrite(set, parsed, content, packageName)
	}
	target := filepath.Join(l.to.Dir, filepath.FromSlash(as))
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return fmt.Errorf("copying a test into the solution: %w", err)
	}
	if err := os.WriteFile(target, content, 0o600); err != nil {
		return fmt.Errorf("copying a test into the solution: %w", err)
	}
	return nil
}

func (l *layout) rewrite(set *token.FileSet, file *ast.File, content []byte, packageName string) []byte {
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	type edit struct {
		from, to int
		text     string
	}
	var edits []edit
	if was := file.Name.Name; packageName != "" && strings.TrimSuffix(was, "_test") != packageName {
		name := packageName
		if strings.HasSuffix(was, "_test") {
			name += "_test"
		}
		edits = append(edits, edit{offset(file.Name.Pos()), offset(file.Name.End()), name})
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		folder, own := strings.CutPrefix(imported, l.from.Module+"/")
		if !own {
			continue
		}
		match, ok := l.folders[folder]
		if !ok {
			match = folder
			if _, exists := l.from.Packages()[folder]; exists && !slices.Contains(l.extra, folder) {
				l.extra = append(l.extra, folder)
			}
		}
		text := strconv.Quote(l.to.Module + "/" + match)
		if ok && spec.Name == nil && l.solutionNames[match] != l.submissionNames[folder] {
			text = l.submissionNames[folder] + " " + text
		}
		edits = append(edits, edit{offset(spec.Path.Pos()), offset(spec.Path.End()), text})
	}
	for _, e := range slices.Backward(edits) {
		content = slices.Concat(content[:e.from], []byte(e.text), content[e.to:])
	}
	return content
}

// mergeModules adds the modules that only the submission's go.mod requires, such as Ginkgo, to the solution's go.mod,
// because tests may import them. Versions in the solution's go.mod stay.
func mergeModules(from, to *submission.Submission) error {
	source, err := readModule(from.Dir)
	if err != nil {
		return err
	}
	target, err := readModule(to.Dir)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, required := range target.Require {
		named[required.Mod.Path] = true
	}
	added := false
	for _, required := range source.Require {
		if !named[required.Mod.Path] {
			target.AddNewRequire(required.Mod.Path, required.Mod.Version, true)
			added = true
		}
	}
	if !added {
		return nil
	}
	content, err := target.Format()
	if err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	if err := os.WriteFile(filepath.Join(to.Dir, "go.mod"), content, 0o600); err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	return mergeSums(from.Dir, to.Dir)
}

func readModule(dir string) (*modfile.File, error) {
	file := filepath.Join(dir, "go.mod")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading go.mod: %w", err)
	}
	return modfile.ParseLax(file, content, nil)
}

// mergeSums adds the lines of one go.sum to another.
func mergeSums(from, to string) error {
	source, err := os.ReadFile(filepath.Join(from, "go.sum"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading go.sum: %w", err)
	}
	file := filepath.Join(to, "go.sum")
	target, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading go.sum: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(target))+"\n"+strings.TrimSpace(string(source)), "\n")
	slices.Sort(lines)
	if err := os.WriteFile(file, []byte(strings.Join(slices.Compact(lines), "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing go.sum: %w", err)
	}
	return nil
}

// includes reports whether a file of test data is compiled, but is not Go. A package of test data could include the
// solution's sources in assembler code, and the compiler's messages would show them.
func includes(name string) bool { return submission.IsSource(name) && filepath.Ext(name) != ".go" }

// copyTree copies a folder over another one, and replaces files. A missing folder is ignored. skip selects the names of
// files that are left out, and nil selects none. A student's test data may have names that are not UTF-8. Package io/fs
// and os.CopyFS reject such names.
func copyTree(from, to string, skip func(name string) bool) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) || from == to {
		return nil
	}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if skip != nil && skip(entry.Name()) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
	if err != nil {
		return fmt.Errorf("copying %s: %w", filepath.Base(from), err)
	}
	return nil
}
