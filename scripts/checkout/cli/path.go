// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"al.essio.dev/pkg/shellescape"
)

// Relative returns a path as a user would type it: relative if it is below the working folder, and quoted if it has
// special characters of a shell.
func Relative(path string) string {
	if folder, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(short) {
			path = short
		}
	}
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		// A folder's name may contain control sequences of a terminal. (bash(1), "words of the form $'string'")
		escaped := strconv.Quote(path)
		return "$'" + strings.ReplaceAll(escaped[1:len(escaped)-1], "'", `\'`) + "'"
	}
	return shellescape.Quote(path)
}
