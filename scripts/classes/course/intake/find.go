// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"

	"lva.io/operators/scripts/grading/limited"
)

// Find finds the folder of the Go module that belongs to a lab. It searches the folder that a student handed in, which
// is the module itself, a folder with it, or a repository with many modules. The course is all labs of the course. A
// module belongs to a lab if its folder or its module path has a name such as labs/02-reconciler or lab-2. If there is
// no such module, Find takes the only one whose name fits no lab and which owns accepts (nil: any), or the only one at
// all. If several modules fit, the error names them. Modules below folders named solutions and out count only if there
// are no others. If none fits, the error is a *MissingError.
func Find(dir string, lab Lab, course []Lab, owns func(lab Lab, dir string) bool) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("looking for the module of lab %d: %w", lab.Number, err)
	}
	if owns == nil {
		owns = func(Lab, string) bool { return true }
	}
	return search{
		lab: lab, course: course, owns: owns, hint: filepath.Base(absolute), only: true, limit: DefaultLimits().Entries,
	}.find(absolute)
}

// MissingError means that no module of a lab was found.
type MissingError struct {
	Lab Lab
	// Others are the other modules, slash-separated, with the labs that they are named for.
	Others []string
}

func (e *MissingError) Error() string {
	if len(e.Others) == 0 {
		return "there is no go.mod in it: hand in the folder of the lab, with its go.mod"
	}
	others := e.Others
	if len(others) > 3 {
		others = append(slices.Clone(others[:3]), fmt.Sprintf("%d more", len(others)-3))
	}
	return fmt.Sprintf("none of its Go modules is that of lab %d (%s): hand in the folder of the lab, "+
		"named %s. There are %s",
		e.Lab.Number, e.Lab.Name, e.Lab.Name, strings.Join(others, ", "))
}

// SeveralError means that several modules could belong to a lab.
type SeveralError struct {
	Lab Lab
	// Modules are the folders of these modules, slash-separated.
	Modules []string
}

func (e *SeveralError) Error() string {
	return fmt.Sprintf("%d Go modules in it can be that of lab %d (%s): leave only one of them, or name its folder %s",
		len(e.Modules), e.Lab.Number, strings.Join(e.Modules, ", "), e.Lab.Name)
}

// search is a search for the module of a lab.
type search struct {
	lab    Lab
	course []Lab
	owns   func(Lab, string) bool
	// hint is the name of the searched folder or archive, which may name the lab.
	hint string
	// only means that everything was handed in for this lab. If there is only one module, it is accepted even if owns
	// returns false.
	only bool
	// limit is the maximum number of files and folders to visit.
	limit int
}

// module is a Go module that was found.
type module struct {
	// folder is slash-separated and relative to the folder where the search began, which is ".".
	folder string
	// path is the module path. It is empty if go.mod has none.
	path string
}

// Kinds of modules, by their names: of the wanted lab, of another lab, or unknown.
const (
	unnamed = iota
	named
	other
)

func (s search) find(dir string) (string, error) {
	modules, _, err := look(dir, s.limit)
	if err != nil {
		return "", err
	}
	var byKind [3][]module
	var all []string
	for _, m := range modules {
		kind, reason := s.kind(m)
		byKind[kind] = append(byKind[kind], m)
		all = append(all, m.folder+reason)
	}
	fit := first(byKind[named])
	if len(fit) == 0 {
		alone := first(byKind[unnamed])
		for _, m := range alone {
			if s.owns(s.lab, filepath.Join(dir, filepath.FromSlash(m.folder))) {
				fit = append(fit, m)
			}
		}
		if len(fit) == 0 && len(alone) == 1 && s.only && len(byKind[other]) == 0 {
			fit = alone
		}
	}
	switch len(fit) {
	case 0:
		return "", &MissingError{s.lab, all}
	case 1:
		return filepath.Join(dir, filepath.FromSlash(fit[0].folder)), nil
	}
	several := &SeveralError{Lab: s.lab}
	for _, m := range fit {
		several.Modules = append(several.Modules, m.folder)
	}
	return "", several
}

// first returns the modules that count. A module within another one does not count. Modules below folders for copies
// count only if there are no others.
func first(modules []module) (fit []module) {
	var copies []module
	for _, m := range modules {
		if slices.ContainsFunc(modules, func(outer module) bool {
			return outer.folder != m.folder && (outer.folder == "." || strings.HasPrefix(m.folder, outer.folder+"/"))
		}) {
			continue // such as tools with their own go.mod
		}
		if isCopy(m) {
			copies = append(copies, m)
		} else {
			fit = append(fit, m)
		}
	}
	if len(fit) == 0 {
		return copies
	}
	return fit
}

// isCopy reports whether a module is in the folder of the course's solutions, or among the files that `lab reset` has
// kept.
func isCopy(m module) bool {
	folders := strings.Split(path.Dir(m.folder), "/")
	return slices.Contains(folders, "solutions") || slices.Contains(folders, "out")
}

