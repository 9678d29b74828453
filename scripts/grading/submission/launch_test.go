// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// No process can be started with every text, and a submission must not control the grader's own program.
func TestLaunchLeavesOutWhatNoProcessCanHave(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 200<<10)
	for _, test := range []struct {
		name      string
		container corev1.Container
		command   []string
		variables []string
	}{
		{
			"usual",
			corev1.Container{
				Command: []string{"/manager", "start"}, Args: []string{"--leader-elect", "more"},
				Env: []corev1.EnvVar{{Name: "SHOP", Value: "a b"}, {Name: "GOOGLE", Value: "c"}},
			},
			[]string{"start"},
			[]string{"SHOP=a b", "GOOGLE=c"},
		},
		{
			"a null character",
			corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "\x00"}, {Name: "B\x00", Value: "b"}}},
			nil,
			nil,
		},
		{
			"a long value",
			corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: long}}},
			nil,
			[]string{"A=a"},
		},
		{
			"a long value, then a short one",
			corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: long}, {Name: "B", Value: "b"}}},
			nil,
			[]string{"B=b"},
		},
		{
			"a name that holds a value",
			corev1.Container{Env: []corev1.EnvVar{{Name: "GODEBUG=panicnil", Value: "1"}, {Name: "B", Value: "b"}}},
			nil,
			[]string{"B=b"},
		},
		{"a long word", corev1.Container{Args: []string{"start", long}}, []string{"start"}, nil},
		{
			"a long word, then a variable",
			corev1.Container{Args: []string{"start", long}, Env: []corev1.EnvVar{{Name: "B", Value: "b"}}},
			[]string{"start"},
			[]string{"B=b"},
		},
		{
			"variables of the grader's own program",
			corev1.Container{Env: []corev1.EnvVar{
				{Name: "LD_PRELOAD", Value: "/tmp/evil.so"}, {Name: "GOMEMLIMIT", Value: "64Mi"}, {Name: "GOGC", Value: "1"},
			}},
			nil,
			nil,
		},
	} {
		got := newLaunch(&test.container)
		if !slices.Equal(got.Command, test.command) || !slices.Equal(got.Environment, test.variables) {
			t.Errorf("%s: got the command %.99q and the variables %.99q", test.name, got.Command, got.Environment)
		}
	}
	many := newLaunch(&corev1.Container{
		Args: slices.Repeat([]string{"a"}, 100_000), Env: slices.Repeat([]corev1.EnvVar{{Name: "A", Value: "a"}}, 100_000),
	})
	if number := len(many.Command) + len(many.Environment); number > launchLimit/16 {
		t.Errorf("%d words and variables are taken", number)
	}
}
