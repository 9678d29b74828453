// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// solution creates a checkout with one lab. Its solution is an operator that continues after every failure, and has
// these mutants.
func solution(t *testing.T, mutants string) *checkout.Checkout {
	t.Helper()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The operator needs neither its kind nor its permissions. With them, a mutant would need markers.
	files := []txtar.File{{Name: "mutants.yaml", Data: []byte(mutants)}}
	for _, name := range []string{"base.txtar", "labels.txtar"} {
		parsed, err := txtar.ParseFile(filepath.Join("..", "..", "grading", "grade", "testdata", "submissions", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, parsed.Files...)
	}
	root := t.TempDir()
	for _, file := range files {
		path := filepath.Join(root, "solutions", "01-shop", filepath.FromSlash(file.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return &checkout.Checkout{Root: root, ControlPlane: repo.ControlPlane, Labs: repo.Labs}
}

// A script replaces the checks. All of them pass, and a program whose shop closes at noon fails the torture.
const checks = `#!/bin/sh
if ! grep -q '"torture"' "$OPERATOR_LABS_RUN"; then
	echo '{"check":"open","status":"passed"}' >&3
	exit
fi
trial='"number":2,"of":2,"schedule":{"faults":[{"kind":"kill-after","class":"write","at":3}]},"ended":true'
echo '{"trial":{"number":1,"of":1,"schedule":{"faults":[]},"ended":true,"passed":true}}' >&3
if grep -q "this shop closes at noon" "$(dirname "$OPERATOR_LABS_RUN")/operator"; then
	echo '{"trial":{'"$trial"'}}' >&3
	echo '{"expected":"it is open","observed":"it is closed","trial":{'"$trial"',"final":true}}' >&3
else
	echo '{"trial":{'"$trial"',"passed":true}}' >&3
fi
`

func TestMutantSurvivingTortureIsReported(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	repo := solution(t, `
skeleton: {fails: {open: x}}
mutants:
- name: closes
  misconception: A shop may close.
  edits: [{file: cmd/behaviour.go, find: "func atStart() {}", replace: "func atStart() { println(\"this shop closes at noon\") }"}]
  torture: "it is closed"
- name: sturdy
  misconception: Nothing ever goes wrong.
  edits: [{file: cmd/behaviour.go, find: "func atStart() {}", replace: "func atStart() { println(\"this shop never closes\") }"}]
  torture: "it is closed"
`)
	script := filepath.Join(t.TempDir(), "checks")
	if err := os.WriteFile(script, []byte(checks), 0o700); err != nil {
		t.Fatal(err)
	}
	found, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	controllerGen, err := found.ControllerGen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = Lab(t.Context(), Options{
		Checkout: repo, ControllerGen: controllerGen, Checks: script,
		Only: []string{"torture", "closes", "sturdy"}, Proven: t.TempDir(), Out: &out,
		Lab: &manifest.Lab{
			Number: 1, Name: "01-shop", Title: "The shop", Operator: true, TimeLimit: metav1.Duration{Duration: time.Minute},
			Checks: []manifest.Check{{ID: "open", Title: "It is open", Points: 100}},
		},
	})
	if err == nil || !strings.Contains(err.Error(), "of 3 submissions, these did not get the expected grade: sturdy") {
		t.Errorf("Lab() error = %v, want one about the surviving mutant", err)
	}
	for _, want := range []string{
		`(?m)^ok .* 01-shop torture: survives$`,
		`(?m)^ok .* 01-shop closes: full marks, and fails the torture$`,
		`(?m)^FAIL .* 01-shop sturdy: full marks, and fails the torture\n` +
			` +it survives the torture with seed 1, and must fail with "it is closed"\n` +
			` +its misconception: Nothing ever goes wrong\.$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("want output that matches %q, got\n%s", want, out.String())
		}
	}
	if !regexp.MustCompile(`\n\nFAIL .* sturdy: .*\n.*\n +its misconception: Nothing ever goes wrong\.\n$`).
		MatchString(out.String()) {
		t.Errorf("want output that ends with the unexpected grades, got\n%s", out.String())
	}
}
