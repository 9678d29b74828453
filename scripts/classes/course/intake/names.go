// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxName is the maximum length of a student's name, in bytes. File names contain it.
const maxName = 64

// safeName returns a name that is safe as a file name on any system: letters, digits, and . - _ @ + inside it. It
// returns an empty string if no such character is left.
func safeName(name string) string {
	var safe strings.Builder
	for _, r := range norm.NFC.String(strings.ToValidUTF8(name, "-")) {
		inside := strings.ContainsRune(".-_@+", r)
		if !inside && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r, inside = '-', true
		}
		if r == '-' && strings.HasSuffix(safe.String(), "-") || inside && safe.Len() == 0 {
			continue
		}
		if safe.Len()+utf8.RuneLen(r) > maxName {
			break
		}
		safe.WriteRune(r)
	}
	return strings.TrimRight(safe.String(), ".-_@+")
}

// studentNames returns a name for each student of the sources: the name that people use, made safe. If several students
// have the same name, or names that differ only in case, all of them get a suffix that is derived from their identity.
func studentNames(sources []source) map[string]string {
	names, fold := map[string]string{}, map[string]map[string]bool{}
	for _, s := range sources {
		safe := safeName(s.name)
		if safe == "" {
			safe = "student"
		}
		names[s.identity] = safe
		key := strings.ToLower(safe)
		if fold[key] == nil {
			fold[key] = map[string]bool{}
		}
		fold[key][s.identity] = true
	}
	for identity, safe := range names {
		// A long name was cut, so it gets a suffix even if it is unique.
		if len(fold[strings.ToLower(safe)]) > 1 || safe == "student" || len(safe) > maxName-9 {
			for len(safe) > maxName-9 {
				_, size := utf8.DecodeLastRuneInString(safe)
				safe = safe[:len(safe)-size]
			}
			sum := sha256.Sum256([]byte(identity))
			names[identity] = safe + "-" + hex.EncodeToString(sum[:4])
		}
	}
	return names
}

// printable removes from a text what would control a terminal or break a line, and limits its length.
func printable(text string) string {
	const most = 600
	var out strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		if out.Len() > most {
			out.WriteString("…")
			break
		}
		if !unicode.IsPrint(r) {
			r = '\ufffd'
		}
		out.WriteRune(r)
	}
	return out.String()
}