// kind decides by names to which lab a module belongs. The folder that is nearest to the module decides, then the
// module path, then the name of the searched folder or archive.
func (s search) kind(m module) (kind int, reason string) {
	for _, by := range []struct {
		names   []string
		numbers bool
		form    string
	}{
		{strings.Split(m.folder, "/"), true, ""},
		{strings.Split(m.path, "/"), false, " (module " + m.path + ")"},
		{[]string{s.hint}, false, fmt.Sprintf(" (in %s)", s.hint)},
	} {
		for _, name := range slices.Backward(by.names) {
			number := numberOf(name, by.numbers, s.course)
			switch {
			case number < 0:
			case number == s.lab.Number:
				return named, by.form
			default:
				return other, fmt.Sprintf("%s of lab %d", by.form, number)
			}
		}
	}
	return unnamed, ""
}

var (
	labNumber  = regexp.MustCompile(`(?i)(?:^|[^a-z])lab[-_ ]?0*(\d{1,2})(?:[^0-9]|$)`)
	pureNumber = regexp.MustCompile(`^0*(\d{1,2})$`)
)

// numberOf returns the number of the lab that a name contains, or -1 if there is none. A name that is only a number
// counts if numbers is true.
func numberOf(name string, numbers bool, course []Lab) int {
	for _, lab := range course {
		if strings.EqualFold(name, lab.Name) {
			return lab.Number
		}
	}
	forms := []*regexp.Regexp{labNumber}
	if numbers {
		forms = append(forms, pureNumber)
	}
	for _, form := range forms {
		if match := form.FindStringSubmatch(name); match != nil {
			number, _ := strconv.Atoi(match[1]) // one or two digits
			return number
		}
	}
	// The lab's folder with a prefix or a suffix, as in GitHub's ZIP of a branch.
	for _, lab := range course {
		if strings.Contains(strings.ToLower(name), strings.ToLower(lab.Name)) {
			return lab.Number
		}
	}
	return -1
}

// maxDepth is how many folders deep the search for modules descends. A repository in a folder of a ZIP in a folder has
// labs/02-reconciler in the fourth.
const maxDepth = 8

// moduleLimit is the maximum size of a go.mod, in bytes.
const moduleLimit = 1 << 20

// look finds the Go modules and the archives below a folder, slash-separated and sorted. It follows no links.
func look(dir string, limit int) (modules []module, archives []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the submission: %w", err)
	}
	defer root.Close()
	count := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && name != "." {
			return fs.SkipDir // nothing in it can be graded
		}
		if err != nil {
			return fmt.Errorf("looking for Go modules: %w", err)
		}
		if count++; count > limit {
			return problemf(
				"there are more than %d files and folders in it: hand in the folder of the lab, and nothing else", limit,
			)
		}
		base := path.Base(name)
		switch {
		case name == ".":
		case entry.IsDir() && (skipped(base) || strings.Count(name, "/") >= maxDepth):
			return fs.SkipDir
		case entry.Type().IsRegular() && base == "go.mod":
			content, err := limited.ReadFile(dir, name, moduleLimit)
			if err != nil {
				return err
			}
			modules = append(modules, module{folder: path.Dir(name), path: modfile.ModulePath(content)})
		case entry.Type().IsRegular() && archiveSuffix(base) != "" && !isJunk(base) && strings.Count(name, "/") < 2:
			archives = append(archives, name)
		}
		return nil
	})
	return modules, archives, err
}

// skipped reports whether the search for modules skips a folder.
func skipped(name string) bool {
	return isJunk(name) || strings.HasPrefix(name, ".") || slices.Contains([]string{"vendor", "testdata"}, name)
}

// junk are names of files that programs leave next to a student's work. They are not unpacked, and are no submission.
var junk = []string{".git", ".hg", ".svn", "node_modules", "__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"}

func isJunk(name string) bool { return slices.Contains(junk, name) || strings.HasPrefix(name, "._") }

// Limits of a search for API groups.
const (
	groupFiles = 2000
	groupBytes = 1 << 20
)

// HasGroup reports whether a file of a Go module names one of some API groups, as its types or its CRDs do. It reads
// only Go and YAML files of at most 1 MB each, and only the first 2000 of them.
func HasGroup(dir string, groups ...string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	quoted := make([]string, len(groups))
	for i, group := range groups {
		quoted[i] = regexp.QuoteMeta(group)
	}
	wanted, err := regexp.Compile(`(^|[^-\w.])(` + strings.Join(quoted, "|") + `)($|[^-\w.])`)
	if err != nil || len(groups) == 0 {
		return false
	}
	files, found := 0, false
	// A file that can't be read names no group.
	_ = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		extension := path.Ext(name)
		switch {
		case err != nil:
			return nil //nolint:nilerr // it is skipped
		case entry.IsDir() && name != "." && skipped(path.Base(name)):
			return fs.SkipDir
		case !entry.Type().IsRegular() || extension != ".go" && extension != ".yaml" && extension != ".yml":
			return nil
		}
		if files++; files > groupFiles {
			return fs.SkipAll
		}
		content, err := limited.ReadFile(dir, name, groupBytes)
		if err == nil && wanted.Match(content) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}
