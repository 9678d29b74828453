// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lva.io/operators/scripts/grading/report"
)

func openJournal(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := openSynced(dir, unsynced)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func closeJournal(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// add stores a run of a work, and returns its key.
func add(t *testing.T, j *Journal, digest string, outcome report.Outcome) Key {
	t.Helper()
	job := Job{Key: Key{Lab: "02-reconciler", Digest: digest, Grader: "g", Seed: 7}, Dir: "/submissions/" + digest}
	result := (&fake{}).Blank(job)
	if result.Outcome = outcome; outcome != report.Graded {
		result.Reason = "so it was"
	}
	if err := j.Add(Record{Key: job.Key, Student: "ada", Try: 1, Outcome: outcome, Max: 100}, result); err != nil {
		t.Fatal(err)
	}
	return job.Key
}

func has(t *testing.T, j *Journal, k Key) bool {
	t.Helper()
	_, result, ok, err := j.Final(k)
	if err != nil {
		t.Fatal(err)
	}
	if ok && result.Submission.Dir != "/submissions/"+k.Digest {
		t.Errorf("%s has the report of %s", k.Digest, result.Submission.Dir)
	}
	return ok
}

// TestJournalIgnoresUnfinishedLine checks that the journal keeps all complete lines before an unfinished write, and
// writes the next line as a separate line.
func TestJournalIgnoresUnfinishedLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	if _, err := j.Seed(0, func() uint32 { return 99 }); err != nil {
		t.Fatal(err)
	}
	var keys []Key
	for i := range 4 {
		keys = append(keys, add(t, j, fmt.Sprint("work-", i), report.Graded))
	}
	closeJournal(t, j)
	file := filepath.Join(dir, journalFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) + 1 {
		if size%7 > 0 && len(whole)-size > 40 && whole[min(size, len(whole)-1)] != '\n' &&
			(size == 0 || whole[size-1] != '\n') {
			continue // every offset near a line's end, and some others
		}
		if err := os.WriteFile(file, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(whole[:size], []byte("\n"))
		j := openJournal(t, dir)
		for i, key := range keys {
			if got, want := has(t, j, key), i+1 < lines; got != want {
				t.Fatalf("%d bytes, %d lines: run %d known = %t", size, lines, i, got)
			}
		}
		another := add(t, j, "another", report.Graded)
		closeJournal(t, j)
		j = openJournal(t, dir)
		if !has(t, j, another) || j.Damaged() > 0 {
			t.Fatalf("%d bytes: the added line is lost, or joined to the line before: %d damaged", size, j.Damaged())
		}
		closeJournal(t, j)
	}
}

// TestDamagedLineLosesOneRun checks that if a line is damaged, only its own run is lost.
func TestDamagedLineLosesOneRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	first, second := add(t, j, "first", report.Graded), add(t, j, "second", report.Graded)
	closeJournal(t, j)
	file := filepath.Join(dir, journalFile)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("\x00\x00{"), content...), 0o600); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, dir)
	defer closeJournal(t, j)
	if has(t, j, first) || !has(t, j, second) || j.Damaged() != 1 {
		t.Errorf("known: first = %t, second = %t; damaged = %d", has(t, j, first), has(t, j, second), j.Damaged())
	}
}

func TestJournalFinal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	defer closeJournal(t, j)
	key := add(t, j, "work", report.Graded)
	if !has(t, j, key) {
		t.Error("the run is not known")
	}
	for _, other := range []Key{
		{"01-icecream", key.Digest, key.Grader, key.Seed},
		{key.Lab, "other", key.Grader, key.Seed},
		{key.Lab, key.Digest, "other", key.Seed},
		{key.Lab, key.Digest, key.Grader, 8},
	} {
		if has(t, j, other) {
			t.Errorf("%v is known", other)
		}
	}
	if _, _, ok, err := j.Known(key.Lab, key.Digest); !ok || err != nil {
		t.Errorf("the work is known: %t, %v", ok, err)
	}
	for _, outcome := range []report.Outcome{report.Error, report.Interrupted} {
		if undecided := add(t, j, "undecided-"+string(outcome), outcome); has(t, j, undecided) {
			t.Errorf("%s is final", outcome)
		}
	}
	// A submission may have written into the folder.
	if err := os.WriteFile(j.reportFile(key), []byte(`{"score": 100}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if has(t, j, key) {
		t.Error("a report that does not belong to the run was accepted")
	}
	if err := os.Remove(j.reportFile(key)); err != nil {
		t.Fatal(err)
	}
	if has(t, j, key) {
		t.Error("a run without its report is known")
	}
}

func TestJournalIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	if _, err := OpenJournal(dir); !errors.Is(err, ErrBusy) {
		t.Errorf("the second OpenJournal() error = %v", err)
	}
	closeJournal(t, j)
	if j, err := OpenJournal(dir); err != nil {
		t.Error(err)
	} else {
		closeJournal(t, j)
	}
}

func TestJournalSeed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	draw := func() uint32 { return 42 }
	for _, step := range []struct{ wanted, want uint32 }{{0, 42}, {0, 42}, {7, 7}, {0, 7}, {7, 7}} {
		j := openJournal(t, dir)
		if got, err := j.Seed(step.wanted, draw); got != step.want || err != nil {
			t.Errorf("wanted %d: the seed is %d, want %d: %v", step.wanted, got, step.want, err)
		}
		draw = func() uint32 { return 43 }
		closeJournal(t, j)
	}
}

func TestJournalFolderIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "class")
	closeJournal(t, openJournal(t, dir))
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("other users have access to the folder: mode %s", info.Mode())
	}
}
