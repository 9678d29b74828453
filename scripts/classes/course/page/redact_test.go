// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/report"
	reporthtml "lva.io/operators/scripts/grading/report/html"
)

// TestRedactedReportHasNoSecrets checks every kind of report. Each redacted report must be valid.
func TestRedactedReportHasNoSecrets(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../grading/report/testdata/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d reports: %v", len(files), err)
	}
	for _, file := range files {
		r, err := report.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		const dir = "/srv/class/Ada Adebayo/02-reconciler"
		r.Seed, r.Submission.Dir = 471147, dir
		secret := "to repeat: --seed 471147 in " + dir + "/cmd, or seed: 12, 0x7306b; Ada and Bob, passed; linseed"
		r.Notices = append(r.Notices, secret)
		if r.Outcome != report.Graded {
			r.Reason += " " + secret
		}
		lab := &Lab{}
		for i := range r.Checks {
			c := &r.Checks[i]
			c.Evidence = append(c.Evidence, secret)
			lab.Checks = append(lab.Checks, Check{ID: c.ID, Hidden: i%2 == 0})
		}
		r.OperatorLog = append(r.OperatorLog, secret)
		before, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		// A student's name may be the word for an outcome or a status.
		redacted, err := Redact(r, lab, nil, "Bob", "passed", "graded", "", "/srv/class")
		if err != nil {
			t.Fatal(err)
		}
		content, err := redacted.JSON()
		if err != nil {
			t.Fatalf("%s: the redacted report is not valid: %v", file, err)
		}
		var page bytes.Buffer
		if err := reporthtml.Write(&page, redacted, ""); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"471147", "7306b", "Adebayo", "/srv", "Bob", "seed: 12"} {
			if strings.Contains(string(content), text) || strings.Contains(page.String(), text) {
				t.Errorf("%s: the redacted report contains %q", file, text)
			}
		}
		if !strings.Contains(string(content), "linseed") ||
			redacted.Score != r.Score || redacted.Outcome != r.Outcome || len(redacted.Checks) != len(r.Checks) {
			t.Errorf("%s: the redacted report lacks something that the student may see", file)
		}
		for i, c := range r.Checks {
			got := redacted.Checks[i]
			if got.Status != c.Status || got.Points != c.Points {
				t.Errorf("%s: the check %s is %s with %d points", file, c.ID, got.Status, got.Points)
			}
			if hidden := i%2 == 0; hidden == (got.ID == c.ID) || hidden && len(got.Evidence) > 0 {
				t.Errorf("%s: the check %s is shown as %+v", file, c.ID, got)
			}
		}
		if after, err := r.JSON(); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: Redact changed the original report: %v", file, err)
		}
	}
}

func TestRedactReplacesWholeWords(t *testing.T) {
	t.Parallel()
	r := &report.Report{Notices: []string{"Ann annoys Anna, Ann-Marie and x/Ann/y", "Jörg", "a.b axb"}}
	redacted, err := Redact(r, &Lab{}, nil, "Ann", "Jörg", "a.b")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"(not shown) annoys Anna, (not shown)-Marie and x/(not shown)/y", "(not shown)", "(not shown) axb"}
	if !slices.Equal(redacted.Notices, want) {
		t.Errorf("Notices = %q", redacted.Notices)
	}
}
