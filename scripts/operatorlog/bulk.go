// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package operatorlog

import "strings"

// Bulk is the kind of lines that takes most of a log. Lines are of one kind if they begin with the same text, but for
// names and numbers.
type Bulk struct {
	// Text is the beginning of the first of them: the message, where it has one.
	Text string
	// Count is how many there are, Bytes how much they take together, and Longest how much the longest of them does.
	Count, Bytes, Longest int
	// Trouble is true if they are what Findings tell of: errors of Reconcile, or panics.
	Trouble bool
}

// textLimit is how much of a line tells its kind, in bytes.
const textLimit = 100

// BulkOf finds what takes most of a log.
func BulkOf(log string) (most Bulk) {
	kinds := map[string]*Bulk{}
	for line := range strings.Lines(log) {
		text := line
		if len(line) < 1<<16 { // a longer one is no record
			text = parse(strings.TrimRight(line, "\n")).message
		}
		text = strings.ToValidUTF8(text[:min(len(text), textLimit)], "")
		key := changing.ReplaceAllString(text, "…")
		if kinds[key] == nil {
			kinds[key] = &Bulk{Text: text, Trouble: strings.Contains(text, "Reconciler error") || strings.Contains(text, observed)}
		}
		kind := kinds[key]
		kind.Count, kind.Bytes, kind.Longest = kind.Count+1, kind.Bytes+len(line), max(kind.Longest, len(line))
		if kind.Bytes > most.Bytes {
			most = *kind
		}
	}
	return most
}
