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

// maxName is how long a student's name may be, in bytes: names of files are made of it.
const maxName = 64

// safeName makes a name that is safe as the name of a file, on any system: letters, digits, and . - _ @ + inside it. It
// is empty if nothing of the name is left.
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

// studentNames gives each student of the sources a name: that which people use, made safe. Where several have the same
// one, or one that differs only in the case of its letters, all of them get a suffix that is made of what is unique
// about them.
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
		// A long name was cut, so it gets a suffix also if it is the only one.
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

// printable is a text without what would steer a terminal or break a line, and not endless.
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
