// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
)

func TestTortureOfIdleOperator(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := complete(t)
	parsed, err := txtar.ParseFile(filepath.Join("..", "..", "grading", "grade", "testdata", "submissions", "base.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range parsed.Files {
		path := filepath.Join(root, "idle", filepath.FromSlash(file.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got := run(t, root, "torture", "2", "--dir", "idle", "--seed", "4711", "--random", "3")
	if got.code != 1 || got.stderr != "" {
		t.Errorf("got exit code %d, stderr %q", got.code, got.stderr)
	}
	for _, want := range []string{
		`(?m)^step start the operator `,
		`(?m)^It fails under this schedule, the shortest that was found:\n\n    no faults\n\n` +
			"    It fails on a good day: grade it first, with `.*lab grade 2 --dir idle`\\.$",
		`(?m)^  expected  three of quince stay, and are sold out\n` +
			`  observed  status.toppingsCount of quince-[123] is not set and status.soldOut of quince-[123] \(quince\) is not set`,
		`(?m)^To see it again: .*lab torture 2 --dir idle --seed 4711 --random 3$`,
	} {
		if !regexp.MustCompile(want).MatchString(got.stdout) {
			t.Errorf("want output that matches %q, got\n%s", want, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "points") {
		t.Errorf("a torture gives no points, but the output is\n%s", got.stdout)
	}
	wantNothing(t, got.runs)

	out := filepath.Join(root, "out", "submissions", checkout.ReportsOf(filepath.Join(root, "idle")), "02-reconciler")
	content, err := os.ReadFile(filepath.Join(out, "torture.json"))
	if err != nil {
		t.Fatal(err)
	}
	var trials grade.Trials
	if err := json.Unmarshal(content, &trials); err != nil {
		t.Fatal(err)
	}
	if trials.Run.Seed != 4711 || trials.Failure == nil || len(trials.Failure.Schedule.Faults) != 0 || trials.Survived() {
		t.Errorf("got recorded trials %s", content)
	}
	if _, err := os.Stat(filepath.Join(out, report.JSONFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a torture wrote the report of a grade: %v", err)
	}
}
