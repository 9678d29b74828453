// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package bench

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for only, want := range map[string]string{
		"BenchmarkGrade": "", "Grade/lab=2": "", ".": "",
		"Nothing": "no benchmark matches --only Nothing: there are Benchmark",
		"(":       "--only ( is not a regular expression",
	} {
		err := Match(root, only)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Match(%q) = %v, want %q", only, err, want)
		}
	}
}
