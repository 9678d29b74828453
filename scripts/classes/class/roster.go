// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"os"
	"regexp"
	"strings"
)

// Student is a line of the roster.
type Student struct {
	// Name is the student's name on the cluster. Email identifies the student to the instructor. It may be empty, and is
	// never sent to the cluster.
	Name, Email string
	// Line is the student's line in the roster, from 1.
	Line int
}

// Namespace returns the name of the student's namespace.
func (s Student) Namespace() string { return namespacePrefix + s.Name }

// maxName keeps names that contain it, such as those of a certificate or of a Pod's host, well below 63 letters.
const maxName = 40

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// ReadRoster reads a list of students, one per line, as NAME or NAME,EMAIL. It ignores empty lines, lines that begin
// with #, and a first line "name,email". The error lists all wrong lines, each with its number.
func ReadRoster(file string) ([]Student, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the roster: %w", err)
	}
	students, err := parseRoster(content)
	if err != nil {
		return nil, fmt.Errorf("the roster %s is invalid, and nothing was changed:\n%w", file, err)
	}
	return students, nil
}

func parseRoster(content []byte) ([]Student, error) {
	// Spreadsheets put a byte order mark before the first letter.
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	var students []Student
	var problems []error
	lines := map[string]int{} // by name
	scanner, number := bufio.NewScanner(bytes.NewReader(content)), 0
	for scanner.Scan() {
		number++
		text := strings.TrimSpace(scanner.Text())
		if text == "" || strings.HasPrefix(text, "#") || len(students) == 0 && isHeader(text) {
			continue
		}
		student, err := parseStudent(text)
		if err == nil && lines[student.Name] > 0 {
			err = fmt.Errorf("%s is already in line %d: names must be unique", student.Name, lines[student.Name])
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		student.Line, lines[student.Name] = number, number
		students = append(students, student)
	}
	if err := scanner.Err(); err != nil {
		problems = append(problems, fmt.Errorf("line %d: %w", number+1, err))
	}
	if len(students) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("it has no students: write a line NAME or NAME,EMAIL for each student"))
	}
	return students, errors.Join(problems...)
}

func isHeader(line string) bool {
	name, _, _ := strings.Cut(strings.ToLower(line), ",")
	return strings.Trim(name, ` "`) == "name"
}

func parseStudent(line string) (Student, error) {
	reader := csv.NewReader(strings.NewReader(line))
	reader.TrimLeadingSpace = true
	fields, err := reader.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return Student{}, fmt.Errorf("%s is not valid CSV: quotation marks must enclose a whole field", line)
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	if len(fields) == 1 && strings.ContainsAny(line, ";\t") {
		return Student{}, fmt.Errorf("%q has no comma: write NAME,EMAIL", line)
	}
	if len(fields) > 2 {
		return Student{}, fmt.Errorf("there are %d fields: write NAME or NAME,EMAIL", len(fields))
	}
	student := Student{Name: fields[0]}
	if !nameForm.MatchString(student.Name) {
		return Student{}, fmt.Errorf("%q is not a valid name on a cluster: use lower-case letters, "+
			"digits and, between them, dashes, such as ada-l", student.Name)
	}
	if len(student.Name) > maxName {
		return Student{}, fmt.Errorf("%s has %d letters: a name has at most %d", student.Name, len(student.Name), maxName)
	}
	if len(fields) == 2 && fields[1] != "" {
		address, err := mail.ParseAddress(fields[1])
		if err != nil || address.Address != fields[1] {
			return Student{}, fmt.Errorf(
				"%q is not an e-mail address: write one such as ada@example.org, or leave it out", fields[1],
			)
		}
		student.Email = fields[1]
	}
	return student, nil
}
