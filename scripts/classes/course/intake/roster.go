// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lva.io/operators/scripts/classes/course/rules"
	"lva.io/operators/scripts/grading/limited"
)

// commit selects a commit of a Git repository.
type commit struct {
	url string
	// hash is the hash of a commit, which may be shortened. It is empty if the commit is selected by another field or not
	// at all.
	hash string
	// before is a deadline. Zero: there is none.
	before time.Time
}

// columns are the columns of a roster. The first two are required.
var columns = []string{"student", "source", "lab", "commit", "submitted"}

// rosterLimit is the maximum size of a roster, in bytes.
const rosterLimit = 4 << 20

// readRoster reads a roster. The error lists all wrong lines, each with its number.
func readRoster(o Options) ([]source, error) {
	file, err := os.Open(o.Source)
	if err != nil {
		return nil, fmt.Errorf("reading the roster: %w", err)
	}
	defer file.Close()
	content, err := limited.ReadAll(file, rosterLimit)
	if err != nil {
		return nil, fmt.Errorf("reading the roster %s: %w", o.Source, err)
	}
	sources, err := parseRoster(content, o)
	if err != nil {
		return nil, fmt.Errorf("the roster %s is invalid, and nothing was read:\n%w", o.Source, err)
	}
	return sources, nil
}

func parseRoster(content []byte, o Options) (sources []source, err error) {
	// Spreadsheets put a byte order mark before the first letter.
	reader := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
	reader.FieldsPerRecord, reader.TrimLeadingSpace, reader.Comment = -1, true, '#'
	order := columns
	var problems []error
	for first := true; ; first = false {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, errors.Join(append(problems,
				fmt.Errorf("line %d: this is not valid CSV: quotation marks must enclose a whole field", wrong.Line))...)
		}
		if err != nil {
			return nil, err
		}
		for i := range record {
			record[i] = strings.TrimSpace(record[i])
		}
		line, _ := reader.FieldPos(0)
		if first && slices.ContainsFunc(record, func(name string) bool { return strings.EqualFold(name, "student") }) {
			if order, err = header(record); err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			continue
		}
		parsed, err := parseLine(record, order, o)
		if err != nil {
			problems = append(problems, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		sources = append(sources, parsed)
	}
	if len(sources) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("it has no students: write a line student,source for each student"))
	}
	return sources, errors.Join(problems...)
}

// header returns the order of the columns in the first line.
func header(record []string) (order []string, err error) {
	for _, name := range record {
		name = strings.ToLower(name)
		if !slices.Contains(columns, name) {
			return nil, fmt.Errorf("there is no column %q: the columns are %s", name, strings.Join(columns, ", "))
		}
		if slices.Contains(order, name) {
			return nil, fmt.Errorf("the column %s is duplicated: remove one of them", name)
		}
		order = append(order, name)
	}
	if !slices.Contains(order, "source") {
		return nil, errors.New("there is no column source: add one, with a path or a Git URL for each student")
	}
	return order, nil
}

var hashForm = regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`)

func parseLine(record, order []string, o Options) (parsed source, err error) {
	if len(record) > len(order) {
		return parsed, fmt.Errorf("there are %d fields: write %s", len(record), strings.Join(order, ","))
	}
	field := map[string]string{}
	for i, value := range record {
		field[order[i]] = value
	}
	if len(record) == 1 && strings.ContainsAny(record[0], ";\t") {
		return parsed, fmt.Errorf("%q has no comma: write student,source", printable(record[0]))
	}
	if field["student"] == "" {
		return parsed, errors.New("there is no student: write student,source")
	}
	if field["source"] == "" {
		return parsed, fmt.Errorf("there is no source for %s: write a path or a Git URL", printable(field["student"]))
	}
	parsed = source{identity: field["student"], name: field["student"], from: field["source"]}
	if text := field["lab"]; text != "" {
		if parsed.lab = labOf(o.Course, text); parsed.lab == nil {
			return parsed, fmt.Errorf("there is no lab %q: write a lab's number or name, or nothing", printable(text))
		}
	}
	var asked commit
	switch text := field["commit"]; {
	case text == "":
	case hashForm.MatchString(text):
		asked.hash = strings.ToLower(text)
	default:
		if asked.before, err = momentOf(text); err != nil {
			return parsed, fmt.Errorf("commit: %w, or the hash of a commit", err)
		}
	}
	if text := field["submitted"]; text != "" {
		if parsed.submitted, err = momentOf(text); err != nil {
			return parsed, fmt.Errorf("submitted: %w", err)
		}
	}
	return parsed, parsed.locate(field["source"], asked, filepath.Dir(o.Source))
}

// labOf returns the lab with a number or a name. It returns nil if there is none.
func labOf(labs []Lab, text string) *Lab {
	number, err := strconv.Atoi(text)
	for i := range labs {
		if labs[i].Name == text || err == nil && labs[i].Number == number {
			return &labs[i]
		}
	}
	return nil
}

// momentOf reads a time that ends with an offset or a zone.
func momentOf(text string) (time.Time, error) {
	if at := strings.LastIndexByte(text, ' '); at > 0 {
		name := text[at+1:]
		if strings.Contains(name, "/") || name == "UTC" {
			zone, err := time.LoadLocation(name)
			if err != nil {
				return time.Time{}, fmt.Errorf("unknown time zone %q: write a name such as Europe/Berlin", printable(name))
			}
			return rules.ParseTime(text[:at], zone)
		}
	}
	at, err := rules.ParseTime(text, nil)
	if err != nil {
		return at, fmt.Errorf("%q is not a time with a time zone: "+
			"write one such as 2026-10-25 23:59 Europe/Berlin or 2026-10-25T23:59:00+01:00", printable(text))
	}
	return at, nil
}

// schemes are the protocols by which repositories are fetched. Repositories with another URL than that of a file on
// this machine are only fetched.
var schemes = []string{"https", "ssh", "file"}

// scpForm matches the short form of an SSH URL: git@host:path.
var scpForm = regexp.MustCompile(`^[\w.-]+@[\w.-]+:[^:]`)

// locate determines what a source is: a URL, a repository on this machine, or a path.
func (s *source) locate(text string, asked commit, dir string) error {
	if scheme, _, isURL := strings.Cut(text, "://"); isURL {
		parsed, err := url.Parse(text)
		switch {
		case err != nil:
			// The error omits the URL, which may contain a password.
			return errors.New("the source is not a valid URL: correct it")
		case !slices.Contains(schemes, scheme):
			return fmt.Errorf("a repository can't be fetched by %s: write a URL of %s, or a path",
				printable(scheme), strings.Join(schemes, ", "))
		}
		s.from = parsed.Redacted()
		asked.url, s.commit = text, &asked
		return nil
	}
	if scpForm.MatchString(text) {
		asked.url, s.commit = text, &asked
		return nil
	}
	if strings.Contains(text, "::") {
		return fmt.Errorf("%s names a git remote helper, which is not supported: write a URL of %s, or a path",
			printable(text), strings.Join(schemes, ", "))
	}
	s.path = text
	if !filepath.IsAbs(text) {
		s.path = filepath.Join(dir, text)
	}
	isRepository := asked.hash != "" || !asked.before.IsZero() || strings.HasSuffix(text, ".git") || isBare(s.path)
	if isRepository {
		asked.url, s.commit = s.path, &asked
	}
	return nil
}

// isBare reports whether a folder is a bare Git repository.
func isBare(dir string) bool {
	for name, folder := range map[string]bool{"HEAD": false, "objects": true, "refs": true} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() != folder {
			return false
		}
	}
	return true
}
