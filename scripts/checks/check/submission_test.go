// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
)

// asksForFiles reports the answers that it gets as its evidence.
func asksForFiles(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	var results []string
	for _, path := range []string{"zombie/answers.yaml", "empty", "nowhere.yaml", "secret"} {
		content, err := c.Submission.File(ctx, path)
		results = append(results, fmt.Sprintf("%q missing %t: %v", content, errors.Is(err, fs.ErrNotExist), err))
	}
	for _, args := range [][]string{{"a b", `"c"`}, {}, nil} {
		output, exit, err := c.Submission.Run(ctx, "echo.sh", args...)
		results = append(results, fmt.Sprintf("%q %d: %v", output, exit, err))
	}
	output, exit, err := c.Submission.Run(ctx, "hang.sh")
	scriptErr, is := errors.AsType[*check.ScriptError](err)
	results = append(results, fmt.Sprintf("%q %d: ScriptError %t: %+v", output, exit, is, scriptErr))
	_, _, err = c.Submission.Run(ctx, "none.sh")
	results = append(results, fmt.Sprintf("missing %t: %v", errors.Is(err, fs.ErrNotExist), err))
	c.Fail(t, "it tells", "it does", results...)
}

func TestSubmissionFilesAndScripts(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.files = map[string]string{"zombie/answers.yaml": "zombie: sundae\n", "empty": ""}
	g.scripts = map[string]func(string) protocol.Output{
		"echo.sh": func(args string) protocol.Output { return protocol.Output{Text: args, Exit: 7} },
		"hang.sh": func(string) protocol.Output {
			return protocol.Output{Text: "begins", Exit: -1, Problem: "it did not end"}
		},
	}
	want := []string{
		`"zombie: sundae\n" missing false: <nil>`,
		`"" missing false: <nil>`,
		`"" missing true: opening nowhere.yaml: file does not exist: file does not exist`,
		`"" missing false: asking the grader for /submission/secret: reading secret: permission denied`,
		`"[\"a b\",\"\\\"c\\\"\"]" 7: <nil>`,
		`"[]" 7: <nil>`,
		`"[]" 7: <nil>`,
		`"begins" -1: ScriptError true: it did not end`,
		`missing true: opening none.sh: file does not exist: file does not exist`,
	}
	if got := g.run("submission", "submission").ended("submission").Evidence; !slices.Equal(got, want) {
		t.Errorf("evidence =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLabWithoutOperator(t *testing.T) {
	t.Parallel()
	var faulty check.Faults
	var none check.Submission
	_, logErr := faulty.Log(t.Context())
	_, fileErr := none.File(t.Context(), "answers.yaml")
	_, _, runErr := none.Run(t.Context(), "rescue.sh")
	for what, err := range map[string]error{
		"arming": faulty.Arm(t.Context(), faults.Schedule{}), "disarming": faulty.Disarm(t.Context()), "the log": logErr,
		"a file": fileErr, "a script": runErr,
	} {
		if !errors.Is(err, check.ErrNoOperator) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
