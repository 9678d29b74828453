// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"bytes"
	"context"
	"fmt"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// license is the beginning of every Go file that a person wrote.
const license = "// SPDX-License-Identifier: Apache-2.0\n// SPDX-FileCopyrightText: The Operator Labs authors\n"

// largest is the maximum size in bytes of a file in git.
const largest = 1 << 20

// longest is the maximum number of lines of a Go file of scripts or clusters. Readers find the place for a change by
// the names of files.
const longest = 500

var files = Check{
	Name:     "files",
	Sentence: "files are small, licensed, and name no path of a person's machine",
	Find:     findFiles,
	Fix:      fixLicenses,
}

// homes matches paths in people's own folders.
var homes = regexp.MustCompile(`/(home|Users)/[a-z][a-z0-9._-]*/|/root/[a-z.]|[A-Z]:\\Users\\`)

func findFiles(ctx context.Context, r *Repository) ([]Finding, error) {
	names, err := r.files(ctx)
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(r.Root)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, name := range names {
		info, err := os.Stat(r.path(name))
		if err != nil {
			return nil, err
		}
		if info.Size() > largest {
			findings = append(findings, Finding{
				Location: name, ByHand: true,
				Message: fmt.Sprintf("has %d KiB: git keeps every version of it, so make it smaller than %d KiB",
					info.Size()>>10, largest>>10),
			})
			continue
		}
		content, err := os.ReadFile(r.path(name))
		if err != nil {
			return nil, err
		}
		if path.Ext(name) == ".go" && !isTestdata(name) && !bytes.HasPrefix(content, []byte(license)) &&
			!isGeneratedGo(content) {
			findings = append(findings, Finding{Location: name, Message: "does not begin with the two SPDX lines"})
		}
		if lines := bytes.Count(content, []byte("\n")); lines > longest && hasShortFiles(name) && !isGeneratedGo(content) {
			findings = append(findings, Finding{
				Location: name, ByHand: true,
				Message: fmt.Sprintf("has %d lines, and may have %d: split it by topic", lines, longest),
			})
		}
		for i, line := range strings.Split(string(content), "\n") {
			found := homes.FindString(line)
			if found == "" && len(absolute) > 1 && strings.Contains(line, absolute+"/") {
				found = absolute
			}
			if found != "" {
				findings = append(findings, Finding{
					Location: fmt.Sprintf("%s:%d", name, i+1), ByHand: true,
					Message: fmt.Sprintf("names %s, which is there on one machine only: "+
						"take a path from the root or an environment variable", found),
				})
			}
		}
	}
	return findings, nil
}

// hasShortFiles reports whether a file is Go code of scripts or clusters. A solution may show a whole topic in one
// file.
func hasShortFiles(name string) bool {
	ours := strings.HasPrefix(name, "scripts/") || strings.HasPrefix(name, "clusters/")
	return ours && path.Ext(name) == ".go" && !isTestdata(name)
}

func fixLicenses(ctx context.Context, r *Repository) ([]string, error) {
	names, err := r.files(ctx)
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, name := range names {
		if path.Ext(name) != ".go" || isTestdata(name) || isLab(name) {
			continue
		}
		content, err := os.ReadFile(r.path(name))
		if err != nil {
			return changed, err
		}
		if bytes.HasPrefix(content, []byte(license)) || isGeneratedGo(content) {
			continue
		}
		if err := r.replace(name, append([]byte(license+"\n"), content...)); err != nil {
			return changed, err
		}
		changed = append(changed, name)
	}
	return changed, nil
}

var formatting = Check{
	Name:     "format",
	Sentence: "Go files are formatted",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		var findings []Finding
		err := r.eachUnformatted(ctx, func(name string, have, want []byte) error {
			finding, err := r.stale(ctx, name, have, want, "gofmt formats it another way")
			findings = append(findings, finding)
			return err
		})
		return findings, err
	},
	Fix: func(ctx context.Context, r *Repository) ([]string, error) {
		var changed []string
		err := r.eachUnformatted(ctx, func(name string, _, want []byte) error {
			if isLab(name) {
				return nil
			}
			changed = append(changed, name)
			return r.replace(name, want)
		})
		return changed, err
	},
}

func (r *Repository) eachUnformatted(ctx context.Context, do func(name string, have, want []byte) error) error {
	names, err := r.files(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if path.Ext(name) != ".go" || isTestdata(name) {
			continue
		}
		have, err := os.ReadFile(r.path(name))
		if err != nil {
			return err
		}
		want, err := format.Source(have)
		if err != nil {
			return fmt.Errorf("%s is not Go: %w", name, err)
		}
		if bytes.Equal(have, want) {
			continue
		}
		if err := do(name, have, want); err != nil {
			return err
		}
	}
	return nil
}
