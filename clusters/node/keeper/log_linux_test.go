// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper_test

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"lva.io/operators/clusters/node/keeper"
)

func TestLogLinesHaveTheirStream(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `echo one; echo two >&2; printf three`)
	wait(ctx, t, c, id)
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	line := `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z `
	for _, want := range []string{"stdout F one", "stderr F two", "stdout P three"} {
		if !regexp.MustCompile(`(?m)^` + line + want + `$`).Match(content) {
			t.Errorf("%q is missing from\n%s", want, content)
		}
	}
}

func TestLogIsCompleteWhenContainerExits(t *testing.T) {
	c, ctx := client(t)
	const lines = 50_000
	id, log := start(ctx, t, c, fmt.Sprintf(`seq %d`, lines))
	wait(ctx, t, c, id)
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		if want := fmt.Sprintf(" stdout F %d\n", number); !strings.HasSuffix(line, want) {
			t.Fatalf("line %d of the log is %q", number, line)
		}
	}
	if number != lines {
		t.Errorf("the log has %d lines, want %d", number, lines)
	}
}

func TestLongLineIsSplit(t *testing.T) {
	c, ctx := client(t)
	const length = 100_000
	id, log := start(ctx, t, c, fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo; echo end`, length))
	wait(ctx, t, c, id)
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if found := strings.Count(string(content), "x"); found != length {
		t.Errorf("found %d characters in the log, want %d", found, length)
	}
	if !strings.Contains(string(content), " stdout P x") || !strings.HasSuffix(string(content), " stdout F end\n") {
		t.Errorf("the long line was not split, or the last line is missing")
	}
}

func TestReopenSwitchesToNewLogFile(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `echo before; read line; echo after`, func(s *keeper.Start) { s.Stdin = true })
	await(ctx, t, "the first line", func() bool { return contains(log, "before") })
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Reopen(ctx, id, log); err != nil {
		t.Fatal(err)
	}
	if err := c.Attach(ctx, id, strings.NewReader("go\n"), io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, id)
	if !contains(log, "after") || contains(log, "before") || !contains(log+".1", "before") {
		t.Error("the lines are not in the expected files")
	}
}

func TestFullLogBlocksProgramUntilReopen(t *testing.T) {
	c, ctx := client(t)
	const longest, more = 128 << 20, 1 << 20
	id, log := start(ctx, t, c, fmt.Sprintf(`yes $(printf %%01000d 0) | head -c %d; echo; echo end`, longest+20*more))
	length := func(file string) int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	await(ctx, t, "a long file", func() bool { return length(log) >= longest })
	// The measuring comes after the reading, which takes longer than writing the rest.
	if contains(log, "end") || length(log) > longest+more {
		t.Errorf("the file has %d bytes, want at most the limit, without the end", length(log))
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Reopen(ctx, id, log); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, id)
	if !contains(log, "F end\n") || length(log) > 40*more { // with the prefixes of the lines
		t.Errorf("the new file has %d bytes, want fewer, with the end", length(log))
	}

	// A program that is killed while it waits for room in its log ends.
	s := keeper.Start{ID: t.Name() + "-killed", Spec: shell(t, `exec yes $(printf %01000d 0)`), Log: log + ".2"}
	if _, err := c.Start(ctx, s); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "a long file", func() bool { return length(s.Log) >= longest })
	if err := c.Kill(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if state := wait(ctx, t, c, s.ID); state.Code != 137 {
		t.Errorf("Wait() = %+v, want exit code 137", state)
	}
	if err := c.Forget(ctx, s.ID); err != nil {
		t.Error(err)
	}
}
