// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/authoring/mutate"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// signs is the code that a student has to write. A check reads the first sign, and the torture reads the second.
const signs = `package main

import "example.com/icecream/internal/shelf"

//lab:begin signs
func signs() {
	println("open at nine!")
	println("closed at noon!")
}
//lab:end

func init() { atStart = signs }

var atStart func()

// A shelf without a place can't be built.
var _ [shelf.Places - 1]struct{}
`

const shelf = `package shelf

//lab:begin places
const Places = 1
//lab:end
`

// A script replaces the checks. It reads the signs in the operator's program.
const signChecks = `#!/bin/sh
operator="$(dirname "$OPERATOR_LABS_RUN")/operator"
if ! grep -q '"torture"' "$OPERATOR_LABS_RUN"; then
	status=failed
	grep -q "open at nine!" "$operator" && status=passed
	echo '{"check":"open","status":"'$status'","expected":"a sign","observed":"none"}' >&3
	exit
fi
trial='"number":2,"of":2,"schedule":{"faults":[{"kind":"kill-after","class":"write","at":3}]},"ended":true'
echo '{"trial":{"number":1,"of":1,"schedule":{"faults":[]},"ended":true,"passed":true}}' >&3
if grep -q "closed at noon!" "$operator"; then
	echo '{"trial":{'"$trial"',"passed":true}}' >&3
else
	echo '{"trial":{'"$trial"'}}' >&3
	echo '{"expected":"it closes","observed":"it never does","trial":{'"$trial"',"final":true}}' >&3
fi
`

// mutation returns a run over the mutants of the signs that have these changes.
func mutation(t *testing.T, changes ...string) Mutation {
	t.Helper()
	repo := solution(t, "")
	dir := filepath.Join(repo.Root, "solutions", "01-shop")
	for name, content := range map[string]string{
		"cmd/behaviour.go":        behaviour,
		"cmd/signs.go":            signs,
		"internal/shelf/shelf.go": shelf,
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(t.TempDir(), "checks")
	if err := os.WriteFile(script, []byte(signChecks), 0o700); err != nil {
		t.Fatal(err)
	}
	found, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	m := Mutation{Options: Options{Checkout: repo, Checks: script, Parallel: 2, Lab: &manifest.Lab{
		Number: 1, Name: "01-shop", Title: "The shop", Operator: true, TimeLimit: metav1.Duration{Duration: time.Minute},
		Checks: []manifest.Check{{ID: "open", Title: "It is open", Points: 100}},
	}}}
	if m.ControllerGen, err = found.ControllerGen(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := mutate.Generate(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		i := slices.IndexFunc(all, func(one mutate.Mutant) bool { return strings.HasSuffix(one.Change(), change) })
		if i < 0 {
			t.Fatalf("there is no mutant %s", change)
		}
		m.Mutants = append(m.Mutants, all[i])
	}
	return m
}

// behaviour is the code of an operator whose atStart can be set.
const behaviour = `package main

func missing(labels map[string]string) (names []string) {
	for _, name := range []string{"cup", "spoon"} {
		if labels[name] == "" {
			names = append(names, name)
		}
	}
	return names
}
`

func TestMutantFates(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	const (
		noSign    = `remove-statement: println("open at nine!") → (nothing)`
		otherSign = `constant: "open at nine!" → "open at nine!x"`
		neverEnds = `remove-statement: println("closed at noon!") → (nothing)`
		noShelf   = `constant: 1 → 0`
	)
	gap := mutate.Survivor{Verdict: mutate.Gap, Reason: "Nobody reads the whole sign."}
	tortured := mutate.Survivor{Verdict: mutate.Tortured, Reason: "It is noon rarely."}
	type fates map[string][2]string
	for _, test := range []struct {
		name    string
		torture bool
		known   map[string]mutate.Survivor
		want    fates // fate and why
	}{
		{"with checks only", false, nil, fates{
			noSign: {"found", "open"}, otherSign: {"survived", ""}, noShelf: {"stillborn", "It does not build"},
		}},
		{"with known survivors", false, map[string]mutate.Survivor{noSign: gap, otherSign: gap, neverEnds: tortured}, fates{
			noSign:    {"found", "open; survivors.yaml has gap: remove that entry"},
			otherSign: {"gap", gap.Reason}, neverEnds: {"torture", tortured.Reason},
		}},
		{"with the torture", true, map[string]mutate.Survivor{otherSign: tortured}, fates{
			neverEnds: {"torture", "kill-after write 3"},
			otherSign: {"survived", "survivors.yaml expects that it fails the torture"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var changes []string
			for change := range test.want {
				changes = append(changes, change)
			}
			m := mutation(t, changes...)
			m.Torture, m.Survivors = test.torture, map[string]mutate.Survivor{}
			got := fates{}
			for i, change := range changes {
				if known, is := test.known[change]; is {
					m.Survivors[m.Mutants[i].ID] = known
				}
			}
			m.Ended = func(trial mutate.Trial) error {
				i := slices.IndexFunc(m.Mutants, func(one mutate.Mutant) bool {
					return one.ID == trial.ID && one.Change() == trial.Mutant
				})
				got[changes[i]] = [2]string{string(trial.Fate), trial.Why}
				return nil
			}
			if err := Mutate(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// In a lab without a graded operator, a change that leaves the manifests as they are has no effect.
func TestMutantWithSameManifestsIsEquivalent(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	lab, err := repo.Labs.Lab("1")
	if err != nil {
		t.Fatal(err)
	}
	m := Mutation{Options: Options{Checkout: repo, Lab: lab, Checks: "/no/checks/are/needed"}}
	if m.ControllerGen, err = repo.ControllerGen(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := mutate.Generate(t.Context(), repo.SolutionDir(lab))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(one mutate.Mutant) bool { return one.After == "`json:\"topping\"`" })
	if i < 0 {
		t.Fatal("no mutant removes omitempty from a tag of topping")
	}
	m.Mutants = all[i : i+1]
	m.Ended = func(trial mutate.Trial) error {
		if trial.Fate != mutate.Fate(mutate.Equivalent) || !strings.Contains(trial.Why, "manifests") {
			t.Errorf("%s is %s: %s", trial.Mutant, trial.Fate, trial.Why)
		}
		return nil
	}
	if err := Mutate(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptedMutantIsNotReported(t *testing.T) {
	t.Parallel()
	m := mutation(t, `constant: 1 → 0`, `constant: 1 → 2`)
	m.Ended = func(trial mutate.Trial) error {
		t.Errorf("an interrupted run reported %s as %s", trial.Mutant, trial.Fate)
		return nil
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("that is enough")
	cancel(enough)
	if err := Mutate(ctx, m); !errors.Is(err, enough) {
		t.Errorf("Mutate() error = %v", err)
	}
	full, reported := errors.New("the disk is full"), 0
	m.Parallel, m.Ended = 1, func(mutate.Trial) error { reported++; return full }
	if err := Mutate(t.Context(), m); !errors.Is(err, full) || reported != 1 {
		t.Errorf("after the first Ended failed: got %d reports and error %v, want 1 report", reported, err)
	}
}
