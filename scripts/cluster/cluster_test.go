// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/cli/clitest"
	"lva.io/operators/scripts/report/terminal"
)

func TestStepsAreLinesWithTheirTimes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	steps := newSteps(&out, terminal.Screen{})
	nothing := func(context.Context, func(string)) (string, error) { return "a detail", nil }
	wrong := func(context.Context, func(string)) (string, error) { return "a detail", errors.New("it is broken") }
	err := steps.run(t.Context(), []step{{"first", time.Minute, nothing}, {"second", 0, wrong}, {"third", 0, nothing}})
	if err == nil || err.Error() != "second: it is broken" {
		t.Errorf("the error is %v", err)
	}
	if want := "step first            0.0 s  a detail\nFAIL second           0.0 s\n"; out.String() != want {
		t.Errorf("it printed\n%s; want\n%s", out.String(), want)
	}
}

func TestAStepThatTakesTooLongSaysSo(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	slow := func(ctx context.Context, _ func(string)) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	err := newSteps(&out, terminal.Screen{}).run(t.Context(), []step{{"slow", time.Millisecond, slow}})
	if err == nil || !strings.Contains(err.Error(), "it was not done within 1ms") {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newSteps(&out, terminal.Screen{}).run(ctx, []step{{"slow", time.Minute, slow}}); !errors.Is(err, errInterrupted) {
		t.Errorf("the error of a step that a person ended is %v", err)
	}
}

func TestOnATerminalTheLastLineIsWrittenAgain(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	steps := newSteps(&out, terminal.Screen{Interactive: true, Width: 60, Unicode: true})
	long := strings.Repeat("a word ", 20)
	if err := steps.do(t.Context(), step{"first", 0, func(_ context.Context, say func(string)) (string, error) {
		say(long)
		deadline := time.NewTimer(3 * frameTime)
		defer deadline.Stop()
		<-deadline.C
		return long, nil
	}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), clearLine)
	if len(lines) < 3 || !strings.HasSuffix(out.String(), "\n") || !strings.Contains(lines[len(lines)-1], "✓ first") {
		t.Errorf("it printed %q", out.String())
	}
	for _, line := range lines {
		if length := len([]rune(strings.TrimSpace(line))); length > 60 {
			t.Errorf("a line has %d characters, and would break: %q", length, line)
		}
	}
}

func TestProgressIsSaidSeldomInALog(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	steps := newSteps(&out, terminal.Screen{})
	steps.begin("slow")
	steps.say("at once")
	if out.Len() > 0 {
		t.Errorf("it printed %q at once", out.String())
	}
	steps.told = steps.told.Add(-quietTime)
	steps.say("later")
	steps.say("later still")
	if want := "step slow: later\n"; out.String() != want {
		t.Errorf("it printed %q; want %q", out.String(), want)
	}
}

func TestAVersionThatIsNotThePinnedOneIsSaid(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ version, pinned, want string }{
		{"v1.20.2", "1.20.2", ""},
		{"", "1.20.2", ""},
		{"1.19.0", "1.20.2", " (pinned: 1.20.2)"},
	} {
		if got := differs(test.version, test.pinned); got != test.want {
			t.Errorf("%s of %s: %q; want %q", test.version, test.pinned, got, test.want)
		}
	}
}

func TestEveryCommandSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	clitest.EveryCommandSaysWhatIsWrong(t, root)
}

func TestEachCommandSaysWhatIsWrongWithItsArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"create --air-gap --images registry": "contradict each other",
		"create --images none":               "choose one of auto, registry, air-gap",
		"create --profile nope":              "there is no profile \"nope\"",
		"create --context x --recreate":      "contradict each other",
		"create --name UPPER":                "can't be a cluster's name",
		"create --step-time 0s":              "needs some time",
		"create more":                        "`cluster create` takes no arguments: leave out more",
		"status --name a --context b":        "--name and --context exclude each other: leave one of them out",
		"invite --days many students.txt":    "--days wants a whole number, and \"many\" is not: correct it; `cluster invite --help` lists the flags",
		"e2e --within soon":                  "--within wants a time such as 90s or 1h30m, and \"soon\" is not",
		"export-logs":                        "name the folder",
		"images nope":                        "the catalogue has no set \"nope\"",
		"load nope:1":                        "has no image nope:1",
		"bundle save":                        "name the bundle's file",
		"bundle load /does/not/exist":        "no such file",
		"invite":                             "name the roster",
		"test --context x":                   "needs --image",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			command := root()
			command.SetArgs(strings.Fields(line))
			if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v; want %q", err, want)
			}
		})
	}
}
