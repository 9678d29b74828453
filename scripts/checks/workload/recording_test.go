// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// state returns an owner with a condition Degraded.
func state(status, reason string, generation int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Degraded", "status": status, "reason": reason, "observedGeneration": generation},
	}}}}
}

func TestRecordingCountsTransitionsAndWrites(t *testing.T) {
	t.Parallel()
	recording := &Recording{states: []*unstructured.Unstructured{
		state("True", "Crash", 1), state("True", "Pull", 1),
		state("True", "Pull", 1), state("False", "Fine", 1), state("False", "Fine", 2),
	}}
	if turns := recording.Transitions("Degraded", "Available"); turns != 1 {
		t.Errorf("Transitions() = %d, want 1: only a change of the status is one", turns)
	}
	if writes := recording.Writes("Degraded"); writes != 3 {
		t.Errorf("Writes() = %d, want 3: the third state equals the second", writes)
	}
	if !recording.Claims("Degraded", "False", 2) || recording.Claims("Degraded", "True", 2) {
		t.Error("Claims(): Degraded was False for generation 2, and never True")
	}
}

func TestRecordingShowsIgnoresFirstState(t *testing.T) {
	t.Parallel()
	recording := &Recording{states: []*unstructured.Unstructured{state("True", "Crash", 1), state("False", "Fine", 1)}}
	if recording.Shows("Degraded", "True") || !recording.Shows("Degraded", "False") {
		t.Error("Shows(): Degraded was True before the recording began, and False during it")
	}
}
