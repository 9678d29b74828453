// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// columns is the maximum width of a line in the speech bubble.
const columns = 40

// cow stands below the end of the bubble's tail.
const cow = `
      \
       \   __   __
        \ (  \_/  )____________________
           ( o o )                     \_
           |     |    ###        ##    | \
            ( .. )    ##        ###    |  \
             '--' |                    |   @
                  |  ________________  |
                  | | |    u u     | | |
                  |_|_|            |_|_|
`

// say draws the cow and what it says. It wraps the words of the greeting, regardless of the white space between them.
func say(greeting string) string {
	lines := wrap(printable(greeting), columns)
	width := 0
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
	}
	var drawn strings.Builder
	drawn.WriteString(" ." + strings.Repeat("-", width+2) + ".\n")
	for _, line := range lines {
		drawn.WriteString(" | " + line + strings.Repeat(" ", width-utf8.RuneCountInString(line)) + " |\n")
	}
	drawn.WriteString(" '" + strings.Repeat("-", width+2) + "'")
	return drawn.String() + cow
}

// printable replaces characters that a terminal would obey instead of show, because the author of a greeting is not its
// reader.
func printable(greeting string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return r
		}
		return unicode.ReplacementChar
	}, greeting)
}

// wrap breaks a text between words, so that no line has more than width characters. A longer word is cut.
func wrap(text string, width int) []string {
	var lines []string
	var line []rune
	for field := range strings.FieldsSeq(text) {
		word := []rune(field)
		if len(line) > 0 && len(line)+1+len(word) > width {
			lines, line = append(lines, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		line = append(line, word...)
		for len(line) > width {
			lines, line = append(lines, string(line[:width])), line[width:]
		}
	}
	return append(lines, string(line))
}
