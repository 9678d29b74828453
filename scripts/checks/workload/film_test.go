// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// state is an owner with a condition Degraded.
func state(status, reason string, generation int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Degraded", "status": status, "reason": reason, "observedGeneration": generation},
	}}}}
}

func TestFilmCountsTurnsAndWrites(t *testing.T) {
	t.Parallel()
	film := &Film{states: []*unstructured.Unstructured{
		state("True", "Crash", 1), state("True", "Pull", 1), state("True", "Pull", 1), state("False", "Fine", 1), state("False", "Fine", 2),
	}}
	if turns := film.Turns("Degraded", "Available"); turns != 1 {
		t.Errorf("Turns = %d, want 1: only a change of the status is one", turns)
	}
	if writes := film.Writes("Degraded"); writes != 3 {
		t.Errorf("Writes = %d, want 3: the third state is the second one", writes)
	}
	if !film.Claims("Degraded", "False", 2) || film.Claims("Degraded", "True", 2) {
		t.Error("Claims: of generation 2 Degraded was False, and never True")
	}
}

func TestFilmShowsIgnoresFirstState(t *testing.T) {
	t.Parallel()
	film := &Film{states: []*unstructured.Unstructured{state("True", "Crash", 1), state("False", "Fine", 1)}}
	if film.Shows("Degraded", "True") || !film.Shows("Degraded", "False") {
		t.Error("Shows: Degraded was True before the film began, and False in it")
	}
}
