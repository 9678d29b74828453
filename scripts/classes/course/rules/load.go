// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the same days on machines without a time zone database

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"lva.io/operators/scripts/grading/limited"
)

// SchemaJSON is the JSON Schema (2020-12) of class.yaml, for editors.
//
//go:embed class.schema.json
var SchemaJSON []byte

// fileLimit is the maximum size of class.yaml, in bytes. Comments for 500 students take half of it.
const fileLimit = 4 << 20

// Load reads class.yaml. The error lists all mistakes, one per line, with file, line and path of the wrong value.
func Load(path string) (*Rules, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s: name the class.yaml of your course, or leave --rules out", path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the rules of the course: %w", err)
	}
	defer file.Close()
	data, err := limited.ReadAll(file, fileLimit)
	if err != nil {
		return nil, fmt.Errorf("reading the rules of the course in %s: %w", path, err)
	}
	return Parse(filepath.Base(path), data)
}

// Parse reads the content of a class.yaml. Its errors are like those of Load, and name is the file name in them.
func Parse(name string, data []byte) (*Rules, error) {
	document, err := parseYAML(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	p := &parser{name: name, document: document}
	content, err := json.Marshal(document.value())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if err := p.checkSchema(content); err != nil {
		return nil, err
	}
	var read file
	decoder := json.NewDecoder(bytes.NewReader(content))
	// Strict here, too: otherwise a field that the schema allows but the types lack would be ignored.
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	rules := p.rules(&read)
	return rules, p.err()
}

// file is the content of class.yaml.
type file struct {
	Title     string                 `json:"title"`
	Timezone  string                 `json:"timezone"`
	Attempts  string                 `json:"attempts"`
	Late      *fileLate              `json:"late"`
	GraceDays *int                   `json:"graceDays"`
	Labs      map[string]fileLab     `json:"labs"`
	Students  map[string]fileStudent `json:"students"`
}

type fileLab struct {
	Deadline  string    `json:"deadline"`
	Weight    *float64  `json:"weight"`
	Attempts  string    `json:"attempts"`
	Late      *fileLate `json:"late"`
	GraceDays *int      `json:"graceDays"`
}

type fileLate struct {
	Points  float64 `json:"points"`
	Percent float64 `json:"percent"`
	Days    *int    `json:"days"`
}

type fileStudent struct {
	GraceDays *int                    `json:"graceDays"`
	Labs      map[string]fileDecision `json:"labs"`
}

type fileDecision struct {
	Points   float64 `json:"points"`
	Comment  string  `json:"comment"`
	Deadline string  `json:"deadline"`
	Excused  bool    `json:"excused"`
}

// parser collects all mistakes, so that an instructor can fix them at once.
type parser struct {
	name     string
	document *node
	zone     *time.Location
	problems []problem
}

type problem struct {
	line int
	text string
}

func (p *parser) add(path []string, format string, args ...any) {
	line := p.document.line(path)
	p.problems = append(p.problems, problem{
		line, fmt.Sprintf("%s:%d: %s: %s", p.name, line, dotted(path), fmt.Sprintf(format, args...)),
	})
}

func (p *parser) err() error {
	slices.SortStableFunc(p.problems, func(a, b problem) int { return a.line - b.line })
	errs := make([]error, len(p.problems))
	for i := range p.problems {
		errs[i] = errors.New(p.problems[i].text)
	}
	return errors.Join(errs...)
}

const schemaName = "class.schema.json"

// compileSchema compiles SchemaJSON, once.
var compileSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(SchemaJSON))
	if err != nil {
		return nil, fmt.Errorf("%s is not valid JSON: %w", schemaName, err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaName, document); err != nil {
		return nil, fmt.Errorf("reading %s: %w", schemaName, err)
	}
	return compiler.Compile(schemaName)
})

