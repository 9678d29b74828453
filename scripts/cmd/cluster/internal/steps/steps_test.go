// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package steps

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/grading/report/terminal"
)

func TestStepsPrintTheirTimes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	steps := New(&out, terminal.Screen{})
	nothing := func(context.Context, func(string)) (string, error) { return "a detail", nil }
	wrong := func(context.Context, func(string)) (string, error) { return "a detail", errors.New("it is broken") }
	err := steps.Run(t.Context(), []Step{{"first", time.Minute, nothing}, {"second", 0, wrong}, {"third", 0, nothing}})
	if err == nil || err.Error() != "second: it is broken" {
		t.Errorf("Run() error = %v", err)
	}
	if want := "step first            0.0 s  a detail\nFAIL second           0.0 s\n"; out.String() != want {
		t.Errorf("got output\n%s\nwant\n%s", out.String(), want)
	}
}

func TestLateStepIsReported(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	slow := func(ctx context.Context, _ func(string)) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	err := New(&out, terminal.Screen{}).Run(t.Context(), []Step{{"slow", time.Millisecond, slow}})
	if err == nil || !strings.Contains(err.Error(), "timed out after 1ms") {
		t.Errorf("Run() error = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(&out, terminal.Screen{}).Run(ctx, []Step{{"slow", time.Minute, slow}}); !errors.Is(err, ErrInterrupted) {
		t.Errorf("error of an interrupted step = %v, want ErrInterrupted", err)
	}
}

func TestTerminalRewritesLastLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	steps := New(&out, terminal.Screen{Interactive: true, Width: 60, Unicode: true})
	long := strings.Repeat("a word ", 20)
	if err := steps.do(t.Context(), Step{Name: "first", Do: func(_ context.Context, report func(string)) (string, error) {
		report(long)
		deadline := time.NewTimer(3 * progress.FrameTime)
		defer deadline.Stop()
		<-deadline.C
		return long, nil
	}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), progress.ClearLine)
	if len(lines) < 3 || !strings.HasSuffix(out.String(), "\n") || !strings.Contains(lines[len(lines)-1], "✓ first") {
		t.Errorf("got output %q", out.String())
	}
	for _, line := range lines {
		if length := len([]rune(strings.TrimSpace(line))); length > 60 {
			t.Errorf("a line of %d characters would wrap: %q", length, line)
		}
	}
}

func TestProgressIsRateLimitedInLog(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	steps := New(&out, terminal.Screen{})
	steps.begin("slow")
	steps.report("at once")
	if out.Len() > 0 {
		t.Errorf("output before the first report: %q", out.String())
	}
	steps.printed = steps.printed.Add(-progress.QuietTime)
	steps.report("later")
	steps.report("later still")
	if want := "step slow: later\n"; out.String() != want {
		t.Errorf("got output %q, want %q", out.String(), want)
	}
}
