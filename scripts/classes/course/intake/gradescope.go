// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"

	"lva.io/operators/scripts/grading/limited"
)

// gradescopeFile is the file of Gradescope's export that names the submitters of each folder.
const gradescopeFile = "submission_metadata.yml"

// gradescopeLimit is the maximum size of gradescopeFile, in bytes. The file has the output of each run of the
// autograder.
const gradescopeLimit = 1 << 30

// handedIn is a submission of Gradescope's export: a folder, and the students who share it.
type handedIn struct {
	folder    string
	students  []person
	submitted time.Time
}

type person struct{ name, id, email string }

// listGradescope lists the submissions in a Gradescope export. Each student of a group gets a submission with the
// group's folder.
func listGradescope(dir, from string, lab *Lab) (sources []source, err error) {
	file, err := limited.Open(dir, gradescopeFile, gradescopeLimit)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", gradescopeFile, err)
	}
	defer file.Close()
	all, err := parseGradescope(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w: export the submissions again", gradescopeFile, err)
	}
	known := map[string]bool{}
	for _, one := range all {
		known[one.folder] = true
		base := source{
			identity: one.folder, name: one.folder, lab: lab,
			path: filepath.Join(dir, one.folder), from: from + one.folder, submitted: one.submitted,
		}
		if _, err := os.Lstat(base.path); errors.Is(err, fs.ErrNotExist) {
			base.problem = fmt.Sprintf("%s names the folder %s, which is not there: export the submissions again",
				gradescopeFile, one.folder)
		}
		if len(one.students) == 0 {
			sources = append(sources, base)
		}
		for _, student := range one.students {
			submission := base
			submission.name, submission.email = cmp.Or(student.name, student.email, student.id, one.folder), student.email
			submission.identity = "gradescope " + student.name + "\x00" + student.id + "\x00" + student.email
			sources = append(sources, submission)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the submissions: %w", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); entry.IsDir() && strings.HasPrefix(name, "submission_") && !known[name] {
			sources = append(sources, source{
				identity: name, name: name, lab: lab, path: filepath.Join(dir, name), from: from + name,
				problem: fmt.Sprintf("%s does not name the student of the folder %s: export the submissions again",
					gradescopeFile, name),
			})
		}
	}
	return sources, nil
}

var (
	gradescopeFolder = regexp.MustCompile(`^["']?(submission_[A-Za-z0-9]+)["']?:\s*$`)
	gradescopeField  = regexp.MustCompile(`^( *)(- )? *:?([a-z_]+): ?(.*)$`)
	gradescopeTime   = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)? *(Z|UTC|[-+]\d\d:?\d\d)`)
)

// parseGradescope reads the submitters and the times of submission_metadata.yml, line by line. The rest of the file is
// large: it holds the output of students' programs, and is indented more deeply than the lines that are read.
func parseGradescope(from io.Reader) (all []handedIn, err error) {
	lines := bufio.NewReader(from)
	// block is the field of a submission that contains the current lines.
	var block string
	for number := 1; ; number++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if match := gradescopeFolder.FindStringSubmatch(line); match != nil {
			all, block = append(all, handedIn{folder: match[1]}), ""
			continue
		}
		match := gradescopeField.FindStringSubmatch(line)
		if match == nil || len(all) == 0 {
			continue
		}
		indent, item, field, value := len(match[1]), match[2] != "", match[3], match[4]
		current := &all[len(all)-1]
		if indent == 2 && !item {
			block = field
		}
		switch {
		case block == "created_at" && (indent == 2 || field == "utc") && current.submitted.IsZero():
			current.submitted = gradescopeMoment(value)
		case block == "submitters" && item && indent <= 4:
			current.students = append(current.students, person{})
			fallthrough
		case block == "submitters" && indent > 2 && indent <= 8 && len(current.students) > 0:
			current.students[len(current.students)-1].set(field, value)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no submissions")
	}
	return all, nil
}

func (p *person) set(field, value string) {
	var text string
	if yamlv3.Unmarshal([]byte(value), &text) != nil {
		text = value
	}
	switch field {
	case "name":
		p.name = text
	case "sid":
		p.id = text
	case "email":
		p.email = text
	}
}

// gradescopeMoment returns the time in a text. It returns zero if there is none.
func gradescopeMoment(text string) time.Time {
	match := gradescopeTime.FindString(text)
	match = strings.NewReplacer("T", " ", "UTC", "Z").Replace(match)
	match = strings.ReplaceAll(match, " Z", "Z")
	for _, form := range []string{
		"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 Z0700", "2006-01-02 15:04:05Z0700",
	} {
		if at, err := time.Parse(form, match); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// readLine reads a line, and keeps only its beginning.
func readLine(from *bufio.Reader) (string, error) {
	line, more, err := from.ReadLine()
	kept := string(line)
	for more && err == nil {
		_, more, err = from.ReadLine()
	}
	return kept, err
}
