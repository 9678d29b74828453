// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// list lists what was handed in, without opening it.
func list(o Options) ([]source, error) {
	info, err := os.Stat(o.Source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf(
			"there is no %s: name a folder with a folder or an archive for each student, or a roster.csv", o.Source,
		)
	case err != nil:
		return nil, fmt.Errorf("reading the submissions: %w", err)
	case info.IsDir():
	case strings.EqualFold(filepath.Ext(o.Source), ".csv"):
		return readRoster(o)
	case archiveSuffix(o.Source) != "":
		return nil, fmt.Errorf("%s is an archive: unpack it, and name the folder with the submissions", o.Source)
	default:
		return nil, fmt.Errorf("%s is neither a folder nor a roster: "+
			"name a folder with a folder or an archive for each student, or a roster.csv", o.Source)
	}
	sources, err := listFolder(o, o.Source, "", nil)
	if err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("there is no submission in %s: "+
			"name a folder with a folder or an archive for each student, or a roster.csv", o.Source)
	}
	return sources, nil
}

// listFolder lists what was handed in below a folder. If lab is set, everything is for this lab. from is the folder's
// name, which precedes the names in it.
func listFolder(o Options, dir, from string, lab *Lab) ([]source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the submissions: %w", err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "go.mod" }) {
		return nil, fmt.Errorf("%s is a Go module itself: name the folder in which there is one for each student", dir)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == gradescopeFile }) {
		return listGradescope(dir, from, lab)
	}
	var sources []source
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(dir, name)
		kind := entry.Type()
		suffix := archiveSuffix(name)
		result := source{identity: name, name: name, lab: lab, path: path, from: from + name}
		switch {
		case isJunk(name), strings.HasPrefix(name, "."), path == o.Work:
			continue
		case kind.IsDir() && lab == nil && labNamed(o.Course, name) != nil:
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return nil, fmt.Errorf(
					"%s is the module of a lab, so %s seems to be the work of one student: name the folder above", path, dir,
				)
			}
			if folderLab := labNamed(o.Labs, name); folderLab != nil {
				more, err := listFolder(o, path, from+name+"/", folderLab)
				if err != nil {
					return nil, err
				}
				sources = append(sources, more...)
			}
			continue
		case kind.IsDir(), kind&fs.ModeSymlink != 0:
		case suffix == "":
			if !moodleName.MatchString(name) {
				continue // a list of grades, a note
			}
			suffix = filepath.Ext(name)
			result.problem = fmt.Sprintf("%s is not an archive: hand in a .zip or a .tar.gz with the folder of the lab", name)
		}
		if !kind.IsDir() {
			result.name = strings.TrimSuffix(name, suffix)
			result.identity = result.name
		}
		if keep := result.moodle(); !keep {
			continue
		}
		sources = append(sources, result)
	}
	return sources, nil
}

// labNamed returns the lab with a name. It returns nil if there is none.
func labNamed(labs []Lab, name string) *Lab {
	for i := range labs {
		if labs[i].Name == name {
			return &labs[i]
		}
	}
	return nil
}

// moodleName matches the folders and files of a Moodle export: Full Name_1234567_assignsubmission_file_, followed by
// the file's own name if the export has no folders. The number is the participant's. (mod/assign/locallib.php,
// download_submissions)
var moodleName = regexp.MustCompile(`^(.+)_(\d+)_assignsubmission_([a-z]+)(?:_(.*))?$`)

// moodle sets the student from a name in a Moodle export. It returns false if the name does not belong to a file
// submission.
func (s *source) moodle() bool {
	match := moodleName.FindStringSubmatch(filepath.Base(s.path))
	if match == nil {
		return true
	}
	s.name, s.identity = strings.TrimSpace(match[1]), "moodle "+match[2]
	return match[3] == "file"
}

var attemptName = regexp.MustCompile(`(?i)^attempt[-_ ]?(\d{1,4})$`)

// attemptFolders returns the folders of a student's attempts, in order, if the folder has nothing else that may be a
// submission.
func attemptFolders(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // the search for modules returns the error
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case isJunk(name), strings.HasPrefix(name, "."):
		case entry.IsDir() && attemptName.MatchString(name):
			names = append(names, name)
		case entry.IsDir(), archiveSuffix(name) != "", name == "go.mod":
			return nil
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(attemptNumber(a), attemptNumber(b)) })
	return names
}

func attemptNumber(name string) int {
	number, _ := strconv.Atoi(attemptName.FindStringSubmatch(name)[1]) // it has digits only
	return number
}