// checkSchema finds all violations of the schema.
func (p *parser) checkSchema(content []byte) error {
	schema, err := compileSchema()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("reading %s: %w", p.name, err)
	}
	err = schema.Validate(value)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	printer := message.NewPrinter(language.English)
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if name, ok := e.ErrorKind.(*kind.PropertyNames); ok {
			p.add(append(slices.Clone(e.InstanceLocation), name.Property),
				"%q is not the name of a lab: write a lab's number or name, such as 2 or 02-reconciler", name.Property)
			return
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		text := e.ErrorKind.LocalizedString(printer)
		// The schema's description states what is correct. The broken rule alone ("got string, want integer") does not.
		if description := describe(e.SchemaURL); description != "" {
			text += "; expected: " + strings.TrimSuffix(description, ".")
		}
		path := e.InstanceLocation
		if unknown, ok := e.ErrorKind.(*kind.AdditionalProperties); ok && len(unknown.Properties) > 0 {
			path = append(slices.Clone(path), slices.Min(unknown.Properties)) // the line of the unknown field
		}
		p.add(path, "%s", text)
	}
	walk(invalid)
	return p.err()
}

// describe returns the description of the part of the schema that a URL names.
func describe(url string) string {
	_, pointer, _ := strings.Cut(url, "#/")
	var at any
	if json.Unmarshal(SchemaJSON, &at) != nil {
		return ""
	}
	for token := range strings.SplitSeq(pointer, "/") {
		fields, _ := at.(map[string]any)
		at = fields[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	fields, _ := at.(map[string]any)
	description, _ := fields["description"].(string)
	return description
}

// rules finds mistakes that a schema can't express, and creates the rules.
func (p *parser) rules(read *file) *Rules {
	rules := Default()
	rules.Title = read.Title
	if read.Timezone != "" {
		zone, err := time.LoadLocation(read.Timezone)
		if err != nil || strings.EqualFold(read.Timezone, "local") {
			p.add([]string{"timezone"}, "unknown time zone %q: write a name such as Europe/Berlin", read.Timezone)
			zone = time.UTC
		}
		rules.Zone = zone
	}
	p.zone = rules.Zone
	rules.course = p.lab(fileLab{Attempts: read.Attempts, Late: read.Late, GraceDays: read.GraceDays}, nil)
	rules.labs = map[string]lab{}
	p.twice(slices.Sorted(maps.Keys(read.Labs)), "labs")
	for key, lab := range read.Labs {
		rules.labs[key] = p.lab(lab, []string{"labs", key})
	}
	rules.students = map[string]student{}
	for name, own := range read.Students {
		path := []string{"students", name}
		result := student{graceDays: own.GraceDays, labs: map[string]decision{}, line: p.document.line(path)}
		p.twice(slices.Sorted(maps.Keys(own.Labs)), append(path, "labs")...)
		for key, lab := range own.Labs {
			path := []string{"students", name, "labs", key}
			result.labs[key] = decision{
				points: toHundredths(lab.Points), comment: lab.Comment, deadline: p.due(lab.Deadline, path), excused: lab.Excused,
				line: p.document.line(path),
			}
		}
		rules.students[name] = result
	}
	return rules
}

func (p *parser) lab(read fileLab, path []string) lab {
	result := lab{
		deadline: p.due(read.Deadline, path), attempts: read.Attempts, graceDays: read.GraceDays, line: p.document.line(path),
	}
	if read.Weight != nil {
		weight := toHundredths(*read.Weight)
		result.weight = &weight
	}
	if read.Late != nil {
		result.late = &latePenalty{
			points: toHundredths(read.Late.Points), percent: toHundredths(read.Late.Percent), days: read.Late.Days,
		}
	}
	return result
}

func (p *parser) due(text string, path []string) *due {
	if text == "" {
		return nil
	}
	at, err := parseDue(text, p.zone)
	if err != nil {
		p.add(append(slices.Clone(path), "deadline"), "%v", err)
		return nil
	}
	return at
}

// twice finds different keys for the same lab, such as 2 and 02-reconciler.
func (p *parser) twice(keys []string, path ...string) {
	for i, key := range keys {
		for _, other := range keys[:i] {
			if names(key, other) || names(other, key) {
				p.add(append(slices.Clone(path), key), "%s and %s are the same lab: merge them into one entry", other, key)
			}
		}
	}
}

func toHundredths(number float64) hundredths { return hundredths(math.Round(number * 100)) }
