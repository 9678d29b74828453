// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/grading/report"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

var (
	plain    = Screen{}
	columns  = func(n int) Screen { return Screen{Interactive: true, Width: n, Unicode: true} }
	commands = Commands{
		Hint: "make hint-2", Read: func(string) string { return "make read-2" },
		Grade: "make lab-2", Torture: "make torture-2", Next: "make lab-3",
	}
)

func options(screen Screen) Options {
	return Options{
		Screen: &screen, Commands: commands, File: "out/02-reconciler/report.json",
		Page: "out/02-reconciler/report.html", OperatorLog: "out/02-reconciler/operator.log",
	}
}

// reports returns the golden reports of package report, at least one for each outcome.
func reports(t *testing.T) map[string]*report.Report {
	t.Helper()
	files, err := filepath.Glob("../testdata/*.json")
	if err != nil || len(files) < len(report.Outcomes) {
		t.Fatalf("found the reports %v (%v), want one for each outcome", files, err)
	}
	all := map[string]*report.Report{}
	for _, file := range files {
		r, err := report.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = r
	}
	return all
}

func render(t *testing.T, r *report.Report, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Render(&out, r, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestGoldenViews(t *testing.T) {
	t.Parallel()
	for name, r := range reports(t) {
		for variant, screen := range map[string]Screen{"plain": plain, "80": columns(80), "120": columns(120)} {
			t.Run(name+" "+variant, func(t *testing.T) {
				t.Parallel()
				golden(t, name+"."+variant+".txt", render(t, r, options(screen)))
			})
		}
	}
	failed := reports(t)["graded-failed"]
	golden(t, "colour.80.txt", strings.ReplaceAll(
		render(t, failed, options(Screen{Interactive: true, Width: 80, Unicode: true, Color: true})), "\x1b", `\e`))
	golden(t, "ascii.80.txt", render(t, failed, options(Screen{Interactive: true, Width: 80})))
}

func TestLinesFitTheScreen(t *testing.T) {
	t.Parallel()
	for name, r := range reports(t) {
		for _, width := range []int{50, 64, 80, 99, 100, 120, 250} {
			for line := range strings.SplitSeq(render(t, r, options(columns(width))), "\n") {
				// Markers and positions are never wrapped, so that they can be copied.
				if strings.Contains(line, "//+kubebuilder") || strings.Contains(line, ".go:") {
					continue
				}
				if got := lipgloss.Width(line); got >= width {
					t.Errorf("%s at %d columns has a line of %d: %q", name, width, got, line)
				}
				if line != strings.TrimRight(line, " ") {
					t.Errorf("%s at %d columns has trailing spaces: %q", name, width, line)
				}
			}
		}
	}
}

func TestPointsAreAligned(t *testing.T) {
	t.Parallel()
	for _, width := range []int{60, 80, 120} {
		ends := map[int]bool{}
		n := 0
		for line := range strings.SplitSeq(render(t, reports(t)["graded-failed"], options(columns(width))), "\n") {
			for _, points := range []string{"10/10", " 5/5", " 0/10", " 0/5"} {
				if before, _, found := strings.Cut(line, points); found {
					ends[lipgloss.Width(before+points)] = true
					n++
					break
				}
			}
		}
		if n != 13 || len(ends) != 1 {
			t.Errorf("at %d columns, the points of %d checks end in the columns %v, want 13 in one", width, n, ends)
		}
	}
}

// In a pipe, each line begins with a keyword, so that scripts and people can grep.
func TestPlainLinesHaveKeywords(t *testing.T) {
	t.Parallel()
	words := []string{
		"lab ", "step ", "ok ", "FAIL ", "skip ", "fix first: ", "also failed: ",
		"files: ", "expected: ", "observed: ", "evidence: ", "lecture: ",
		"hint: ", "read: ", "forbidden: ", "notice: ", "measured ", "seed: ", "outcome: ", "reason: ", "error: ", "log: ",
		"    ", "none of ",
	}
	for name, r := range reports(t) {
		text := render(t, r, options(plain))
		if strings.Contains(text, "\x1b") || strings.Contains(text, "\r") {
			t.Errorf("%s: text is not plain", name)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		want := fmt.Sprintf("%d of %d points; ", r.Score, r.MaxScore)
		if r.Inconclusive() {
			want = "no grade; "
		}
		if !strings.HasPrefix(lines[len(lines)-1], want) {
			t.Errorf("%s: last line is %q, want it to begin with %q", name, lines[len(lines)-1], want)
		}
		for _, line := range lines[:len(lines)-2] {
			if line != "" && !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(line, word) }) {
				t.Errorf("%s: line %q begins with no keyword", name, line)
			}
		}
	}
}

func TestControlCharactersAreRemoved(t *testing.T) {
	t.Parallel()
	r := *reports(t)["graded-failed"]
	r.Title = "a\x1b[2Jb"
	r.Checks = slices.Clone(r.Checks)
	r.Checks[2].Observed = "\x1b]0;owned\x07\r\x00x"
	r.Notices = []string{"\u009b31mred"}
	for _, screen := range []Screen{plain, columns(80)} {
		if text := render(t, &r, options(screen)); strings.ContainsAny(text, "\x1b\x07\r\x00\u009b") {
			t.Errorf("control characters reach the screen: %q", text)
		}
	}
	var out bytes.Buffer
	live := newLive(&out, &r, options(plain), time.Now)
	live.StepDone("a\x1b[2J", time.Second, "b\x1b[2J")
	live.CheckDone(r.Checks[2])
	live.Close()
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("control characters reach the screen: %q", out.String())
	}
}

