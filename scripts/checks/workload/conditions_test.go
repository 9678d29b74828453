// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import "testing"

func TestConditionsPatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		edit func(condition map[string]any)
		want string
	}{
		{
			func(condition map[string]any) { condition["reason"] = "Edited" },
			`{"status":{"conditions":[{"observedGeneration":1,"reason":"Edited","status":"True","type":"Degraded"}]}}`,
		},
		{nil, `{"status":{"conditions":[]}}`},
	} {
		patch, err := ConditionsPatch(state("True", "Crash", 1), test.edit)
		if err != nil || string(patch) != test.want {
			t.Errorf("ConditionsPatch() = %s, %v, want %s", patch, err, test.want)
		}
	}
}
