// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package transcript

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/clusters/process"
)

const name = "docs/lectures/01-toys.md"

func write(t *testing.T, root, file, content string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A page is written with ~ instead of backquotes.
func page(t *testing.T, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	write(t, root, name, strings.ReplaceAll(text, "~", "`"))
	return root
}

func TestParseBlocksWithMarkers(t *testing.T) {
	t.Parallel()
	root := page(t, `# Toys

<!-- run before:
make run-2 &
until ready; do sleep 1; done
-->
<!-- interrupt -->
~~~sh
say() { echo "$1"; }   # a function

say hello; say goodbye # twice
cat <<'END' | wc -l
$ not a command
END
watch it
~~~

It prints

<!-- printed -->
~~~
hello
~~~

~~~go
x := 1
~~~

1. In a list:

   <!-- not run: it needs a registry -->
   ~~~sh
   docker push (image)
   ~~~
`)
	blocks, err := Blocks(root, name)
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{
			Page: name, Line: 9, Before: "make run-2 &\nuntil ready; do sleep 1; done", Interrupt: true,
			Commands: []string{
				`say() { echo "$1"; }   # a function`, "say hello;", "say goodbye # twice",
				"cat <<'END' | wc -l\n$ not a command\nEND", "watch it",
			},
			Printed: []Printed{{Line: 22, Lines: []string{"hello"}}},
		},
		{Page: name, Line: 33, NotRun: "it needs a registry"},
	}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Error(diff)
	}
}

func TestMarkerErrorsHaveLineNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"<!-- not run -->\n~~~sh\ntrue\n~~~", ":1: write <!-- not run: the reason -->"},
		{"<!-- interrupt -->\n\nNext.\n", ":1: <!-- interrupt --> must stand directly above a block"},
		{"<!-- printed -->\n~~~\nx\n~~~", ":3: this block shows output, but no block of commands precedes"},
		{"~~~sh\nif true\n~~~", ":2: the shell does not understand this block"},
		{"<!-- not run: no -->\n~~~sh\ntrue\n~~~\n\n<!-- printed -->\n~~~\nx\n~~~", ":8: the commands above are not run"},
		{"<!-- run before: true -->\n~~~go\nx\n~~~", ":1: <!-- run before --> must stand directly above"},
		{
			"~~~sh\ntrue\n~~~\n\n<!-- printed -->\n<!-- printed -->\n~~~\nx\n~~~\n\nEnd.",
			":5: <!-- printed --> must stand directly above",
		},
	} {
		_, err := Blocks(page(t, c.text), name)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

func TestTranscriptRoundTrip(t *testing.T) {
	t.Parallel()
	entries := []Entry{
		{Command: "true"},
		{Command: "cat <<END\n\n> x\nEND", Lines: []string{"> x", "", "$ y", "[exit code 3]", "  indented"}},
		{Command: "false # fails", Lines: []string{"no"}, Status: 1},
		{Command: "watch", Interrupted: true},
	}
	got, err := Parse(Format(name, entries))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entries, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Parse([]byte("$ true\nno spaces\n")); err == nil {
		t.Error("Parse() accepted a line without two spaces")
	}
}

func TestVaryingOutputMatches(t *testing.T) {
	t.Parallel()
	entry := func(lines ...string) Entry { return Entry{Command: "x", Lines: lines} }
	for _, c := range []struct {
		want, got Entry
		match     bool
	}{
		{entry("NAME   AGE", "a  …"), entry("NAME AGE", "a      3s"), true},
		{entry("a"), entry("a", ""), true},
		{entry("a"), entry("a", "b"), false},
		{entry("a", "…", "b"), entry("a", "b"), true},
		{entry("a", "…", "b"), entry("a", "x", "", "b"), true},
		{entry("a", "…", "b"), entry("a", "x"), false},
		{entry("a … b"), entry("a", "b"), false}, // … stays within a line
		{entry("a.c"), entry("abc"), false},
		{entry("a"), Entry{Command: "x", Lines: []string{"a"}, Status: 1}, false},
		{Entry{Command: "x", Interrupted: true}, entry(), false},
		{entry("a"), Entry{Command: "y", Lines: []string{"a"}}, false},
	} {
		if got := c.want.matches(c.got); got != c.match {
			t.Errorf("%q matches %q: %v", c.want.Lines, c.got.Lines, got)
		}
	}
}

// A recorded transcript must match the run that it was recorded from.
func TestRecordedEntryMatchesItsRun(t *testing.T) {
	t.Parallel()
	got := Entry{Command: "x", Lines: []string{
		"NAME                       READY   AGE", "web-6d4cf56db6-x2v9k       1/1     4m12s",
		"web-6d4cf56db6             1/1     12s",
		"  uid: 9a6fb6f2-6b0a-4d43-9a46-2bb7a0d9f7b1", `  resourceVersion: "412"`,
		"created: 2026-11-30T11:40:29Z, at 127.0.0.1:45991 in 12 milliseconds",
		`I1130 12:12:28.986467   22890 round_trippers.go:632] "Response" milliseconds=31`,
		"https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
		"token: " + strings.Repeat("aB3", 30) + "==",
	}}
	kept := got.recorded()
	if !kept.matches(got) {
		t.Errorf("%q does not match %q", kept.Lines, got.Lines)
	}
	want := []string{
		"NAME                       READY   AGE", "web-…       1/1     …", "web-…             1/1     …",
		"  uid: …", `  resourceVersion: "…"`, "created: …, at 127.0.0.1:… in … milliseconds",
		`I… round_trippers.go:632] "Response" milliseconds=…`,
		"https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
		"token: …",
	}
	if diff := cmp.Diff(want, kept.Lines); diff != "" {
		t.Error(diff)
	}
}

func TestPagesAreComparedWithTheirTranscripts(t *testing.T) {
	t.Parallel()
	const text = "~~~sh\necho a; echo b\nfalse\n~~~\n\n<!-- printed -->\n~~~\nb\n…\n~~~\n"
	right := Format(name, []Entry{
		{Command: "echo a;", Lines: []string{"a"}}, {Command: "echo b", Lines: []string{"b"}}, {Command: "false", Status: 1},
	})
	for what, c := range map[string]struct{ transcript, want string }{
		"right":         {string(right), ""},
		"no transcript": {"", ":2: docs/transcripts/01-toys.txt has other commands"},
		"another command": {
			strings.ReplaceAll(string(right), "$ false", "$ true"), ":2: docs/transcripts/01-toys.txt has other commands",
		},
		"one more": {string(right) + "\n$ true\n", "has a command that the page does not have: true"},
		"other output": {
			strings.ReplaceAll(string(right), "  b", "  c"),
			":8: the commands above do not print this line here, " +
				"docs/transcripts/01-toys.txt has: b",
		},
	} {
		root := page(t, text)
		write(t, root, File(name), c.transcript)
		err := Check(root)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
	}
}

func TestRecordAndComparePage(t *testing.T) {
	t.Parallel()
	root := page(t, "<!-- run before: x=$(date +%N) -->\n~~~sh\necho \"$x of $HOME\"; pwd\nfalse\n~~~\n\n"+
		"<!-- not run: no -->\n~~~sh\nexit 1\n~~~\n")
	run := func(options Options) (string, error) {
		t.Helper()
		var out strings.Builder
		cleaned := 0
		options.Root, options.Pages, options.Out = root, []string{name}, &out
		options.Clean = func() error { cleaned++; return nil }
		err := Run(t.Context(), options)
		if cleaned != 1 {
			t.Errorf("Clean was called %d times, want 1", cleaned)
		}
		return out.String(), err
	}
	if _, err := run(Options{Record: true}); err != nil {
		t.Fatal(err)
	}
	entries, err := Load(root, name)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 || !strings.HasSuffix(entries[0].Lines[0], " of …") ||
		!cmp.Equal(entries[1].Lines, []string{"…"}) || entries[2].Status != 1 {
		t.Fatalf("recorded: %+v", entries)
	}
	out, err := run(Options{})
	if err == nil || !strings.Contains(out, "the page's transcript has:\n$ echo") || strings.Contains(out, "$ pwd") {
		t.Errorf("a different number was accepted: %v\n%s", err, out)
	}
	entries[0].Lines[0] = "… of …"
	write(t, root, File(name), string(Format(name, entries)))
	if out, err := run(Options{}); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// Entries that still match stay unchanged.
	if _, err := run(Options{Record: true}); err != nil {
		t.Fatal(err)
	}
	if again, err := Load(root, name); err != nil || !cmp.Equal(again, entries) {
		t.Errorf("recorded again: %+v, %v", again, err)
	}
}

func TestPageThatLeavesFileFails(t *testing.T) {
	t.Parallel()
	root := page(t, "~~~sh\ntouch left\n~~~\n")
	var out strings.Builder
	err := Run(t.Context(), Options{
		Root: root, Pages: []string{name}, Record: true, Out: &out, Clean: func() error { return nil },
	})
	if err == nil || !strings.Contains(out.String(), "the page leaves left at the root") {
		t.Errorf("got %v\n%s", err, out.String())
	}
	if _, err := os.Stat(filepath.Join(root, "left")); err != nil {
		t.Errorf("tidy removed a file: %v", err)
	}
}

func TestShellRunsCommandsInOrder(t *testing.T) {
	t.Parallel()
	sh := start(t)
	for _, c := range []struct {
		want      Entry
		interrupt bool
	}{
		{want: Entry{Command: "x=1 # a comment"}},
		{want: Entry{Command: "echo $x; echo to stderr >&2; (exit 3)", Lines: []string{"1", "to stderr"}, Status: 3}},
		{want: Entry{
			Command: `echo 'E1130 13:05:52.280596   21634 reflector.go:227] "Failed to watch" ` +
				`err="Get \"https://x\": context canceled" reflector="y"' >&2; echo met`,
			Lines: []string{"met"},
		}},
		{want: Entry{Command: "cat <<'END'\n$x\n\nEND", Lines: []string{"$x"}}},
		{want: Entry{Command: "cat; printf 'no newline'", Lines: []string{"no newline"}}}, // standard input is empty
		{want: Entry{Command: "f() { sleep 600; }; f", Interrupted: true}, interrupt: true},
		{want: Entry{Command: "while sleep 0.02; do sleep 600; done # a loop", Interrupted: true}, interrupt: true},
		{want: Entry{Command: "sleep 600 & echo started", Lines: []string{"started"}}},
		{want: Entry{Command: "sleep 600", Interrupted: true}, interrupt: true}, // and not what runs in the background
		{want: Entry{Command: "kill -0 %1"}},
		{want: Entry{Command: "kill %1; wait; echo $x", Lines: []string{"1"}}},
	} {
		got, err := sh.run(t.Context(), c.want.Command, c.interrupt)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(c.want.Command, "kill") && len(got.Lines) > 0 {
			got.Lines = got.Lines[len(got.Lines)-1:] // the message of bash about the killed job
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := sh.run(t.Context(), "exit 1", false); err == nil {
		t.Error("run() returned no error although the shell ended")
	}
}

// make verify-docs and make prove set variables for the programs that make runs. The commands of a page must not see
// these variables.
func TestMakeVariablesAreNotInherited(t *testing.T) {
	t.Setenv("MAKELEVEL", "1")
	t.Setenv("MAKEFLAGS", "w")
	env, err := (&Options{Root: t.TempDir()}).environment(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range env {
		if strings.HasPrefix(variable, "MAKE") {
			t.Errorf("the environment of a page's commands has %s", variable)
		}
	}
}

func TestPageCanStartSolution(t *testing.T) {
	t.Parallel()
	sh := start(t)
	for _, want := range []Entry{
		{
			Command: `lab() { echo "$*"; sleep 1; echo Starting workers; sleep 600; }; solution 8; cat run.log`,
			Lines:   []string{"run 8 --solution", "Starting workers"},
		},
		{
			Command: `lab() { echo "$* has failed"; return 2; }; solution 8`,
			Lines:   []string{"run 8 --solution has failed"}, Status: 1,
		},
	} {
		want.Command = "HOME=$PWD; " + want.Command
		got, err := sh.run(t.Context(), want.Command, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCommandEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := start(t).run(ctx, "sleep 600", false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func start(t *testing.T) *shell {
	t.Helper()
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scope.Close() })
	sh, err := newShell(scope, t.TempDir(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return sh
}
