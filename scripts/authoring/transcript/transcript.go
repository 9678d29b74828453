// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package transcript

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Folder is the folder of the transcripts, relative to the root.
const Folder = "docs/transcripts"

// File returns the transcript of a page, which is given by its path from the root.
func File(page string) string {
	return path.Join(Folder, strings.TrimSuffix(path.Base(page), ".md")+".txt")
}

// Entry is a command and its output.
type Entry struct {
	Command string
	Lines   []string
	// Status is its exit code.
	Status int
	// Interrupted reports that the command ended on Ctrl-C. Status then has no meaning.
	Interrupted bool
}

const (
	wildcard    = "…"
	interrupted = "[interrupted]"
)

// Format formats a transcript. A command begins with "$ ", its other lines with "> ", and the lines of its output with
// two spaces. An exit code other than 0 follows below in brackets.
func Format(page string, entries []Entry) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "# What the commands in %s print. `make verify-docs` compares it; … stands for anything.\n", page)
	for _, entry := range entries {
		out.WriteString("\n$ " + strings.ReplaceAll(entry.Command, "\n", "\n> ") + "\n")
		for _, line := range entry.Lines {
			out.WriteString(strings.TrimRight("  "+line, " ") + "\n")
		}
		switch {
		case entry.Interrupted:
			out.WriteString(interrupted + "\n")
		case entry.Status != 0:
			fmt.Fprintf(&out, "[exit code %d]\n", entry.Status)
		}
	}
	return []byte(out.String())
}

var exitCode = regexp.MustCompile(`^\[exit code (\d+)\]$`)

// Parse reads the output of Format.
func Parse(content []byte) ([]Entry, error) {
	var entries []Entry
	for i, line := range strings.Split(strings.TrimRight(string(content), "\n"), "\n") {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isCommand:
			entries = append(entries, Entry{Command: command})
			continue
		case strings.HasPrefix(line, "#") && len(entries) == 0,
			line == "" && (len(entries) == 0 || len(entries[len(entries)-1].Lines) == 0):
			continue
		case len(entries) == 0:
			return nil, fmt.Errorf("line %d: the first command begins with \"$ \"", i+1)
		}
		entry := &entries[len(entries)-1]
		if more, is := strings.CutPrefix(line, ">"); is {
			entry.Command += "\n" + strings.TrimPrefix(more, " ")
		} else if printed, is := strings.CutPrefix(line, "  "); is || line == "" {
			entry.Lines = append(entry.Lines, printed)
		} else if line == interrupted {
			entry.Interrupted = true
		} else if code := exitCode.FindStringSubmatch(line); code != nil {
			entry.Status, _ = strconv.Atoi(code[1])
		} else {
			return nil, fmt.Errorf("line %d: what a command printed begins with two spaces", i+1)
		}
	}
	for i := range entries {
		entries[i].Lines = trimmed(entries[i].Lines)
	}
	return entries, nil
}

// trimmed removes the empty lines at both ends. In a transcript they look like the space between two commands.
func trimmed(lines []string) []string {
	empty := func(line string) bool { return strings.TrimSpace(line) == "" }
	for len(lines) > 0 && empty(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	for len(lines) > 0 && empty(lines[0]) {
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return nil
	}
	return lines
}

// Load reads the transcript of a page. A page without one has no entries.
func Load(root, page string) ([]Entry, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(File(page))))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", File(page), err)
	}
	return entries, nil
}

// matches reports whether a command printed the lines of the transcript.
func (e Entry) matches(got Entry) bool {
	return e.Command == got.Command && e.Interrupted == got.Interrupted && (e.Interrupted || e.Status == got.Status) &&
		pattern(e.Lines).MatchString(joined(got.Lines))
}

func joined(lines []string) string {
	var out strings.Builder
	for _, line := range trimmed(lines) {
		out.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return out.String()
}

// pattern returns a regular expression that matches the output which the lines of a transcript describe.
func pattern(lines []string) *regexp.Regexp {
	var out strings.Builder
	out.WriteString(`\A`)
	for _, line := range lines {
		if strings.TrimSpace(line) == wildcard {
			out.WriteString(`(?:.*\n)*?`)
		} else {
			out.WriteString(linePattern(line) + `\n`)
		}
	}
	out.WriteString(`\z`)
	return regexp.MustCompile(out.String())
}

func linePattern(line string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(strings.Join(strings.Fields(line), " ")), wildcard, ".*")
}

// volatile lists texts that differ from run to run.
var volatile = []struct {
	found *regexp.Regexp
	shown string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?`), wildcard},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), wildcard},
	{regexp.MustCompile(`(resourceVersion"?: ?"?)\d+`), "${1}" + wildcard},
	{regexp.MustCompile(`\b(127\.0\.0\.1|localhost):\d+`), "${1}:" + wildcard},
	{regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`), wildcard},
	{regexp.MustCompile(`\b\d+(\.\d+)? (milliseconds|s|ms)\b`), wildcard + " ${2}"},
	// These are ages in kubectl's tables, and generated names.
	{regexp.MustCompile(`(^|\s{2,})(\d+[smhd])+(\s|$)`), "${1}" + wildcard + "${3}"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?\b`), "-" + wildcard},
	{regexp.MustCompile(`\bi-[a-z2-7]{12}\b`), "i-" + wildcard}, // an instance in the cloud
	// Log lines of client-go begin with the time and the process.
	{regexp.MustCompile(`^([IWE])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `), "${1}" + wildcard + " "},
	{regexp.MustCompile(`milliseconds=\d+`), "milliseconds=" + wildcard},
}

var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{60,}=*`)

// recorded returns an entry as it is stored, without texts that differ from run to run.
func (e Entry) recorded() Entry {
	lines := make([]string, len(e.Lines))
	for i, line := range e.Lines {
		for _, part := range volatile {
			line = part.found.ReplaceAllString(line, part.shown)
		}
		line = encoded.ReplaceAllStringFunc(line, func(found string) string {
			if strings.ContainsAny(found, "0123456789") {
				return wildcard
			}
			return found // a path
		})
		lines[i] = strings.TrimRight(line, " \t")
	}
	e.Lines = lines
	return e
}

// shows returns the first line of a printed block that is not in the entries, or is out of order. It is empty if all
// lines are there. A … on either side matches any text.
func shows(printed []string, entries []Entry) string {
	var have []string
	for _, entry := range entries {
		have = append(have, strings.Split(entry.Command, "\n")...)
		have = append(have, entry.Lines...)
	}
	for _, line := range printed {
		if line = strings.TrimSpace(line); line == wildcard || line == "" {
			continue
		}
		line = strings.TrimPrefix(line, "$ ") // a command with its output
		for len(have) > 0 && !linesMatch(line, have[0]) {
			have = have[1:]
		}
		if len(have) == 0 {
			return line
		}
		have = have[1:]
	}
	return ""
}

func linesMatch(a, b string) bool {
	is := func(pattern, line string) bool {
		return regexp.MustCompile(`\A` + linePattern(pattern) + `\z`).MatchString(strings.Join(strings.Fields(line), " "))
	}
	return is(a, b) || is(b, a)
}
