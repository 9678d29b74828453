// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package reference finds the archive of programs that a checkout uses. It opens no archive: the bootstrap calls it,
// and compiles the program that opens archives only if there is one.
package reference

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// LockFile is the file of a checkout that names an archive for each system.
	LockFile = "programs.lock"
	// Variable is the environment variable that names another archive. The Makefile sets it from PROGRAMS.
	Variable = "OPERATOR_LABS_PROGRAMS"
)

// digest is a SHA-256 in hexadecimal.
var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Reference names an archive by a file or URL, and by the SHA-256 of its manifest if that is known.
type Reference struct {
	// Source is a file, or a URL that begins with http:// or https://.
	Source string
	// SHA256 is in hexadecimal, or empty.
	SHA256 string
}

func (r Reference) String() string {
	if r.SHA256 == "" {
		return r.Source
	}
	return r.Source + "@sha256:" + r.SHA256
}

// IsURL reports whether the archive is fetched by HTTP.
func (r Reference) IsURL() bool { return strings.Contains(r.Source, "://") }

// Parse reads a reference: FILE, URL, FILE@sha256:DIGEST or URL@sha256:DIGEST.
func Parse(text string) (r Reference, err error) {
	source, sum, locked := strings.Cut(text, "@sha256:")
	if source == "" || locked && !digest.MatchString(sum) {
		return r, fmt.Errorf("%q names no archive: it must be FILE or URL, and may end in @sha256: and 64 hexadecimal digits",
			text)
	}
	if r = (Reference{source, sum}); !r.IsURL() {
		return r, nil
	}
	parsed, err := url.Parse(source)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return r, fmt.Errorf("%q names no archive: its URL must begin with http:// or https:// and a host", text)
	}
	return r, nil
}

// Locked returns the archive that a checkout uses on a system, such as linux/amd64: the one that the environment
// variable names, or the one in the lock file. ok is false if there is none, or if the variable is "none". A file is
// relative to the working folder in the variable, and to the checkout in the lock file.
func Locked(root, system string) (r Reference, ok bool, err error) {
	if text := os.Getenv(Variable); text != "" {
		if text == "none" {
			return r, false, nil
		}
		r, err = Parse(text)
		return r, err == nil, err
	}
	file, err := os.Open(filepath.Join(root, LockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("reading which archive of programs to use: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			return r, false, fmt.Errorf("%s:%d: a line must be a system and an archive, such as linux/amd64 https://…@sha256:…",
				LockFile, number)
		}
		if words[0] != system {
			continue
		}
		if r, err = Parse(words[1]); err == nil && r.SHA256 == "" {
			err = fmt.Errorf("%q has no SHA-256, so it can't be checked", words[1])
		}
		if err != nil {
			return r, false, fmt.Errorf("%s:%d: %w", LockFile, number, err)
		}
		if !r.IsURL() && !filepath.IsAbs(r.Source) {
			r.Source = filepath.Join(root, r.Source)
		}
		return r, true, nil
	}
	return r, false, lines.Err()
}
