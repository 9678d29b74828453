// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"archive/zip"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
)

func TestClassErrors(t *testing.T) {
	root := bare(t)
	submissions := filepath.Join(root, "submissions")
	bad := filepath.Join(root, "class.yaml")
	if err := errors.Join(
		os.MkdirAll(submissions, 0o700), os.WriteFile(bad, []byte("deadlin: yes\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no submissions", []string{"--lab", "2"}, "class needs one folder of submissions"},
		{"no lab", []string{submissions}, "--lab is missing"},
		{"an unknown lab", []string{"--lab", "2,99", submissions}, `there is no lab "99"`},
		{"a duplicate lab", []string{"--lab", "2,02-reconciler", submissions}, "names lab 2 twice"},
		{"a missing folder", []string{"--lab", "2", filepath.Join(root, "nowhere")}, "is neither a folder nor a roster"},
		{"invalid rules", []string{"--lab", "2", "--rules", bad, submissions}, "deadlin"},
		{"missing rules", []string{"--lab", "2", "--rules", bad + "l", submissions}, "class.yamll"},
		{
			"an unknown sandbox",
			[]string{"--lab", "2", "--sandbox", "maybe", submissions},
			"for --sandbox: it must be auto, required or off",
		},
		{
			"results among submissions",
			[]string{"--lab", "2", "--out", filepath.Join(submissions, "out"), submissions},
			"among the submissions",
		},
		{"an empty folder", []string{"--lab", "2", submissions}, "there is no submission in"},
	} {
		got := runHere(t, root, append([]string{"class"}, c.args...)...)
		if got.code != 1 || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s: got exit code %d, %q, want %q", c.name, got.code, got.stderr, c.want)
		}
	}
}

// This takes about 30 s of CPU time: two runs of lab 01 on new control planes.
func TestClassGradebook(t *testing.T) {
	longtest.Proof(t)
	t.Parallel()
	const name = "01-icecream"
	root := complete(t, name)
	submissions, out := t.TempDir(), filepath.Join(t.TempDir(), "class")
	from := findCheckout(t)
	listed, err := from.Labs.Lab(name)
	if err != nil {
		t.Fatal(err)
	}
	for student, dir := range map[string]string{
		"ada": from.SolutionDir(listed), "grace": from.SolutionDir(listed), "skeleton": from.Dir(listed),
	} {
		if err := os.CopyFS(filepath.Join(submissions, student), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	zipped(t, filepath.Join(submissions, "linus.zip"), from.SolutionDir(listed))
	if err := errors.Join(
		os.Mkdir(filepath.Join(submissions, "empty"), 0o700),
		os.WriteFile(filepath.Join(submissions, "broken.zip"), []byte("PK\x03\x04 and no more"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for attempt := range 2 {
		got := run(t, root, "class", "--lab", "1", "--out", out, submissions)
		if got.code != 0 {
			t.Fatalf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
		}
		file, err := os.Open(filepath.Join(out, "gradebook.csv"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(file).ReadAll()
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"ada": "100 graded", "grace": "100 graded", "linus": "100 graded",
			"skeleton": "0 graded", "empty": "0 unusable", "broken": "0 unusable",
		}
		for _, row := range rows[1:] {
			if got := row[5] + " " + row[6]; got != want[row[0]] {
				t.Errorf("%s: got %q, want %q: %q", row[0], got, want[row[0]], row)
			}
		}
		journal, err := os.ReadFile(filepath.Join(out, "journal.jsonl"))
		if lines := strings.Count(string(journal), "\n"); err != nil || len(rows) != 7 || lines != 3 {
			t.Errorf("attempt %d: got %d lines in the journal, want the seed and two runs; %d rows: %v",
				attempt, lines, len(rows), err)
		}
	}
	for _, student := range []string{"ada", "grace", "linus", "skeleton", "empty", "broken"} {
		archive, err := zip.OpenReader(filepath.Join(out, "feedback", student+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		if archive.File[0].Name != "index.html" {
			t.Errorf("%s: first file = %s, want index.html", student, archive.File[0].Name)
		}
		archive.Close()
	}
}

// zipped creates a zip archive of a folder.
func zipped(t *testing.T, name, dir string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(file)
	if err := errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}
