// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"lva.io/operators/scripts/grading/report"
)

// Page is the page that shows the records to people. Records is the file that has them for other machines. Both are
// relative to the root of the checkout.
const (
	Page    = "docs/proof.md"
	Records = "docs/proof.json"
)

// Unproven are Git pathspecs for all files except those that the proof itself writes, which decide nothing.
var Unproven = []string{".", ":(exclude)" + Page, ":(exclude)" + Records}

// writePage writes the page and the records of all parts.
func (p *proving) writePage(ctx context.Context) error {
	all, err := states(ctx, p.runner, p.Root, p.Parts, p.Store)
	if err != nil {
		return err
	}
	if err := report.WriteFile(filepath.Join(p.Root, filepath.FromSlash(Page)), []byte(page(all))); err != nil {
		return fmt.Errorf("writing %s: %w", Page, err)
	}
	records := []*Record{}
	for _, state := range all {
		if state.Record != nil {
			records = append(records, state.Record)
		}
	}
	content, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}
	if err := report.WriteFile(filepath.Join(p.Root, filepath.FromSlash(Records)), append(content, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", Records, err)
	}
	return nil
}

// page returns the text of the page.
func page(all []State) string {
	var text, reasons strings.Builder
	text.WriteString(`# What is proven

` + "`make prove`" + ` wrote this page and proof.json from its records. Do not edit them. The gate, ` + "`make test`" + `,
decides whether a change is sound. The proof decides whether the graders, the node and kind keep all their promises:
[decision 32](decisions/0032-gate-and-proof.md).

| part | what it proves | proved | result | commit | date | took | machine |
|---|---|---|---|---|---|---|---|
`)
	for _, state := range all {
		r := state.Record
		if r == nil {
			r = &Record{}
		}
		date, seconds := "", ""
		if r.Commit != "" {
			date, seconds = r.Date.Format("2006-01-02 15:04"), fmt.Sprintf("%.0f s", r.Seconds)
		}
		cells := []string{state.Part.Name, state.Part.Proves, r.Proved, state.Verdict(), r.Commit, date, seconds, r.Machine}
		text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if r.Reason != "" {
			fmt.Fprintf(&reasons, "\n%s:\n\n```text\n%s\n```\n", r.Part, r.Reason)
		}
	}
	text.WriteString(`
Dates are in UTC. A part is stale if files that decide it have changed since. With ` + "`+changes`" +
		` the work tree differed from the commit.
`)
	if reasons.Len() > 0 {
		text.WriteString("\n## Why parts are not proven\n" + reasons.String())
	}
	return text.String()
}

// Verdict describes the state of the part in a few words.
func (s State) Verdict() string {
	r := s.Record
	if r == nil {
		return "never run"
	}
	text := string(r.Result)
	if r.Inputs != s.Inputs {
		text += ", stale"
	}
	if r.Result != Proven && r.LastProven != nil {
		text += fmt.Sprintf("; last proven with %s on %s", r.LastProven.Commit, r.LastProven.Date.Format("2006-01-02"))
	}
	return text
}

// reason returns the last lines of an output, for the record. It removes colours, and paths of this machine.
func (p *proving) reason(output string, failure error) string {
	text := plain(lastLines(output, kept))
	if _, isVerdict := errors.AsType[*verdict](failure); isVerdict || text == "" {
		text = strings.TrimSpace(failure.Error() + "\n" + text)
	}
	text = strings.ReplaceAll(text, p.Root, ".")
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		text = strings.ReplaceAll(text, home, "~")
	}
	return strings.ReplaceAll(ofTheMachine.ReplaceAllString(text, "$1…/"), "```", "'''")
}

var (
	// ofTheMachine matches the folders of an absolute path.
	ofTheMachine = regexp.MustCompile(`(^|[\s"'=(:])/(?:[\w.+@-]+/)+`)
	// colours matches characters that programs write only for terminals.
	colours = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f]`)
)

// plain returns an output without characters for terminals.
func plain(text string) string { return colours.ReplaceAllString(text, "") }

// lastLines returns the last non-empty lines of a text.
func lastLines(text string, n int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(plain(line), " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func indented(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }
