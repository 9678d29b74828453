// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lva.io/operators/scripts/grading/report"
)

// Redact returns the report that a student may have, in any format: without the seed, with submission for the path of
// the folder in which the work was graded, and without any detail of hidden checks. Their points stay, so that the sum
// is right. hide changes every text before the other changes. Nil: it changes none. secrets are further texts that must
// not be shown, such as names of other students. Empty ones are ignored. The given report is not modified.
func Redact(r *report.Report, lab *Lab, hide func(string) string, secrets ...string) (*report.Report, error) {
	content, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("copying the report of %s: %w", r.Lab, err)
	}
	var document any
	if err := json.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("copying the report of %s: %w", r.Lab, err)
	}
	var words []string
	for _, secret := range append(slices.Clone(secrets), r.Submission.Dir) {
		if secret != "" {
			words = append(words, wholeWord(secret))
		}
	}
	// The longest first, because one may be a part of another.
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	if hide == nil {
		hide = func(text string) string { return text }
	}
	replace := hide
	if len(words) > 0 {
		pattern, err := regexp.Compile(strings.Join(words, "|"))
		if err != nil {
			return nil, fmt.Errorf("redacting the report of %s: %w", r.Lab, err)
		}
		replace = func(text string) string {
			return pattern.ReplaceAllStringFunc(hide(text), func(secret string) string {
				if secret == r.Submission.Dir {
					return "submission"
				}
				return notShown
			})
		}
	}
	number := regexp.MustCompile(fmt.Sprintf(`\b(?:%d|0x%x)\b`, r.Seed, r.Seed))
	content, err = json.Marshal(eachText(document, func(text string) string {
		text = withoutSeeds(replace(text))
		if r.Seed > 9 { // One digit may be anything.
			text = number.ReplaceAllString(text, notShown)
		}
		return text
	}))
	if err != nil {
		return nil, fmt.Errorf("redacting the report of %s: %w", r.Lab, err)
	}
	var redacted report.Report
	if err := json.Unmarshal(content, &redacted); err != nil {
		return nil, fmt.Errorf("redacting the report of %s: %w", r.Lab, err)
	}
	redacted.Seed = 0
	keepWords(&redacted, r)
	hidden := map[string]string{}
	for i := range redacted.Checks {
		check := &redacted.Checks[i]
		if known := lab.check(r.Checks[i].ID); known == nil || !known.Hidden {
			continue
		}
		hidden[check.ID] = fmt.Sprintf("not-published-%d", len(hidden)+1)
		*check = report.Check{
			ID: hidden[check.ID], Title: "A check that is not published", Status: check.Status, Extension: check.Extension,
			Points: check.Points, MaxPoints: check.MaxPoints, At: check.At, Seconds: check.Seconds,
		}
	}
	for i := range redacted.Checks {
		check := &redacted.Checks[i]
		check.Causes = slices.DeleteFunc(check.Causes, func(id string) bool { return hidden[id] != "" })
		for id, other := range hidden {
			check.Reason = strings.ReplaceAll(check.Reason, id, other)
		}
	}
	return &redacted, nil
}

// keepWords restores the texts that are in a list of words, and times. They are no secrets, even if a student's name is
// the same.
func keepWords(redacted, r *report.Report) {
	redacted.Schema, redacted.Lab, redacted.Title, redacted.Outcome = r.Schema, r.Lab, r.Title, r.Outcome
	redacted.Started, redacted.Environment, redacted.Steps = r.Started, r.Environment, r.Steps
	for i := range redacted.Checks {
		to, from := &redacted.Checks[i], &r.Checks[i]
		to.ID, to.Title, to.Status, to.Lecture = from.ID, from.Title, from.Status, from.Lecture
		to.Causes, to.Measurements = slices.Clone(from.Causes), from.Measurements
	}
	for i := range redacted.Timeline {
		redacted.Timeline[i].Service, redacted.Timeline[i].Fault = r.Timeline[i].Service, r.Timeline[i].Fault
	}
}

// wholeWord returns an expression for a text that is not a part of a longer word.
func wholeWord(text string) string {
	const word = `[0-9A-Za-z_]`
	pattern := regexp.QuoteMeta(text)
	if regexp.MustCompile("^" + word).MatchString(text) {
		pattern = `\b` + pattern
	}
	if regexp.MustCompile(word + "$").MatchString(text) {
		pattern += `\b`
	}
	return pattern
}

// notShown replaces a secret.
const notShown = "(not shown)"

// eachText changes the texts of a JSON document.
func eachText(document any, change func(string) string) any {
	switch d := document.(type) {
	case string:
		return change(d)
	case []any:
		for i := range d {
			d[i] = eachText(d[i], change)
		}
	case map[string]any:
		for key := range d {
			d[key] = eachText(d[key], change)
		}
	}
	return document
}
