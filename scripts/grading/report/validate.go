// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// SchemaJSON is the JSON Schema (2020-12) of a report.
//
//go:embed report.schema.json
var SchemaJSON []byte

var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	const name = "report.schema.json"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(SchemaJSON))
	if err != nil {
		return nil, fmt.Errorf("%s is not valid JSON: %w", name, err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(name, document); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid JSON Schema: %w", name, err)
	}
	return schema, nil
})

// Validate returns an error unless the JSON is a report: it matches report.schema.json, and its points add up.
func Validate(data []byte) error {
	if err := validateDocument(data); err != nil {
		return err
	}
	var report Report
	if err := json.Unmarshal(data, &report); err != nil {
		return fmt.Errorf("this is not a report: %w", err)
	}
	return report.validateSums()
}

// validateDocument checks the rules that the schema can express.
func validateDocument(data []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("this is not a report: %w", err)
	}
	// The version comes first, because the other errors would only list the fields of another version.
	object, _ := document.(map[string]any)
	if version, _ := object["schema"].(string); version != Schema {
		return fmt.Errorf("this is a report of the version %q, and this command reads %q: grade again to get a new one",
			version, Schema)
	}
	schema, err := compiledSchema()
	if err != nil {
		return err
	}
	if err := schema.Validate(document); err != nil {
		return schemaError(err)
	}
	return nil
}

// schemaError writes all broken rules in one line, each with the path of its value.
func schemaError(err error) error {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var broken []string
	printer := message.NewPrinter(language.English)
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) == 0 {
			broken = append(broken,
				fmt.Sprintf("/%s: %s", strings.Join(e.InstanceLocation, "/"), e.ErrorKind.LocalizedString(printer)))
		}
	}
	walk(invalid)
	return fmt.Errorf("this report does not match report.schema.json: %s", strings.Join(broken, "; "))
}

// validateSums checks what a schema can't: the sums, and that no ID occurs twice.
func (r *Report) validateSums() error {
	score, maxScore := 0, 0
	seen := map[string]bool{}
	for _, check := range r.Checks {
		if seen[check.ID] {
			return fmt.Errorf("the check %s is in the report twice", check.ID)
		}
		seen[check.ID] = true
		want := 0
		if check.Status == Passed {
			want = check.MaxPoints
		}
		if check.Points != want {
			return fmt.Errorf("the check %s %s and has %d of %d points; it must have %d",
				check.ID, check.Status, check.Points, check.MaxPoints, want)
		}
		if !check.Extension {
			score += check.Points
			maxScore += check.MaxPoints
		}
	}
	if r.Score != score {
		return fmt.Errorf("the score is %d, but the points of the checks sum to %d", r.Score, score)
	}
	// A run that ended early may not know the checks, but a graded run knows all of them.
	if len(r.Checks) > 0 && r.MaxScore != maxScore {
		return fmt.Errorf("the highest score is %d, but the highest points of the checks sum to %d", r.MaxScore, maxScore)
	}
	return nil
}
