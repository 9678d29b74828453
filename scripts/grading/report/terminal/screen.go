// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Screen describes what the destination of the output can show.
type Screen struct {
	// Interactive is true on a terminal, where a line can be overwritten. If it is false, lines are plain and never
	// wrapped.
	Interactive bool
	// Width is the width of an interactive screen, in columns.
	Width int
	// Color is true if colours may be used.
	Color bool
	// Unicode is true if marks and bars may be Unicode characters. Otherwise they are ASCII.
	Unicode bool
}

// Detect examines a writer and the environment: NO_COLOR (no-color.org), TERM, and the locale.
func Detect(w io.Writer, getenv func(string) string) Screen {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return Screen{}
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	return fromEnvironment(width, getenv)
}

// fromEnvironment returns what a terminal of this width can show.
func fromEnvironment(width int, getenv func(string) string) Screen {
	if getenv("TERM") == "dumb" {
		return Screen{}
	}
	return Screen{
		Interactive: true,
		Width:       width,
		Color:       getenv("NO_COLOR") == "",
		Unicode:     showsUnicode(getenv),
	}
}

// showsUnicode follows POSIX: the first of the three variables that is set decides. If none is set, as in most
// containers, it assumes that the terminal shows Unicode. The kernel's own console is the exception.
func showsUnicode(getenv func(string) string) bool {
	if getenv("TERM") == "linux" {
		return false
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			locale = strings.ToLower(locale)
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return true
}
