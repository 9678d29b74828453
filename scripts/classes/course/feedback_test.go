// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/classes/course/page"
	"lva.io/operators/scripts/grading/report"
)

// unzip returns the files of an archive by their names.
func unzip(t *testing.T, content []byte) map[string]string {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, file := range archive.File {
		opened, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		files[file.Name] = string(text)
		files[file.Name+" (header)"] = fmt.Sprintf("%+v", file.FileHeader)
	}
	return files
}

func TestFeedbackLeaksNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := mustRun(t, dir, &fake{})
	for _, row := range c.Rows() {
		content, err := os.ReadFile(filepath.Join(dir, FeedbackDir, row.Student+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		files := unzip(t, content)
		if !strings.Contains(files[GradesFile], row.Student) {
			t.Errorf("%s: the grades do not name the student", row.Student)
		}
		for _, cell := range row.Cells {
			if graded := cell.Counted != nil && cell.Counted.Result != nil; graded && files[cell.Lab+"/report.html"] == "" {
				t.Errorf("%s: the archive has no report of %s: %v", row.Student, cell.Lab, slices.Collect(maps.Keys(files)))
			}
		}
		for name, text := range files {
			for _, secret := range []string{"123456789", "/srv", "prof", dir} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s contains %q", row.Student, name, secret)
				}
			}
			for i := range 24 {
				if other := fmt.Sprintf("student-%02d", i); other != row.Student && strings.Contains(text, other) {
					t.Errorf("%s: %s names %s", row.Student, name, other)
				}
			}
		}
	}
}

// TestRedactedReportHasNoSecrets checks that no report shows its student the seed or a folder of the machine, whatever
// the report says.
func TestRedactedReportHasNoSecrets(t *testing.T) {
	t.Parallel()
	const seed = 4021337
	secrets := []string{
		"/srv/prof", "/srv/prof/operator-labs/out/class/02/submissions/ada", "/tmp/lab-8123", fmt.Sprint(seed),
	}
	redactor := NewRedactor("/srv/prof", "/srv/prof/operator-labs", "/tmp/lab-8123", "", "/", "relative")
	phrases := []string{
		"%s", "it failed in %s/cmd/main.go:3:4: undefined", "\"%s/api/v1\" (see %s)",
		"--seed %s", "seed: %s", "x%s", "%s.", "…%s/", "open %s: no such file", "`%s`",
		"stat %s/a b/c: %s",
	}
	for n := range uint64(300) {
		random := rand.New(rand.NewPCG(n, 1))
		text := func() string {
			phrase := phrases[random.IntN(len(phrases))]
			for strings.Contains(phrase, "%s") {
				phrase = strings.Replace(phrase, "%s", secrets[random.IntN(len(secrets))], 1)
			}
			if random.IntN(3) == 0 { // as Sanitize shortens it
				letters := []rune(phrase)
				phrase = string(letters[:random.IntN(len(letters)+1)]) + "…"
			}
			return phrase
		}
		r := &report.Report{
			Schema: report.Schema, Lab: "02-reconciler", Title: "A loop",
			Submission: report.Submission{Dir: secrets[1], Module: text(), Arguments: []string{text()}},
			Outcome:    report.NotBuilt,
			Reason:     text(), Seed: seed, Steps: []report.Step{{Name: "build"}},
			Checks: []report.Check{{
				ID: "one", Title: "It holds", Status: report.Failed, MaxPoints: 100,
				Expected: text(), Observed: text(), Evidence: []string{text(), text()},
			}},
			Forbidden: []report.Forbidden{{Verb: "get", Resource: text(), Count: 1, Marker: text()}}, Notices: []string{text()},
			Diagnostics: []report.Diagnostic{{File: text(), Message: text()}}, OperatorLog: []string{text()},
			Timeline: []report.Moment{{What: text(), Service: report.ServiceAPI}},
		}
		before := fmt.Sprintf("%+v", r)
		redacted, err := redactor.Redact(r, &page.Lab{})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", r) != before {
			t.Fatal("Redact changed the original report")
		}
		for _, word := range []string{"/srv/p", "prof", "operator-labs/out", "/tmp/lab", "8123", fmt.Sprint(seed)} {
			if text := fmt.Sprintf("%+v", redacted); strings.Contains(text, word) {
				// A person would not recognise a seed that is joined to a letter as a number.
				if word == fmt.Sprint(seed) && !strings.Contains(strings.ReplaceAll(text, "x"+word, ""), word) {
					continue
				}
				t.Fatalf("%d: the redacted text contains %q:\n%s\nthe report was\n%s", n, word, text, before)
			}
		}
	}
}

func TestPathsAreShortened(t *testing.T) {
	t.Parallel()
	redactor := NewRedactor("/srv/prof", "/tmp")
	r := &report.Report{Submission: report.Submission{Dir: "/srv/prof/class/ada"}, Seed: 5000}
	for _, c := range []struct{ text, want string }{
		{"/srv/prof/class/ada/cmd/main.go:3:4: undefined: x", "cmd/main.go:3:4: undefined: x"},
		{"in /srv/prof/class/ada: no go.mod", "in .: no go.mod"},
		{"/srv/prof/class/ada2/cmd/main.go", "…/main.go"},
		{"open /tmp/lab-1/run/bin/manager: denied", "open …/manager: denied"},
		{"nothing in /srv/prof", "nothing in …"},
		{"seed 5000; 5000 requests; 15000 more", "seed (not shown); (not shown) requests; 15000 more"},
		{"/var/lib/x stays", "/var/lib/x stays"},
		{"a long text that ends in /srv/pr…", "a long text that ends in …"},
	} {
		r.Reason = c.text
		got, err := redactor.Redact(r, &page.Lab{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Reason != c.want {
			t.Errorf("the redacted text of %q = %q, want %q", c.text, got.Reason, c.want)
		}
	}
}
