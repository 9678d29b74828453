// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package slides

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"lva.io/operators/scripts/checkout/manifest"
)

const root = "../../.."

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func decks(t *testing.T) []string {
	t.Helper()
	all, err := Decks(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func deck(t *testing.T, name string) string {
	t.Helper()
	return read(t, filepath.Join(Source(root), name+".md"))
}

func TestEachLectureHasDeck(t *testing.T) {
	labs, err := manifest.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	all := decks(t)
	for _, lab := range labs.Labs {
		if name := strings.TrimSuffix(filepath.Base(lab.Lecture), ".md"); !slices.Contains(all, name) {
			t.Errorf("the lecture %s has no deck in docs/slides", lab.Lecture)
		}
	}
}

var note = regexp.MustCompile(`<!--\n(\d+) min\.`)

// clock returns when each slide of a deck ends, in minutes. The first value is 0.
func clock(t *testing.T, name string) []int {
	t.Helper()
	ends := []int{0}
	for _, match := range note.FindAllStringSubmatch(deck(t, name), -1) {
		ends = append(ends, ends[len(ends)-1]+number(t, match[1]))
	}
	return ends
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A lecture takes 90 minutes. The note of each slide begins with the slide's share of them.
func TestNotesFillLecture(t *testing.T) {
	for _, name := range decks(t) {
		if ends := clock(t, name); ends[len(ends)-1] != 90 {
			t.Errorf("the notes of %s add up to %d minutes, want 90", name, ends[len(ends)-1])
		}
	}
}

func TestEachDeckHasItsKindsOfSlides(t *testing.T) {
	for _, name := range decks(t) {
		text := deck(t, name)
		for _, class := range []string{"title", "predict", "answer", "demo", "lab", "mistakes"} {
			if !regexp.MustCompile(`<!-- _class: ` + class + `\b`).MatchString(text) {
				t.Errorf("%s has no slide of the class %s", name, class)
			}
		}
	}
}

var (
	shell        = regexp.MustCompile("(?s)```sh\n(.*?)```")
	continuation = regexp.MustCompile(`\s*\\\n\s*`)
	comment      = regexp.MustCompile(`\s+#\s.*`)
	space        = regexp.MustCompile(`\s+`)
)

// plain returns a command without its line breaks, comment and spacing.
func plain(command string) string {
	return strings.TrimSpace(space.ReplaceAllString(comment.ReplaceAllString(command, ""), " "))
}

// An instructor types the commands on a slide. Each must appear in a lecture or a task, whose commands are tested.
func TestCommandsMatchLectures(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"docs/lectures/*.md", "labs/*/README.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for line := range strings.Lines(continuation.ReplaceAllString(read(t, file), " ")) {
				pages = append(pages, plain(line))
			}
		}
	}
	known := strings.Join(pages, "\n")
	for _, name := range decks(t) {
		for _, block := range shell.FindAllStringSubmatch(deck(t, name), -1) {
			for line := range strings.Lines(continuation.ReplaceAllString(block[1], " ")) {
				if command := plain(line); command != "" && !strings.Contains(known, command) {
					t.Errorf("%s shows a command that is in no lecture and in no task: %s", name, command)
				}
			}
		}
	}
}

var (
	slide      = regexp.MustCompile(`(?s)<!-- _class: (lab|mistakes)\b[^>]*-->\n(.*?)\n<!--\n`)
	firstCheck = regexp.MustCompile(`First check: \*\*([a-z0-9-]+)\*\*`)
	lastCell   = regexp.MustCompile("(?m)\\| `([a-z0-9-]+)` \\|$")
)

// A slide must not name a check that no longer exists.
func TestChecksMatchLab(t *testing.T) {
	labs, err := manifest.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, lab := range labs.Labs {
		var ids []string
		for _, check := range lab.Checks {
			if !check.Precondition() {
				ids = append(ids, check.ID)
			}
		}
		name := strings.TrimSuffix(filepath.Base(lab.Lecture), ".md")
		for _, match := range slide.FindAllStringSubmatch(deck(t, name), -1) {
			checks := lastCell.FindAllStringSubmatch(match[2], -1)
			if match[1] == "lab" {
				checks = firstCheck.FindAllStringSubmatch(match[2], -1)
				if len(checks) != 1 || checks[0][1] != ids[0] {
					t.Errorf("%s: the slide of the lab names %v as the first check, want %s", name, checks, ids[0])
				}
			}
			if len(checks) == 0 {
				t.Errorf("%s: the slide of the class %s names no check", name, match[1])
			}
			for _, check := range checks {
				if !slices.Contains(ids, check[1]) {
					t.Errorf("%s names the check %s, which lab %d does not have", name, check[1], lab.Number)
				}
			}
		}
	}
}

