// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package operatorlog

import "strings"

// Bulk is the kind of lines that takes up most of a log. Lines are of the same kind if they begin with the same text,
// apart from names and numbers. All long lines that are not messages are of the same kind.
type Bulk struct {
	// Text is the beginning of the first of them, or of its message if it has one.
	Text string
	// Count is the number of lines, Bytes their total size, and Longest the size of the longest.
	Count, Bytes, Longest int
	// Problem is true if the lines are problems that Findings reports: errors of Reconcile, or panics.
	Problem bool
	// Long is true for long lines that are neither errors of Reconcile nor panics.
	Long bool
}

const (
	// textLimit is how much of a line determines its kind, in bytes.
	textLimit = 100
	// headLimit is the last position in a line, in bytes, at which its message may begin. Output that an operator prints
	// without a newline is on the same line as the next message, before it.
	headLimit = 1 << 10
	// longLine is the length, in bytes, from which a line counts as long.
	longLine = 4 << 10
	// recordLimit is how long a message can be, in bytes.
	recordLimit = 64 << 10
)

// BulkOf returns the kind of lines that takes up most of a log.
func BulkOf(log string) (most Bulk) {
	kinds := map[string]*Bulk{}
	for line := range strings.Lines(log) {
		text := strings.TrimRight(line, "\n")
		if len(line) < recordLimit {
			if message := parse(text).message; strings.Index(text, message) < headLimit {
				text = message
			}
		}
		text = strings.ToValidUTF8(text[:min(len(text), textLimit)], "")
		problem := strings.Contains(text, "Reconciler error") || strings.Contains(text, observed)
		key, long := changing.ReplaceAllString(text, "…"), len(line) > longLine && !problem
		if long {
			key = "\n" // no line contains it
		}
		if kinds[key] == nil {
			kinds[key] = &Bulk{Text: text, Problem: problem, Long: long}
		}
		kind := kinds[key]
		kind.Count, kind.Bytes, kind.Longest = kind.Count+1, kind.Bytes+len(line), max(kind.Longest, len(line))
		if kind.Bytes > most.Bytes {
			most = *kind
		}
	}
	return most
}