// The output must not suggest a command that the caller did not pass.
func TestNoSuggestionsWithoutCommands(t *testing.T) {
	t.Parallel()
	for name, r := range reports(t) {
		for _, screen := range []Screen{plain, columns(80)} {
			text := render(t, r, Options{Screen: &screen})
			for _, word := range []string{
				"make hint", "make read", "make lab", "make torture", "files:", "lab hint", "then  ", "hint:", "next ",
			} {
				if strings.Contains(text, word) {
					t.Errorf("%s suggests %q", name, word)
				}
			}
		}
	}
}

func TestVerdictOmitsCheckLines(t *testing.T) {
	t.Parallel()
	for name, r := range reports(t) {
		for _, screen := range []Screen{plain, columns(80)} {
			var verdict bytes.Buffer
			if err := Verdict(&verdict, r, options(screen)); err != nil {
				t.Fatal(err)
			}
			p := newPage(screen, r.Checks)
			for i := range r.Checks {
				if line := p.check(&r.Checks[i]); strings.Contains(verdict.String(), line) {
					t.Errorf("%s repeats %q", name, line)
				}
			}
			if !strings.HasSuffix(render(t, r, options(screen)), verdict.String()) {
				t.Errorf("%s: a stored report does not end with the verdict", name)
			}
		}
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	environment := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	if got := Detect(&bytes.Buffer{}, environment()); got != plain {
		t.Errorf("Detect() of a buffer = %+v, want plain", got)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := Detect(file, environment("TERM", "xterm")); got != plain {
		t.Errorf("Detect() of a file = %+v, want plain", got)
	}
	for _, test := range []struct {
		name   string
		getenv func(string) string
		want   Screen
	}{
		{"nothing set", environment(), Screen{true, 90, true, true}},
		{"UTF-8", environment("LANG", "de_DE.UTF-8"), Screen{true, 90, true, true}},
		{"utf8", environment("LC_ALL", "C.utf8", "LANG", "C"), Screen{true, 90, true, true}},
		{"another encoding", environment("LANG", "de_DE.ISO-8859-1"), Screen{true, 90, true, false}},
		{"LC_ALL before LANG", environment("LC_ALL", "C", "LANG", "de_DE.UTF-8"), Screen{true, 90, true, false}},
		{"the kernel's console", environment("TERM", "linux", "LANG", "C.UTF-8"), Screen{true, 90, true, false}},
		{"NO_COLOR", environment("NO_COLOR", "1"), Screen{true, 90, false, true}},
		{"an empty NO_COLOR", environment("NO_COLOR", ""), Screen{true, 90, true, true}},
		{"a dumb terminal", environment("TERM", "dumb"), plain},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := fromEnvironment(90, test.getenv); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		width      int
		want       []string
	}{
		{"short", "a b", 20, []string{"a b"}},
		{"empty", "", 20, []string{""}},
		{"at a space", "aaaaaaaaaa bbbbbbbbbb cc", 20, []string{"aaaaaaaaaa", "bbbbbbbbbb cc"}},
		{"just fitting", "aaaaaaaaa bbbbbbbbbb cc", 20, []string{"aaaaaaaaa bbbbbbbbbb", "cc"}},
		{"a long word", strings.Repeat("x", 45), 20, []string{strings.Repeat("x", 20), strings.Repeat("x", 20), "xxxxx"}},
		{"inner spaces are kept", "GET   a   200", 20, []string{"GET   a   200"}},
		{"indentation is repeated", "  aaaaaaaaaa bbbbbbbbbb", 20, []string{"  aaaaaaaaaa", "  bbbbbbbbbb"}},
		{
			"an indented long word", "  " + strings.Repeat("x", 30), 20,
			[]string{"  " + strings.Repeat("x", 18), "  " + strings.Repeat("x", 12)},
		},
		{"lines", "a\nb", 20, []string{"a", "b"}},
		{"wide characters", strings.Repeat("冰", 12), 20, []string{strings.Repeat("冰", 10), "冰冰"}},
		{"only spaces", strings.Repeat(" ", 30), 20, []string{"", strings.Repeat(" ", 10)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, wrap(test.text, test.width)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	p := newPage(Screen{Interactive: true, Width: 80}, nil)
	for _, test := range []struct {
		score, maxScore int
		want            string
	}{
		{0, 100, ".........."},
		{1, 100, ".........."},
		{50, 100, "#####....."},
		{99, 100, "#########."},
		{100, 100, "##########"},
		{0, 0, ".........."},
		{120, 100, "##########"},
	} {
		if got := p.bar(test.score, test.maxScore, 10); got != test.want {
			t.Errorf("bar of %d of %d is %q, want %q", test.score, test.maxScore, got, test.want)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; `go test -update` rewrites it):\n%s", file, diff)
	}
}
