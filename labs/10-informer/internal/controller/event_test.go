// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The API server refuses an Event with a longer note.
func TestTheNoteOfAnEventIsShortEnough(t *testing.T) {
	for _, message := range []string{"", "The port is taken", strings.Repeat("x", noteLimit)} {
		if got := note(message); got != message {
			t.Errorf("a note of %d bytes was changed to %q", len(message), got)
		}
	}
	for _, long := range []string{
		strings.Repeat("x", noteLimit+1), strings.Repeat("ä", noteLimit), "x" + strings.Repeat("ä", noteLimit),
	} {
		got := note(long)
		if len(got) > noteLimit || len(got) < noteLimit-4 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("a note of %d bytes became one of %d: %q", len(long), len(got), got)
		}
	}
}