// These patterns match a block of code that a marker names.
var (
	slideBreak = regexp.MustCompile(`(?m)^---$`)
	classes    = regexp.MustCompile(`<!-- _class: ([a-z ]+) -->`)
	marked     = regexp.MustCompile("(?s)<!-- code: (\\S+) -->\n```[a-z]*\n(.*?)```\n<!-- /code -->")
)

// Lines of code in a file may be longer than a slide is wide. The limits follow from the sizes in theme.css. Package
// browser measures the slides themselves.
func TestCodeFromFilesFitsItsSlide(t *testing.T) {
	limits := map[string]struct{ columns, lines int }{"": {76, 13}, "small": {92, 17}, "dense": {109, 21}}
	shown := 0
	for _, name := range decks(t) {
		for _, slide := range slideBreak.Split(deck(t, name), -1) {
			size := ""
			if class := classes.FindStringSubmatch(slide); class != nil {
				for one := range strings.FieldsSeq(class[1]) {
					if _, is := limits[one]; is {
						size = one
					}
				}
			}
			lines := 0
			for _, code := range marked.FindAllStringSubmatch(slide, -1) {
				shown++
				for line := range strings.Lines(code[2]) {
					lines++
					line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
					if columns := utf8.RuneCountInString(line); columns > limits[size].columns {
						t.Errorf("%s, %s: a line has %d columns, and the slide's %q class has %d: %s",
							name, code[1], columns, size, limits[size].columns, line)
					}
				}
				if lines > limits[size].lines {
					t.Errorf("%s, %s: %d lines, and the slide's %q class has %d", name, code[1], lines, size, limits[size].lines)
				}
			}
		}
	}
	if shown == 0 {
		t.Error("no deck shows code from a file")
	}
}

// Marp takes every comment for a speaker's note, so Marp must not see the markers.
func TestMarkersAreNotSpeakerNotes(t *testing.T) {
	input, err := copyDecks(decks(t), Source(root), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range decks(t) {
		built := read(t, filepath.Join(input, name+".md"))
		if regexp.MustCompile(`<!--\s*/?code`).MatchString(built) {
			t.Errorf("%s is built with a marker in it", name)
		}
		for _, code := range marked.FindAllStringSubmatch(deck(t, name), -1) {
			if !strings.Contains(built, code[2]) {
				t.Errorf("%s is built without the code of %s", name, code[1])
			}
		}
	}
}

func TestMissingProgramNamesItsPackage(t *testing.T) {
	bin := t.TempDir()
	add := func(name string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	for _, step := range []struct{ missing, advice, then string }{
		{"node", "nodejs", "node"}, {"npm", "npm", "npm"}, {"Chromium", "chromium", "chromium"},
	} {
		_, err := tools(true)
		if err == nil || !strings.Contains(err.Error(), step.missing) || !strings.Contains(err.Error(), step.advice) ||
			strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("without %s: got error %v, want one sentence about what to install", step.missing, err)
		}
		add(step.then)
	}
	if browser, err := tools(true); err != nil || browser != filepath.Join(bin, "chromium") {
		t.Errorf("tools() = %q, %v", browser, err)
	}
}

var planRow = regexp.MustCompile(`(?m)^\| (\d+)–(\d+) \| (\d+)–(\d+) \|`)

// The plan on the instructor's page lists slides and minutes. Both must match the deck.
func TestPlansMatchDecks(t *testing.T) {
	for _, name := range decks(t) {
		ends, next := clock(t, name), 1
		for _, row := range planRow.FindAllStringSubmatch(
			read(t, filepath.Join(root, "docs", "instructor", name+".md")), -1,
		) {
			first, last, from, to := number(t, row[1]), number(t, row[2]), number(t, row[3]), number(t, row[4])
			if first != next || last >= len(ends) || from != ends[first-1] || to != ends[last] {
				t.Errorf("docs/instructor/%s.md has the row %q, which does not follow from the deck", name, row[0])
				break
			}
			next = last + 1
		}
		if next != len(ends) {
			t.Errorf("the plan in docs/instructor/%s.md ends before slide %d of %d", name, next, len(ends)-1)
		}
	}
}
